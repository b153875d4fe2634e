"""Whether a job with a deadline will meet it, by when it starts and how long it runs."""

from typing import Any

from ares.api.deadlines import Outlook, Verdict
from ares.core.forecast.estimate import Estimate
from ares.core.schedule.cluster import Cluster
from ares.core.starts.starts import Course, Starts
from ares.core.steps import Steps, in_steps
from ares.core.text import clock, span
from ares.model.job import JobSpec
from ares.model.state import JobState


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
