"""Small jobs whose run times have a heavy tail and say nothing of them, and one that needs the whole cluster."""

import random

from ares.check.replay.trace import Trace, TraceJob, fleet
from ares.model.job import Gang, JobSpec, Resources
from ares.sim.traces.outcome import Outcome

WIDE = "wide"
_NODES, _LOAD, _SHAPE, _LEAST_S = 8, 0.8, 1.3, 20.0


def heavy(seed: int, count: int = 600) -> Trace:
    """Pareto run times on eight nodes of one CPU; the wide job comes when a quarter of the small ones have."""
    chance = random.Random(seed)
    runs = [min(50_000.0, _LEAST_S * chance.paretovariate(_SHAPE)) for _ in range(count)]
    gap_s, at, jobs = sum(runs) / count / (_NODES * _LOAD), 0.0, list[TraceJob]()
    for n, run_s in enumerate(runs):
        at += chance.expovariate(1 / gap_s)
        jobs.append(_job(f"s{n}", at, run_s, f"t{n % 4}", 1))
    jobs.append(_job(WIDE, jobs[count // 4].submit, 100.0, "w", _NODES))
    return Trace("heavy", tuple(sorted(jobs, key=lambda job: job.submit)), fleet(_NODES, 1))


def _job(name: str, at: float, run_s: float, tenant: str, ranks: int) -> TraceJob:
    spec = JobSpec(
        command=("true",),
        name="wide" if ranks > 1 else "small",
        resources=Resources(cpu_milli=1000, memory_mib=1),
        gang=None if ranks == 1 else Gang(ranks=ranks),
    )
    return TraceJob(id=name, submit=at, run_s=run_s, spec=spec, tenant=tenant)


def wait_of_wide(outcome: Outcome) -> float:
    jobs = outcome.jobs
    at = jobs.id.tolist().index(WIDE)
    return float(jobs.first_start[at] - jobs.submit[at])


def crowded(seed: int, count: int = 120) -> Trace:
    """Heavy-tailed jobs of one to three CPUs on six nodes of four, and among them some that need one or three whole
    nodes: there is always another node that looks as if it came free sooner."""
    chance = random.Random(seed)
    runs = [min(20_000.0, _LEAST_S * chance.paretovariate(1.2)) for _ in range(count)]
    gap_s, at, jobs = sum(runs) / count * 2 / (6 * 4 * 0.9), 0.0, list[TraceJob]()
    for n, run_s in enumerate(runs):
        at += chance.expovariate(1 / gap_s)
        whole = n % 10 == 9
        spec = JobSpec(
            command=("true",),
            name="wide" if whole else "small",
            resources=Resources(cpu_milli=4000 if whole else 1000 * chance.choice((1, 1, 2, 3)), memory_mib=1),
            gang=Gang(ranks=3) if n % 30 == 29 else None,
        )
        jobs.append(TraceJob(id=f"j{n}", submit=at, run_s=100.0 if whole else run_s, spec=spec, tenant=f"t{n % 5}"))
    return Trace("crowded", tuple(jobs), fleet(6, 4))
