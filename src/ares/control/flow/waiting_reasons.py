"""Why a WAITING job is not queued: a person, a time, or other jobs; and what a job on a node waits for."""

from collections.abc import Callable

from ares.api.reasons import Reason
from ares.control.flow.flow_index import FlowIndex
from ares.control.flow.standings import ParentStandings
from ares.control.state.view import View
from ares.core.dataset import PREFIX
from ares.core.lifecycle.owners import is_away
from ares.core.lifecycle.waiting import needy
from ares.core.needs.verdict import judge
from ares.core.text import span
from ares.model.job import JobSpec
from ares.model.state import BOUND, JobState
from ares.ports.clock import Clock


def in_cluster(state: JobState) -> Reason:
    """Of a job that a cluster of the federation has, or is asked to take."""
    owner = state.owner
    assert owner is not None, "only a job with an owner is away"
    if owner.stage == "OFFERED":
        message = f"it was offered to cluster {owner.cluster}, which has not answered yet"
    else:
        message = f"it is with cluster {owner.cluster}: {state.reason or 'it has not said more yet'}"
    return Reason(code="IN_CLUSTER", message=message)


class WaitingReasons:
    def __init__(
        self, view: View, flows: FlowIndex, clock: Clock, waits_for: Callable[[str], str] = lambda _: ""
    ) -> None:
        # The endpoint that a job on a node waits for.
        self._waits_for = waits_for
        self._flows = flows
        self._view = view
        self._clock = clock
        self._standings = ParentStandings(view)

    def of(self, state: JobState, spec: JobSpec | None) -> Reason | None:
        """The first that keeps it; None for a job that waits for none of these."""
        if state.phase in BOUND:
            return self._paused(state)
        if state.phase != "WAITING" or spec is None:
            return None
        if is_away(state):
            return in_cluster(state)
        if state.held_by:
            said = f": {state.reason}" if state.reason and not state.reason.startswith("held by") else ""
            message = f"it is held by {state.held_by}{said}; `ares release {state.id}` lets it go"
            return Reason(code="HELD", message=message)
        if needy(spec, state) and state.flow is not None:
            flow = self._view.kept.flows.get(state.flow)
            if flow is None or not flow.whole:
                message = "its workflow is still being written"
                return Reason(code="WAITING_FOR_FLOW", message=message)
        if spec.needs and not state.needs_met:
            found = judge(spec, state.index, self._standings.seen_by(state.tenant))
            if found.verdict == "open" and found.parents and found.parents[0].startswith(PREFIX):
                return Reason(code="WAITING_FOR_DATA", message=f"{found.message}: `ares data put DIR NAME`")
            if found.verdict == "open":
                numbers = {"met": found.met, "wanted": found.wanted}
                return Reason(code="WAITING_FOR_JOB", message=found.message + self._now(found.parents), numbers=numbers)
            if found.verdict == "impossible" or not spec.finally_:
                return Reason(code="WAITING_FOR_JOB", message="what it waited for was decided a moment ago")
        if needy(spec, state) and state.flow is not None:
            left = self._flows.others_open(state.flow)
            message = f"it runs when the other jobs of its workflow have ended: {left} have not"
            return Reason(code="WAITING_FOR_FLOW", message=message, numbers={"open": left})
        left_s = 0.0 if spec.begin_at is None else max(0.0, spec.begin_at - self._clock.wall())
        return Reason(
            code="BEGIN_AT", message=f"it begins in {span(left_s)}, not before", numbers={"leftS": round(left_s)}
        )

    def _paused(self, state: JobState) -> Reason | None:
        endpoint = self._waits_for(state.id)
        if not endpoint:
            return None
        message = (
            f"its bytes wait for {endpoint}, where too many requests of the tenant failed; they go on by themselves "
            "when it answers again, and no retry is used up"
        )
        return Reason(code="STORAGE_PAUSED", message=message)

    def _now(self, parents: tuple[str, ...]) -> str:
        """The phase of the first of them."""
        entry = self._view.entries.get(parents[0]) if parents else None
        if entry is None:
            return ""
        name = f" ({entry.state.name})" if entry.state.name != "job" else ""
        return f"; {parents[0]}{name} is {entry.state.phase}"
