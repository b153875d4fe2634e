"""(m) A wide job among small ones of which nobody knows how long they run: how long it waits, beside exact run times.

Eight mock GPUs on one agent, small jobs with heavy-tailed run times and no limits that come and go, and a gang of eight
ranks that comes when a quarter of them have. Once nothing is said of run times, and once the truth; the same jobs at
the same distances. Then the same in the simulator, for every policy that bounds a wait, with the bound itself judged.
"""

import asyncio
import random
import statistics
import time
from pathlib import Path

from ares.check.replay.checker import Checker
from ares.edge.client.sync import Client
from ares.model.job import Gang, JobSpec, Resources
from ares.model.state import TERMINAL
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.policies import policy
from bench.report import Row, judged
from bench.scale import Scale
from tests.platform import Platform, eventually
from tests.unit.sim.traces.heavy import crowded, heavy, wait_of_wide

RATIO_MAX = 1.5
# A start takes this long whatever is known: waits of less than it say nothing.
_STARTS_S = 1.0
_GPUS, _LOAD, _SHAPE, _LEAST_S, _MOST_S = 8, 0.7, 1.3, 0.2, 20.0
_WAIT_S = 600.0
_POLICIES = ("default", "easy", "easy-sjbf", "aggressive")


async def rows(scale: Scale, folder: Path) -> list[Row]:
    live = await asyncio.to_thread(_live, scale, folder)
    return [live, *(_simulated(name, scale) for name in _POLICIES), _bounded(scale)]


# ---- live


def _live(scale: Scale, folder: Path) -> Row:
    waits: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(scale.starved_rounds):
        for exact, found in waits.items():
            with Platform(folder / f"{seed}-{exact}") as platform:
                platform.server()
                platform.agent("n1", gpus=_GPUS)
                found.append(_wait(platform.client(timeout_s=60.0), seed, scale.starved_jobs, exact=exact))
    silent, told = (statistics.median(waits[exact]) for exact in (False, True))
    ratio = max(silent, _STARTS_S) / max(told, _STARTS_S)
    each = "; ".join(f"{a:.1f} and {b:.1f} s" for a, b in zip(waits[False], waits[True], strict=True))
    return Row(
        "m", f"wait of a gang of {_GPUS} behind small jobs without limits, live", f"{silent:.1f} s", silent,
        f"{told:.1f} s with exact run times", ratio, f"<= {RATIO_MAX:g}", judged(ratio <= RATIO_MAX), each,
    )  # fmt: skip


def _wait(client: Client, seed: int, count: int, *, exact: bool) -> float:
    """Open loop: jobs come when they come, whatever became of those before."""
    chance = random.Random(seed)
    runs = [min(_MOST_S, _LEAST_S * chance.paretovariate(_SHAPE)) for _ in range(count)]
    gap_s, at, began, wide = sum(runs) / count / (_GPUS * _LOAD), 0.0, time.monotonic(), ""
    for n, run_s in enumerate(runs):
        at += chance.expovariate(1 / gap_s)
        time.sleep(max(0.0, began + at - time.monotonic()))
        client.submit(_spec(run_s, 1, exact=exact))
        if n == count // 4:
            wide = client.submit(_spec(_LEAST_S, _GPUS, exact=exact)).id
    return eventually(lambda: _over(client, wide), "the end of the wide job", _WAIT_S)


def _over(client: Client, job: str) -> float | None:
    found = client.get(job).state
    if found.phase not in TERMINAL or found.started_at is None:
        return None
    return found.started_at - found.submitted_at


def _spec(run_s: float, ranks: int, *, exact: bool) -> JobSpec:
    return JobSpec(
        command=("sleep", f"{run_s:.3f}"),
        name="wide" if ranks > 1 else "small",
        resources=Resources(cpu_milli=10, memory_mib=16, gpus=1),
        gang=Gang(ranks=ranks) if ranks > 1 else None,
        expected_runtime_s=run_s if exact else None,
    )


# ---- in the simulator


def _simulated(name: str, scale: Scale) -> Row:
    seeds = range(scale.starved_seeds)
    exact = [wait_of_wide(replay(heavy(seed), policy(f"{name}@exact"))) for seed in seeds]
    waits = [wait_of_wide(replay(heavy(seed), policy(f"{name}@predicted"))) for seed in seeds]
    ratio = statistics.median(waits) / max(statistics.median(exact), 1.0)
    most = max(wait / max(other, 60.0) for wait, other in zip(waits, exact, strict=True))
    return Row(
        "m", f"the same in the simulator, {name}, {len(seeds)} seeds", f"{statistics.median(waits):,.0f} s",
        statistics.median(waits), f"{statistics.median(exact):,.0f} s with exact run times", ratio,
        f"<= {RATIO_MAX:g}", judged(ratio <= RATIO_MAX), f"at most {most:.2f} times, in one of them",
    )  # fmt: skip


def _bounded(scale: Scale) -> Row:
    waits = slipped = broken = 0
    for name in _POLICIES:
        for seed in range(scale.starved_seeds):
            by, made = policy(f"{name}@predicted"), crowded(seed, 400)
            checker = Checker(made, by.name, by.profile)
            replay(made, by, ReplayOptions(log=checker))
            found = checker.verdict()
            waits, slipped, broken = waits + found.bounded, slipped + found.slipped, broken + found.broken
    note = f"{waits:,} waits, {slipped:,} of them beyond what was told; {', '.join(_POLICIES)}, each with predictions"
    what, met = "waits beyond their bound, heavy-tailed loads", judged(not broken)
    return Row("m", what, f"{broken}", broken, target="0", verdict=met, note=note)
