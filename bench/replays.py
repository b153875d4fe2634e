"""(g) Replays of traces on the real scheduling core: one process, one core, EASY backfilling.

Seconds are of this process's CPU time, so that neighbours on the machine count for less. The baseline is the same
schedule by a loop over lists that knows processors alone: no lifecycle, no nodes, no records.
"""

import heapq
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from msgspec.structs import replace as put

from ares.app.processes import look_for_garbage_less_often
from ares.check.replay.trace import Trace, TraceJob, fleet
from ares.model.job import Gang, JobSpec, Resources
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.formats import read
from ares.sim.traces.policies import ReplayPolicy, policy
from bench.report import Row, judged, missing
from bench.scale import Scale

_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
# Name, file, and the most seconds that a replay may take.
_LOGS = (("KTH-SP2", "easy/KTH-SP2.csv.gz", 6.0), ("SDSC-SP2", "easy/SDSC-SP2-user-estimate.csv.gz", 14.0))
# Logs that the default profile replays too, so many jobs of each: at most so many times as long as EASY.
_BY_DEFAULT = (("KTH-SP2", "easy/KTH-SP2.csv.gz"), ("Philly as of Muri", "muri/trace1.csv.gz"))
_DEFAULT_JOBS, _DEFAULT_MOST = 5000, 3.0
_REFERENCE = ReplayOptions(event_order="reference")
_EASY, _DEFAULT = policy("easy"), policy("default")
# Of the made GPU trace: as much as the cluster can do, so that jobs wait; how long they run on average and at most.
_LOAD, _MEAN_S, _MOST_S = 1.0, 3600.0, 28_800
_MADE_TARGET_S = 120.0


async def rows(scale: Scale, folder: Path) -> list[Row]:
    del folder
    look_for_garbage_less_often()
    return [*_logs(scale), *_by_default(scale), *_made(*scale.replayed)]


def _logs(scale: Scale) -> Iterator[Row]:
    for name, file, target in _LOGS:
        if not (_DATA / file).is_file():
            yield missing("g", f"EASY on {name}", "no log beside the project (expected under ../shared/data/easy)")
            continue
        log = read(_DATA / file)
        log = replace(log, jobs=log.jobs[: scale.logged])
        took, plain = _seconds(log), _plain_seconds(log)
        count, whole = len(log.jobs), scale.logged is None
        yield Row(
            "g", f"EASY on {name}, {count:,} jobs", f"{took:.1f} s", took,
            f"a loop over lists: {plain:.2f} s", took / plain, f"<= {target:g} s" if whole else "",
            judged(took <= target) if whole else "", f"{1e6 * took / count:,.0f} us a job",
        )  # fmt: skip
        double = _seconds(_doubled(log))
        yield Row(
            "g", f"EASY on {name} twice in a row, {2 * count:,} jobs", f"{double:.1f} s", double,
            f"once: {took:.1f} s", double / took, "<= 2.1", judged(double <= 2.1 * took), "cost per job as a log grows",
        )  # fmt: skip


def _by_default(scale: Scale) -> Iterator[Row]:
    for name, file in _BY_DEFAULT:
        if not (_DATA / file).is_file():
            yield missing(
                "g", f"the default profile on {name}", f"no log beside the project (expected at ../shared/data/{file})"
            )
            continue
        log = read(_DATA / file)
        log = replace(log, jobs=log.jobs[: min(_DEFAULT_JOBS, scale.logged or _DEFAULT_JOBS)])
        easy, took = (_seconds(log, _EASY, ReplayOptions()), _seconds(log, _DEFAULT, ReplayOptions()))
        yield Row(
            "g", f"the default profile on {name}, {len(log.jobs):,} jobs", f"{took:.1f} s", took,
            f"EASY: {easy:.1f} s", took / easy, f"<= {_DEFAULT_MOST:g}", judged(took <= _DEFAULT_MOST * easy),
            f"{1e6 * took / len(log.jobs):,.0f} us a job, by predictions, shares and preemption",
        )  # fmt: skip


def _made(jobs: int, nodes: int) -> Iterator[Row]:
    took = {count: _seconds(gpu_trace(count, nodes)) for count in (jobs // 10, jobs)}
    whole = jobs >= 100_000
    yield Row(
        "g", f"EASY, {jobs:,} GPU jobs on {nodes:,} nodes of 8 GPUs", f"{took[jobs]:.1f} s", took[jobs],
        f"a tenth of the jobs: {took[jobs // 10]:.1f} s", took[jobs] / took[jobs // 10],
        f"<= {_MADE_TARGET_S:g} s" if whole else "", judged(took[jobs] <= _MADE_TARGET_S) if whole else "",
        f"{1e6 * took[jobs] / jobs:,.0f} us a job; one in twenty is a gang of 2 to 8 nodes",
    )  # fmt: skip


def _seconds(trace: Trace, by: ReplayPolicy = _EASY, options: ReplayOptions | None = None) -> float:
    began = time.process_time()
    replay(trace, by, options or (_REFERENCE if len(trace.nodes) == 1 else ReplayOptions()))
    return time.process_time() - began


def _doubled(log: Trace) -> Trace:
    """The same jobs once more, after the last of them."""
    first, last = log.jobs[0].submit, log.jobs[-1].submit
    later = (put(job, id=f"{job.id} again", submit=job.submit + last - first + 1.0) for job in log.jobs)
    return replace(log, jobs=(*log.jobs, *later))


# ---- a trace of GPU jobs


def gpu_trace(jobs: int, nodes: int, seed: int = 1) -> Trace:
    """Jobs of 1 to 64 GPUs and 50 users, as many as fill all nodes; users say too much rather than too
    little."""
    chance = random.Random(seed)
    made = [_job(chance) for _ in range(jobs)]
    gpus = sum(_gpus(spec) * run_s for spec, run_s in made) / jobs
    every_s = gpus / (8 * nodes * _LOAD)
    at, found = 0.0, list[TraceJob]()
    for number, (spec, run_s) in enumerate(made):
        at += chance.expovariate(1 / every_s)
        found.append(TraceJob(id=str(number), submit=at, run_s=run_s, spec=spec, tenant=f"u{chance.randrange(50)}"))
    return Trace(f"{jobs} GPU jobs", tuple(found), fleet(nodes, 96, 8, "A100", 1 << 20))


def _job(chance: random.Random) -> tuple[JobSpec, float]:
    run_s = float(min(_MOST_S, round(chance.lognormvariate(0.0, 1.5) * _MEAN_S / 2.4) + 1))
    ranks = chance.choice((2, 4, 8)) if chance.random() < 0.05 else 1
    gpus = 8 if ranks > 1 else chance.choices((1, 2, 4, 8), (70, 12, 10, 8))[0]
    wants = Resources(cpu_milli=8000 * gpus, memory_mib=16_384 * gpus, gpus=gpus)
    stated = float(round(run_s * chance.uniform(1.0, 4.0)))
    gang = Gang(ranks=ranks) if ranks > 1 else None
    return JobSpec(command=("true",), resources=wants, gang=gang, expected_runtime_s=stated), run_s


def _gpus(spec: JobSpec) -> int:
    return spec.resources.gpus * (1 if spec.gang is None else spec.gang.ranks)


# ---- the same schedule without a scheduler


def _plain_seconds(log: Trace) -> float:
    jobs = [
        (job.submit, job.run_s, job.spec.resources.cpu_milli // 1000, job.spec.time_limit_s or 0.0) for job in log.jobs
    ]
    run = partial(_plain_easy, jobs, log.nodes[0].cpu_milli // 1000)
    began = time.process_time()
    run()
    return time.process_time() - began


_Plain = tuple[float, float, int, float]


def _plain_easy(jobs: list[_Plain], processors: int) -> list[float]:
    """One line, one promise to its first; submissions come before ends of the same moment."""
    starts, line = [0.0] * len(jobs), list[int]()
    ends, holding = list[tuple[float, int]](), dict[int, float]()
    at = 0
    while at < len(jobs) or ends:
        if at < len(jobs) and (not ends or jobs[at][0] <= ends[0][0]):
            now = jobs[at][0]
            line.append(at)
            at += 1
            if jobs[line[-1]][2] > _free(jobs, processors, holding, now):
                continue
        else:
            now, job = heapq.heappop(ends)
            del holding[job]
        for job in _pass(jobs, line, holding, processors, now):
            starts[job] = now
            heapq.heappush(ends, (now + jobs[job][1], job))
    return starts


def _free(jobs: list[_Plain], processors: int, holding: dict[int, float], now: float) -> int:
    return processors - sum(jobs[job][2] for job, until in holding.items() if until > now)


def _pass(jobs: list[_Plain], line: list[int], holding: dict[int, float], processors: int, now: float) -> Iterator[int]:
    free = _free(jobs, processors, holding, now)
    while line and jobs[line[0]][2] <= free:
        free -= jobs[line[0]][2]
        holding[line[0]] = now + jobs[line[0]][3]
        yield line.pop(0)
    if not line:
        return
    promised, spare = _shadow(jobs, holding, jobs[line[0]][2], free, now)
    for job in line[1:]:
        _, _, wants, runs = jobs[job]
        if wants <= free and (now + runs <= promised or wants <= spare):
            spare -= 0 if now + runs <= promised else wants
            free -= wants
            holding[job] = now + runs
            line.remove(job)
            yield job


def _shadow(jobs: list[_Plain], holding: dict[int, float], wants: int, free: int, now: float) -> tuple[float, int]:
    """When the first in line has room by what the others say, and what is to spare then."""
    promised = float("inf")
    for until, processors in sorted((until, jobs[job][2]) for job, until in holding.items() if until > now):
        if until > promised:
            break
        free += processors
        if free >= wants:
            promised = until
    return promised, free - wants
