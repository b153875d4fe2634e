"""Whether a job with a deadline will meet it, by the estimates of those who run and of those ahead of it.

The jobs ahead are put into the future one after the other, as backfill would, and then the job itself.
"""

from collections.abc import Iterator
from math import inf
from typing import Any, Literal, NamedTuple

from ares.core.predict.estimate import Estimate
from ares.core.queue.order import account_of
from ares.core.queue.waiting import ClassKey, JobClass, class_key
from ares.core.reserve.words import clock, count, span
from ares.core.schedule.ask import Ask
from ares.core.schedule.claims import Claim
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.eta import start_estimate
from ares.core.schedule.explain import infeasible
from ares.core.schedule.faster import named, paced_jobs
from ares.core.schedule.models import choices
from ares.core.schedule.openings import Opening, earliest
from ares.core.schedule.round import Round
from ares.core.schedule.turns import Turns
from ares.model.base import Record
from ares.model.job import JobSpec
from ares.model.state import JobState

Verdict = Literal["yes", "no", "unknown"]

# Jobs ahead that are put into the future; beyond them nobody can say.
_AHEAD_MAX = 128


class Outlook(Record, frozen=True):
    """Seconds since the epoch. Four of five like jobs end between `ends_low` and `ends_high`."""

    verdict: Verdict
    message: str
    deadline_at: float | None = None
    start_by_at: float | None = None
    starts_at: float | None = None
    ends_at: float | None = None
    ends_low: float | None = None
    ends_high: float | None = None
    # What the times rest on.
    basis: str = ""


class Course(NamedTuple):
    """When a job will start and how long it will run, as far as anybody can say."""

    start: float
    runs: Estimate | None
    basis: str


def outlook(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Outlook | None:
    """Of a job that waits, or would if it were submitted now. None when it has no deadline."""
    if spec.deadline_at is None and spec.start_by_at is None:
        return None
    return judged(spec, course(cluster, state, spec, now), now)


def course(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Course | str:
    """Or why nobody can say. The cluster is left as it was."""
    cluster.prepare()
    never = infeasible(cluster, class_key(state, spec), now)
    if never is not None:
        return f"it can never run as it is: {never.message}"
    if state.id in cluster.waiting:
        return _waiting(cluster, state, spec, now)
    runs = cluster.predictor.estimate(spec, account_of(state))
    cluster.waiting.add(state, spec, inf if runs is None else runs.seconds)
    try:
        return _waiting(cluster, state, spec, now)
    finally:
        cluster.waiting.remove(state.id)


def _waiting(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Course | str:
    one = cluster.waiting.class_of(state.id)
    assert one is not None, f"{state.id} waits"
    if one.key.asks[0].runs and (slot := paced_jobs(cluster, now).get(state.id)) is not None:
        lasts_s = slot.end - slot.start
        runs = Estimate(lasts_s, lasts_s, lasts_s, "the run times it states")
        if slot.model is not None:
            runs = cluster.predictor.estimate(spec, account_of(state), slot.model)
        others = len(cluster.waiting) - 1
        beside = f", planned together with {count(others, 'job')} that wait" if others else ""
        where = "several GPU models" if slot.model is None else named(slot.model)
        return Course(slot.start, runs, f"on {where}{beside}")
    round_ = Round(cluster, cluster.profile, now)
    try:
        return _behind(round_, state, spec, one)
    finally:
        round_.claims.lift()
        round_.close()


def _behind(round_: Round, state: JobState, spec: JobSpec, one: JobClass) -> Course | str:
    """After everybody who is ahead of it."""
    cluster, ahead = round_.cluster, 0
    for job, other in _ahead(round_, state.id):
        ahead += 1
        if ahead > _AHEAD_MAX:
            return f"more than {_AHEAD_MAX} jobs are ahead of it"
        runs_s = cluster.waiting.runs_of(job)
        opening = _first(round_, other.key, runs_s)
        if opening is not None:
            round_.claims.add(Claim(job, opening.start, opening.start + runs_s, opening.taken))
    best: tuple[float, Course] | None = None
    why = ""
    for ask, model in _asks(cluster, one.key):
        runs = cluster.predictor.estimate(spec, account_of(state), model)
        seconds = inf if runs is None else runs.seconds
        opening = _opening(round_, one.key, ask, seconds)
        if isinstance(opening, str):
            why = why or opening
            continue
        ends = opening.start + (0.0 if runs is None else runs.seconds)
        if best is None or ends < best[0]:
            best = ends, Course(opening.start, runs, _basis(round_, opening, ahead))
    return why if best is None else best[1]


def _ahead(round_: Round, job: str) -> Iterator[tuple[str, JobClass]]:
    waiting = round_.cluster.waiting
    if waiting.settled is not None:
        for _, _, place in waiting.settled.ahead(job):
            if (one := waiting.class_of(place[3])) is not None:
                yield place[3], one
        return
    for other, one in Turns(round_).rest():
        if other == job:
            return
        yield other, one


def _asks(cluster: Cluster, key: ClassKey) -> Iterator[tuple[Ask, str | None]]:
    """What it asks for, on each GPU model apart where it says that they differ."""
    for ask in key.asks:
        apart = [(one.ask, one.slowest) for one in choices(cluster.table, ask)]
        yield from apart or [(ask, ask.gpu_model)]


def _first(round_: Round, key: ClassKey, runs_s: float) -> Opening | None:
    found = [_opening(round_, key, ask, runs_s) for ask in key.asks]
    return min((one for one in found if not isinstance(one, str)), key=lambda one: one.start, default=None)


def _opening(round_: Round, key: ClassKey, ask: Ask, runs_s: float) -> Opening | str:
    """From when on there is room, or why nobody can say."""
    if (key.licences or round_.profile.shares) and round_.gate(key, ask) is not None:
        eta = start_estimate(round_, key, ask, 0)
        return eta.basis if eta.latest is None else Opening(eta.earliest, ())
    found = earliest(round_.cluster, round_.txn, round_.claims, ask, round_.now, runs_s)
    if found is not None:
        return found
    eta = start_estimate(round_, key, ask, 0)
    return eta.basis if eta.latest is None else "jobs ahead of it do not say how long they run"


def _basis(round_: Round, opening: Opening, ahead: int) -> str:
    if opening.start <= round_.now:
        return "there is room now"
    cluster = round_.cluster
    names = {record.info.name for one in opening.taken if (record := cluster.table.records[one.row]) is not None}
    jobs = {job for name in names for job in cluster.on_node.get(name, ())}
    ends = sum((cluster.holdings[job].ends_at or inf) <= opening.start for job in jobs)
    parts = [f"{count(ends, 'job')} that {'holds' if ends == 1 else 'hold'} its place"] if ends else []
    parts += [f"{count(ahead, 'job')} ahead of it"] if ahead else []
    return f"by the estimates of {' and '.join(parts)}" if parts else "by what is booked"


# ---- the verdict


def judged(spec: JobSpec, found: Course | str, now: float) -> Outlook:
    """What the course of a job means for its deadline."""
    said: dict[str, Any] = {"deadline_at": spec.deadline_at, "start_by_at": spec.start_by_at}
    if isinstance(found, str):
        verdict: Verdict = "no" if found.startswith("it can never") else "unknown"
        words = "it cannot be met" if verdict == "no" else "nobody can say whether it can be met"
        return Outlook(verdict=verdict, message=f"{words}: {found}", **said)
    start, runs, basis = found
    said["starts_at"] = start
    if spec.start_by_at is not None and start > spec.start_by_at:
        late = f"it starts about {clock(start, now)} at the earliest, {span(start - spec.start_by_at)} too late"
        return Outlook(
            verdict="no", message=f"it cannot be met by the estimates: {late} ({basis})", basis=basis, **said
        )
    if spec.deadline_at is None:
        words = f"it can be met: it starts about {clock(start, now)} ({basis})"
        return Outlook(verdict="yes", message=words, basis=basis, **said)
    if runs is None:
        words = "nobody can say whether it can be met: nothing tells how long the job runs"
        return Outlook(verdict="unknown", message=words, basis=basis, **said)
    ends = start + runs.seconds
    said |= {"ends_at": ends, "ends_low": start + runs.low, "ends_high": start + runs.high}
    ends_words = f"it ends about {clock(ends, now)}{_interval(start, runs, now)}"
    basis = f"{basis}, {runs.basis}"
    if ends <= spec.deadline_at:
        words = f"it can be met: {ends_words}, {span(spec.deadline_at - ends)} before its deadline ({basis})"
        return Outlook(verdict="yes", message=words, basis=basis, **said)
    words = f"it cannot be met by the estimates: {ends_words}, {span(ends - spec.deadline_at)} too late ({basis})"
    return Outlook(verdict="no", message=words, basis=basis, **said)


def _interval(start: float, runs: Estimate, now: float) -> str:
    if runs.high - runs.low < 60.0:
        return ""
    return f" (80 %: {clock(start + runs.low, now)} to {clock(start + runs.high, now)})"
