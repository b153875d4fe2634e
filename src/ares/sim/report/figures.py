"""The figures of several replays of one trace, as programs get them. The HTML report draws these and no others."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ares.check.replay.rules import ReplayVerdict
from ares.model.base import Record
from ares.sim.report import metrics
from ares.sim.traces.outcome import Floats, Outcome
from ares.sim.traces.starts import StartsVerdict
from ares.sim.traces.summary import Summary, bounded_slowdowns, summary

SCHEMA = "ares.simulation/1"
BINS = 300
# Every half percent, and the far end, where the jobs are that people complain about.
SHARES = (*(n / 200 for n in range(200)), 0.999, 1.0)


class OverTime(Record, frozen=True):
    """Column by column, one entry per stretch of `every_s` from `begin_s` on, in the time of the trace."""

    begin_s: float
    every_s: float
    # Means, shares of what there was at the start.
    cpu_utilisation: tuple[float, ...]
    gpu_utilisation: tuple[float, ...]
    queued_mean: tuple[float, ...]
    queued_max: tuple[int, ...]


class Distribution(Record, frozen=True):
    """At most `values[i]` for the part `shares[i]` of the jobs that ended."""

    shares: tuple[float, ...]
    wait_s: tuple[float, ...]
    jct_s: tuple[float, ...]
    bounded_slowdown: tuple[float, ...]


class Run(Record, frozen=True):
    """One policy."""

    policy: str
    # Where it takes the run times of jobs from.
    estimates: str
    nodes: int
    cpus: float
    gpus: float
    summary: Summary
    # Against the first policy, in percent; none where the first has 0.
    change_percent: dict[str, float | None]
    over_time: OverTime
    spread: Distribution
    cycles: int
    events: int
    node_failures: int
    wall_s: float
    digest: str
    warnings: tuple[str, ...]
    # What an independent checker says of every decision; null when it was not asked.
    checked: ReplayVerdict | None
    # Whether jobs started when they were told they would; null when they were told nothing.
    starts: StartsVerdict | None


class Figures(Record, frozen=True):
    schema: str
    trace: str
    seed: int
    event_order: str
    jobs: int
    runs: tuple[Run, ...]


class ReplayJudgement(NamedTuple):
    """What was found out about a replay beside its outcome, if asked for."""

    verdict: ReplayVerdict | None = None
    starts: StartsVerdict | None = None


def figures(outcomes: Sequence[Outcome], judged: Sequence[ReplayJudgement] = ()) -> Figures:
    """Of at least one outcome; the others are compared with the first."""
    beside = judged or [ReplayJudgement()] * len(outcomes)
    facts = outcomes[0].facts
    summaries = [summary(outcome) for outcome in outcomes]
    # One grid for all, so that lines can be laid over one another.
    begin, end = min(outcome.facts.began for outcome in outcomes), max(outcome.facts.ended for outcome in outcomes)
    own = zip(outcomes, summaries, beside, strict=True)
    runs = (_run(*parts, summaries[0], begin, end) for parts in own)
    return Figures(
        schema=SCHEMA,
        trace=facts.trace,
        seed=facts.seed,
        event_order=facts.event_order,
        jobs=len(outcomes[0].jobs.id),
        runs=tuple(runs),
    )


def plain(found: msgspec.Struct) -> Any:
    """As JSON has it. Numbers that JSON has no word for become null."""
    return msgspec.json.decode(msgspec.json.encode(found))


def _run(outcome: Outcome, own: Summary, judged: ReplayJudgement, first: Summary, begin: float, end: float) -> Run:
    facts = outcome.facts
    changes = {
        _camel(metric.field): metrics.change(metric, metrics.value_of(own, metric), metrics.value_of(first, metric))
        for metric in metrics.METRICS
    }
    return Run(
        policy=facts.policy,
        estimates=facts.estimates,
        nodes=len(facts.nodes),
        cpus=facts.cpu_milli / 1000,
        gpus=facts.gpu_milli / 1000,
        summary=own,
        change_percent=changes,
        over_time=_over_time(outcome, begin, end),
        spread=_spread(outcome),
        cycles=facts.cycles,
        events=facts.events,
        node_failures=facts.node_failures,
        wall_s=facts.wall_s,
        digest=outcome.digest(),
        warnings=facts.warnings,
        checked=judged.verdict,
        starts=judged.starts,
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest)


# ---- over time


def _over_time(outcome: Outcome, begin: float, end: float) -> OverTime:
    facts, ran, series = outcome.facts, outcome.intervals, outcome.series
    edges = np.linspace(begin, end if end > begin else begin + 1.0, BINS + 1)
    cpu = _mean_use(edges, ran.begin, ran.end, ran.cpu_milli.astype(np.float64))
    gpu = _mean_use(edges, ran.begin, ran.end, ran.gpu_milli.astype(np.float64))
    return OverTime(
        begin_s=begin,
        every_s=float(edges[1] - edges[0]),
        cpu_utilisation=_rounded(cpu / max(facts.cpu_milli, 1)),
        gpu_utilisation=_rounded(gpu / max(facts.gpu_milli, 1)),
        queued_mean=_rounded(_means(edges, series.time, series.queued.astype(np.float64)), 2),
        queued_max=tuple(int(value) for value in _highest(edges, series.time, series.queued.astype(np.float64))),
    )


def _mean_use(edges: Floats, begin: Floats, end: Floats, amount: Floats) -> Floats:
    """What was in use on average between two edges, exactly."""
    times = np.concatenate((begin, end))
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(np.concatenate((amount, -amount))[order])
    return _means(edges, times, level)


def _means(edges: Floats, times: Floats, values: Floats) -> Floats:
    """Of a value that stays until the next moment, and is 0 before the first."""
    if not len(times):
        return np.zeros(len(edges) - 1)
    area = np.concatenate(((0.0,), np.cumsum(np.diff(times) * values[:-1])))
    # After the last moment it stays as it is: the area goes on with its slope.
    until = np.interp(edges, times, area) + np.maximum(edges - times[-1], 0.0) * values[-1]
    return np.diff(until) / np.diff(edges)


def _highest(edges: Floats, times: Floats, values: Floats) -> Floats:
    """The highest value in each stretch, counting what it began with."""
    if not len(times):
        return np.zeros(len(edges) - 1)
    at = np.searchsorted(times, edges[:-1], side="right") - 1
    found = np.where(at >= 0, values[np.maximum(at, 0)], 0.0)
    stretch = np.searchsorted(edges, times, side="right") - 1
    np.maximum.at(found, np.clip(stretch, 0, len(found) - 1), values)
    return found


def _rounded(values: Floats, digits: int = 4) -> tuple[float, ...]:
    # Sums that cancel out leave dust below zero.
    return tuple(float(value) for value in np.round(np.maximum(values, 0.0), digits))


# ---- distributions


def _spread(outcome: Outcome) -> Distribution:
    jobs = outcome.jobs
    ended = ~np.isnan(jobs.end) & ~np.isnan(jobs.first_start)
    return Distribution(
        shares=SHARES if ended.any() else (),
        wait_s=_quantiles((jobs.first_start - jobs.submit)[ended]),
        jct_s=_quantiles((jobs.end - jobs.submit)[ended]),
        bounded_slowdown=_quantiles(bounded_slowdowns(outcome)[ended]),
    )


def _quantiles(values: Floats) -> tuple[float, ...]:
    """Values that occur: between two jobs there is none."""
    if not len(values):
        return ()
    found = np.quantile(values, SHARES, method="inverted_cdf")
    return tuple(float(value) for value in np.round(found, 4))
