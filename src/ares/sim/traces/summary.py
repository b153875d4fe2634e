"""The figures of a replay."""

import numpy as np

from ares.model.base import Record
from ares.sim.traces.outcome import Bools, Floats, Outcome

# Jobs shorter than this do not count as slowed down by waiting for as long again.
SLOWDOWN_BOUND_S = 10.0
# The share of jobs that count as wide.
_WIDE = 0.05
_J_PER_KWH = 3_600_000.0


class Summary(Record, frozen=True):
    """Of all jobs that ended. Seconds, shares of one, kWh, and money in the pools' currency."""

    policy: str
    trace: str
    jobs: int
    # Never started, or never ended.
    unfinished: int
    failed: int
    mean_jct_s: float
    median_jct_s: float
    p95_jct_s: float
    mean_wait_s: float
    median_wait_s: float
    p95_wait_s: float
    # Mean of max(1, (wait + run) / max(run, 10 s)).
    bounded_slowdown: float
    # From the first submission to the last end.
    makespan_s: float
    cpu_utilisation: float
    gpu_utilisation: float
    # Mean over time of the share of idle GPU that the typical job cannot use.
    fragmentation: float
    # Jain's index over tenants of the mean share of its time between submission and end that a job ran, which is
    # one over its bounded slowdown: 1 when all tenants are served alike, 1/n when one alone is served.
    jain: float
    deadlines: int
    deadline_misses: int
    energy_kwh: float
    cost: float
    preemptions: int
    attempts: int
    # Of all, and of wide jobs: the twentieth of the jobs with the most CPUs, and all with as many as the least of them.
    longest_wait_s: float = 0.0
    # All but one of a thousand jobs wait no longer.
    p999_wait_s: float = 0.0
    wide_mean_wait_s: float = 0.0
    wide_longest_wait_s: float = 0.0


def summary(outcome: Outcome) -> Summary:
    jobs, facts = outcome.jobs, outcome.facts
    ended = ~np.isnan(jobs.end) & ~np.isnan(jobs.first_start)
    slow, jct = bounded_slowdowns(outcome)[ended], (jobs.end - jobs.submit)[ended]
    wait = (jobs.first_start - jobs.submit)[ended]
    cpu, gpu = _utilisation(outcome)
    return Summary(
        policy=facts.policy,
        trace=facts.trace,
        jobs=len(jobs.id),
        unfinished=int((~ended).sum()),
        failed=int((jobs.phase == "FAILED").sum()),
        mean_jct_s=_mean(jct),
        median_jct_s=_quantile(jct, 0.5),
        p95_jct_s=_quantile(jct, 0.95),
        mean_wait_s=_mean(wait),
        median_wait_s=_quantile(wait, 0.5),
        p95_wait_s=_quantile(wait, 0.95),
        bounded_slowdown=_mean(slow),
        makespan_s=facts.ended - facts.began,
        cpu_utilisation=cpu,
        gpu_utilisation=gpu,
        fragmentation=_over_time(outcome.series.time, outcome.series.fragmentation, facts.ended),
        jain=jain(_by_tenant(jobs.tenant[ended], 1.0 / slow)),
        deadlines=int((~np.isnan(jobs.deadline)).sum()),
        deadline_misses=int(jobs.late.sum()),
        energy_kwh=float(jobs.energy_j.sum()) / _J_PER_KWH,
        cost=float(jobs.cost.sum()),
        preemptions=int(jobs.preemptions.sum()),
        attempts=int(jobs.attempts.sum()),
        longest_wait_s=_longest(wait),
        p999_wait_s=_quantile(wait, 0.999),
        wide_mean_wait_s=_mean(wait[_wide(jobs.cpus)[ended]]),
        wide_longest_wait_s=_longest(wait[_wide(jobs.cpus)[ended]]),
    )


def bounded_slowdowns(outcome: Outcome) -> Floats:
    """Of every job; whatever was not the run that ended it counts as waiting. NaN where it never ended."""
    jobs = outcome.jobs
    return np.maximum(1.0, (jobs.end - jobs.submit) / np.maximum(jobs.run, SLOWDOWN_BOUND_S))


def jain(values: Floats) -> float:
    """1 when all are equal, 1/n when one has everything."""
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else 1.0


def _by_tenant(tenants: np.ndarray, values: Floats) -> Floats:
    _, codes = np.unique(tenants, return_inverse=True)
    return np.bincount(codes, weights=values) / np.maximum(np.bincount(codes), 1)


def _utilisation(outcome: Outcome) -> tuple[float, float]:
    facts, ran = outcome.facts, outcome.intervals
    span = facts.ended - facts.began
    seconds = ran.end - ran.begin
    used = float((seconds * ran.cpu_milli).sum()), float((seconds * ran.gpu_milli).sum())
    cpu, gpu = (
        done / (span * there) if span > 0 and there else 0.0
        for done, there in zip(used, (facts.cpu_milli, facts.gpu_milli), strict=True)
    )
    return cpu, gpu


def _over_time(time: Floats, values: Floats, until: float) -> float:
    """The mean of a quantity that stays as it is until the next moment."""
    if not len(time):
        return 0.0
    lasts = np.diff(np.append(time, max(until, time[-1])))
    return float((lasts * values).sum() / lasts.sum()) if lasts.sum() > 0 else float(values[-1])


def _wide(cpus: Floats) -> Bools:
    most = np.sort(cpus)[::-1]
    return cpus >= most[max(1, int(len(most) * _WIDE)) - 1] if len(most) else np.zeros(0, np.bool_)


def _longest(values: Floats) -> float:
    return float(values.max()) if len(values) else 0.0


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _quantile(values: Floats, at: float) -> float:
    return float(np.quantile(values, at)) if len(values) else 0.0
