"""Whether a job with a deadline will meet it, and changes with which it would: each one is tried."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from ares.api.deadlines import Outlook, Verdict, Way
from ares.core.forecast.estimate import Estimate
from ares.core.queue.waiting import JobClass
from ares.core.schedule.actions.evict import prospects
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Eviction
from ares.core.schedule.trial import Trial
from ares.core.starts.starts import Course, Starts
from ares.core.steps import Steps, in_steps
from ares.core.text import clock, span
from ares.model.job import PRIORITIES, JobSpec
from ares.model.state import JobState

_WAYS_MAX = 4


class _DeadlineChange(NamedTuple):
    fields: dict[str, Any]
    words: str
    spec: JobSpec
    # Victims leave for it.
    evicts: bool = False


@in_steps
def ways(
    cluster: Cluster, state: JobState, spec: JobSpec, now: float, starts: Starts | None = None
) -> Steps[tuple[Way, ...]]:
    """Changes that meet the deadline, the earliest end first. `starts` may be the ones that other jobs were told."""
    starts, place = starts or Starts(cluster, now), _stands(cluster, state.id)
    tried: list[Way | None] = []
    for option in _options(cluster, spec):
        if (stands := cluster.waiting.place_of(state.id)) != place and (
            not stands or not place or stands[:4] != place[:4]
        ):
            # The job left the queue since the last step, or stands elsewhere.
            return ()
        if option.evicts:
            course = _displacing(cluster, state, option.spec, now)
        else:
            (course,) = yield from starts.steps(state, (option.spec,), None if place is None else spec)
        tried.append(_met(option, course, now))
        yield
    found = [way for way in tried if way is not None]
    least = max((PRIORITIES.index(way.fields["priority"]) for way in found if "priority" in way.fields), default=0)
    # No higher priority than need be.
    found = [way for way in found if way.fields.get("priority", PRIORITIES[least]) == PRIORITIES[least]]
    best: dict[str, Way] = {}
    for way in sorted(found, key=_soonest):
        best.setdefault(str(way.fields), way)
    return tuple(best.values())[:_WAYS_MAX]


def _stands(cluster: Cluster, job: str) -> tuple[object, ...] | None:
    """The job's place in the queue; classes are numbered anew when the last job of one comes back."""
    place = cluster.waiting.place_of(job)
    return None if place is None else place[:4]


def _soonest(way: Way) -> tuple[float, str]:
    return (way.starts_at if way.ends_at is None else way.ends_at), way.message


def _options(cluster: Cluster, spec: JobSpec) -> Iterator[_DeadlineChange]:
    wants, gang = spec.resources, spec.gang
    if wants.gpus:
        records = [record for record in cluster.table.records if record is not None]
        for model in sorted({gpu.model for record in records for gpu in record.info.gpus if not gpu.mig}):
            if model != wants.gpu_model and not (wants.gpu_model is None and spec.expected_runtimes_s):
                changed = replace(spec, resources=replace(wants, gpu_model=model))
                yield _DeadlineChange({"resources.gpuModel": model}, f"on {model}", changed)
    if wants.gpus > 1:
        half = wants.gpus // 2
        changed = _longer(replace(spec, resources=replace(wants, gpus=half)), wants.gpus / half)
        yield _DeadlineChange(
            {"resources.gpus": half}, f"with {half} of {wants.gpus} GPUs, if it then {_slower(2.0)}", changed
        )
    if gang is not None and gang.ranks > 1:
        half = gang.ranks // 2
        least = None if gang.min_ranks is None else min(gang.min_ranks, half)
        changed = _longer(replace(spec, gang=replace(gang, ranks=half, min_ranks=least)), gang.ranks / half)
        fields: dict[str, Any] = {"gang.ranks": half} | ({} if least is None else {"gang.minRanks": least})
        yield _DeadlineChange(
            fields, f"with {half} of {gang.ranks} ranks, if it then {_slower(gang.ranks / half)}", changed
        )
    for level in range(PRIORITIES.index(spec.priority) - 1, -1, -1):
        changed = replace(spec, priority=PRIORITIES[level])
        yield _DeadlineChange({"priority": PRIORITIES[level]}, f"with priority {PRIORITIES[level]}", changed)
        yield _DeadlineChange(
            {"priority": PRIORITIES[level]}, f"with priority {PRIORITIES[level]}", changed, evicts=True
        )


def _slower(times: float) -> str:
    return f"runs {times:g} times as long"


def _longer(spec: JobSpec, times: float) -> JobSpec:
    """With less to compute on, the job takes longer: at worst so many times."""
    runs = spec.expected_runtime_s
    return replace(
        spec,
        expected_runtime_s=None if runs is None else times * runs,
        expected_runtimes_s={model: times * seconds for model, seconds in spec.expected_runtimes_s.items()},
    )


def _met(option: _DeadlineChange, found: Course | str | None, now: float) -> Way | None:
    if found is None or isinstance(found, str):
        return None
    seen = judged(option.spec, found, now)
    if seen.verdict != "yes" or seen.starts_at is None:
        return None
    when = f"ends about {clock(seen.ends_at, now)}" if seen.ends_at is not None else f"starts {clock(found.start, now)}"
    words = f"{option.words}: {when}" + (f", {found.basis}" if option.evicts else "")
    return Way(fields=option.fields, message=words, starts_at=seen.starts_at, ends_at=seen.ends_at)


def _displacing(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Course | None:
    """The job starts when its victims have left."""
    key = cluster.waiting.key_of(state, spec)
    with Trial.what_if(cluster, now) as trial:
        evicts = prospects(trial, state.id, JobClass(0, key))
    if not isinstance(evicts, Eviction):
        return None
    leave_s = max((cluster.holdings[job].leave_s for job in evicts.victims), default=0.0)
    model = _model(cluster, evicts)
    runs = cluster.predictor.estimate(spec, key.account, model)
    return Course(now + leave_s, runs, f"displacing {len(evicts.victims)} job{'' if len(evicts.victims) == 1 else 's'}")


def _model(cluster: Cluster, evicts: Eviction) -> str | None:
    place = next((placement for placement in evicts.hold if placement.gpus), None)
    record = None if place is None else cluster.table.records[cluster.rows[place.node]]
    if place is None or record is None:
        return None
    return next((gpu.model for gpu in record.info.gpus if gpu.index == place.gpus[0]), None)


@in_steps
def outlook(
    cluster: Cluster, state: JobState, spec: JobSpec, now: float, starts: Starts | None = None
) -> Steps[Outlook | None]:
    """The outlook of a job that waits, or would if it were submitted now. None when it has no deadline. `starts` may
    be the ones that other jobs were told."""
    if spec.deadline_at is None and spec.start_by_at is None:
        return None
    (found,) = yield from (starts or Starts(cluster, now)).steps(state, (spec,))
    return judged(spec, found, now)


# ---- the verdict


def judged(spec: JobSpec, found: Course | str, now: float) -> Outlook:
    """What the expected start and run time of a job mean for its deadline."""
    said: dict[str, Any] = {"deadline_at": spec.deadline_at, "start_by_at": spec.start_by_at}
    if isinstance(found, str):
        verdict: Verdict = "no" if found.startswith("it can never") else "unknown"
        words = "it cannot be met" if verdict == "no" else "nobody can say whether it can be met"
        return Outlook(verdict=verdict, message=f"{words}: {found}", **said)
    start, runs, basis = found.start, found.runs, found.basis
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
