"""What a job, a submission and a placement cost in CPU time, against the figures kept in budget.json.

Each is a ratio to something measured beside it in the same round: a job's to the bare spawn, a submission's and a
placement's to the store's own commit of a job's records. It is fit for a machine with other work: CPU time is counted,
rounds of all of them go by turns, and the least of the rounds is taken, for other work can only add to it: by cold
caches, and by smaller waves, which "jobs per cycle" shows.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares.ports.store import TXN_OPS_MAX
from bench import machine, work
from bench.http import Connection
from bench.noops import finished
from bench.platform import Platform, platform
from bench.report import Row, Verdict
from bench.scale import Scale
from bench.scheduling import placement_s
from bench.submissions import single_rate, store_rate

KEPT = Path(__file__).parent / "budget.json"
# Runs of the same code on a busy machine differ by this much, and small figures by a tick of the clock.
TOLERANCE = 0.25
TICK = 0.1
WARM_UP = 64
SPAWN, COMMIT = "a bare spawn", "the store's commit"

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Item:
    """What is counted, the field of a round that has it in CPU milliseconds, and what it is a ratio to."""

    name: str
    what: str
    against: str


ITEMS = (
    Item("server", "a job, server", SPAWN),
    Item("planner", "a job, planner", SPAWN),
    Item("agent", "a job, agent", SPAWN),
    Item("slots", "a job, slots", SPAWN),
    Item("submission", "a single submission, server", COMMIT),
    Item("one_class", "a placement, one class", COMMIT),
    Item("mixed", "a placement, 500 mixed classes", COMMIT),
)


async def rows(scale: Scale, folder: Path, *, record: bool) -> list[Row]:
    jobs, queue = folder / "jobs", folder / "queue"
    jobs.mkdir()
    queue.mkdir()
    with platform(jobs) as running, platform(queue, with_agent=False) as waiting:
        spec = await _warm_up(running, scale)
        rounds = [await _round(running, waiting, spec, scale, number, folder) for number in range(scale.budget_rounds)]
    found = {name: min(figures[name] for figures in rounds) for name in rounds[0]}
    ratios = {item.name: found[item.name] / found[item.against] for item in ITEMS}
    kept: Mapping[str, float] = {} if record or not KEPT.exists() else json.loads(KEPT.read_text())
    if record:
        KEPT.write_text(json.dumps({name: round(ratio, 3) for name, ratio in ratios.items()}, indent=2) + "\n")
    return [_row(item, rounds, found, ratios[item.name], kept.get(item.name)) for item in ITEMS]


def _row(item: Item, rounds: list[Figures], least: Figures, ratio: float, kept: float | None) -> Row:
    dearest = max(figures[item.name] for figures in rounds)
    note = f"least of {len(rounds)} rounds, the dearest {dearest:.3f} ms"
    if item.against == SPAWN:
        waves = [figures["per_cycle"] for figures in rounds]
        note += f"; {min(waves):.0f} to {max(waves):.0f} jobs per cycle"
    return Row(
        "budget", item.what, f"{least[item.name]:.3f} ms", least[item.name],
        f"{item.against}: {least[item.against]:.3f} ms", ratio,
        "" if kept is None else f"kept: {kept:.2f}, {ratio / kept - 1:+.0%}", _verdict(ratio, kept), note,
    )  # fmt: skip


def _verdict(ratio: float, kept: float | None) -> Verdict:
    if kept is None:
        return ""
    return "pass" if ratio <= max(kept * (1 + TOLERANCE), kept + TICK) else "falls short"


async def _warm_up(running: Platform, scale: Scale) -> dict[str, Any]:
    line = await running.connect()
    nodes = await line.json("GET", "/v1/nodes")
    spec = work.noop(max(1, nodes["nodes"][0]["info"]["cpuMilli"] // scale.granted))
    await finished(line, spec, "warm-up", WARM_UP, scale.batch, WARM_UP, scale.timeout_s)
    await line.close()
    return spec


async def _round(
    running: Platform, waiting: Platform, spec: dict[str, Any], scale: Scale, number: int, folder: Path
) -> Figures:
    """CPU milliseconds of each item and of the two yardsticks."""
    found: Figures = {SPAWN: machine.spawning(scale.budget_spawns).cpu_ms}
    began = time.process_time()
    # One writer: how many commits share an fsync must not depend on the machine's other work.
    await store_rate(f"sqlite://{folder / f'{number}.db'}", scale.budget_commits, 1, TXN_OPS_MAX // work.PUTS_PER_JOB)
    found[COMMIT] = (time.process_time() - began) * 1000 / scale.budget_commits

    line = await running.connect()
    cycles, cpu = await _cycles(line), running.cpu_s()
    total = WARM_UP + (number + 1) * scale.budget_jobs
    await finished(line, spec, f"round-{number}", scale.budget_jobs, scale.batch, total, scale.timeout_s)
    found |= running.cpu_s().per_job_ms(cpu, scale.budget_jobs)
    found["per_cycle"] = scale.budget_jobs / max(1.0, await _cycles(line) - cycles)
    await line.close()

    before = waiting.cpu_s()
    await single_rate(waiting, scale.budget_singles, scale.connections, f"budget-{number}")
    found["submission"] = waiting.cpu_s().per_job_ms(before, scale.budget_singles)["server"]
    found["one_class"], found["mixed"] = (seconds * 1000 for seconds in placement_s())
    return found


async def _cycles(line: Connection) -> float:
    for text in (await line.text("/metrics")).splitlines():
        if text.startswith("ares_cycle_seconds_count"):
            return float(text.split()[-1])
    return 0.0
