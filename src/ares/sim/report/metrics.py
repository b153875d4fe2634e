"""The rows of the table that policies are compared by: what each figure means, its unit, and which way is better."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ares.sim.traces.summary import Summary

Kind = Literal["seconds", "share", "ratio", "count", "kwh", "money"]
Better = Literal["low", "high", ""]


class ComparedMetric(NamedTuple):
    # The name of the field in Summary.
    field: str
    title: str
    kind: Kind
    better: Better
    meaning: str
    # Shown even when it is zero under every policy.
    always: bool = True


METRICS = (
    ComparedMetric("mean_jct_s", "mean JCT", "seconds", "low", "from submission to the end"),
    ComparedMetric("median_jct_s", "median JCT", "seconds", "low", "half of the jobs are done within this"),
    ComparedMetric("p95_jct_s", "95 % JCT", "seconds", "low", "19 of 20 jobs are done within this"),
    ComparedMetric("mean_wait_s", "mean wait", "seconds", "low", "from submission to the first start"),
    ComparedMetric("median_wait_s", "median wait", "seconds", "low", "half of the jobs start within this"),
    ComparedMetric("p95_wait_s", "95 % wait", "seconds", "low", "19 of 20 jobs start within this"),
    ComparedMetric("bounded_slowdown", "bounded slowdown", "ratio", "low", "mean of max(1, JCT / max(run time, 10 s))"),
    ComparedMetric("makespan_s", "makespan", "seconds", "low", "from the first submission to the last end"),
    ComparedMetric(
        "gpu_utilisation", "GPU utilisation", "share", "high", "GPU time used of the GPU time there was", False
    ),
    ComparedMetric(
        "cpu_utilisation", "CPU utilisation", "share", "high", "CPU time used of the CPU time there was", False
    ),
    ComparedMetric("fragmentation", "fragmentation", "share", "low", "idle GPU that the typical job cannot use", False),
    ComparedMetric(
        "jain", "Jain index", "ratio", "high", "1: all tenants are served alike; 1/n: one of n alone is served"
    ),
    ComparedMetric("deadline_misses", "deadline misses", "count", "low", "jobs not done by their deadline", False),
    ComparedMetric("energy_kwh", "energy", "kwh", "low", "of all jobs", False),
    ComparedMetric("cost", "cost", "money", "low", "of all jobs, in the currency of the pools' prices", False),
    ComparedMetric("preemptions", "preemptions", "count", "low", "jobs that had to give way", False),
    ComparedMetric("failed", "failed", "count", "low", "jobs that ended in failure", False),
    ComparedMetric("unfinished", "unfinished", "count", "low", "jobs that never started or never ended", False),
)
# 0 means not measured: no job runs without energy, and an oracle has no machines.
_UNKNOWN_AT_ZERO = frozenset({"kwh", "money"})
_SIZES = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))


def shown(summaries: Sequence[Summary]) -> tuple[ComparedMetric, ...]:
    """Those that say something about these replays."""
    deadlines = any(summary.deadlines for summary in summaries)
    return tuple(
        metric
        for metric in METRICS
        if metric.always
        or any(getattr(summary, metric.field) for summary in summaries)
        or (metric.field == "deadline_misses" and deadlines)
    )


def value_of(summary: Summary, metric: ComparedMetric) -> float:
    return float(getattr(summary, metric.field))


def best(metric: ComparedMetric, values: Sequence[float]) -> frozenset[int]:
    """Which values are the best, as far as people see; none when all look the same."""
    words = [words_of(metric, value) for value in values]
    known = [value for value in values if value or metric.kind not in _UNKNOWN_AT_ZERO]
    if not metric.better or len({words_of(metric, value) for value in known}) < 2:
        return frozenset()
    top = words_of(metric, min(known) if metric.better == "low" else max(known))
    return frozenset(index for index, word in enumerate(words) if word == top)


def change(metric: ComparedMetric, value: float, first: float) -> float | None:
    """In percent of the first; None where that says nothing."""
    if first == 0.0 or (value == 0.0 and metric.kind in _UNKNOWN_AT_ZERO):
        return None
    return (value - first) / abs(first) * 100.0


def words_of(metric: ComparedMetric, value: float) -> str:
    """For people: 3.42 h, 71.3 %, 92.58, 1,204; a dash for what is not known."""
    if metric.kind in _UNKNOWN_AT_ZERO and not value:
        return "-"
    if metric.kind == "seconds":
        return time_words(value)
    if metric.kind == "share":
        return f"{value * 100:.1f} %"
    if metric.kind == "count":
        return f"{value:,.0f}"
    if metric.kind == "ratio":
        return f"{value:.3f}" if value < 10 else f"{value:,.2f}"
    return f"{value:,.1f} kWh" if metric.kind == "kwh" else f"{value:,.2f}"


def time_words(seconds: float) -> str:
    """In the largest unit of which there is one."""
    size, unit = next((unit_size for unit_size in _SIZES if seconds >= unit_size[0]), (1.0, "s"))
    found = seconds / size
    if not found:
        return "0 s"
    return f"{found:.2f} {unit}" if found < 100 else f"{found:,.0f} {unit}"


def change_words(percent: float | None) -> str:
    """-12.3 %; nothing where there is no such thing."""
    if percent is None or abs(percent) < 0.05:
        return ""
    return f"{percent:+.1f} %" if abs(percent) < 1000 else f"{percent:+,.0f} %"
