"""Preempts jobs that use gaps, early enough that their resources are free when the gap ends.

Leader only. The checkpoint signal is their warning; then they leave like any preempted job, and wait again.
"""

import structlog

from ares.control.execution.transitions import JobChange, Transitions, Written
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.view import Delta, View
from ares.core.lifecycle.inputs import Preempt
from ares.core.schedule.preempt.record import moved_record
from ares.core.text import clock as moment
from ares.model.state import BOUND, JobState
from ares.ports.clock import Clock
from ares.ports.store import Compare, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_LOOK_EVERY_S = 0.5


class Gaps:
    def __init__(
        self, view: View, planner: LiveCluster, transitions: Transitions, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._view = view
        self._planner = planner
        self._transitions = transitions
        self._clock = clock
        self._telemetry = telemetry
        # Jobs that run in a gap: when it ends.
        self._until: dict[str, float] = {}
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._until.clear()
        for _, entry in delta.states:
            self._index(entry.state)
        for state in delta.removed:
            self._until.pop(state.id, None)

    def _index(self, state: JobState) -> None:
        if state.phase in BOUND and state.leaves_at is not None:
            self._until[state.id] = state.leaves_at
        elif self._until:
            self._until.pop(state.id, None)

    async def run(self, guard: Compare) -> None:
        """Until cancelled; `guard` ties every change to this leadership."""
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            try:
                await self.look(guard)
            except StoreError as error:
                log.warning("gaps.delayed", error=str(error))

    async def look(self, guard: Compare) -> None:
        """Preempts the jobs whose gap ends soon."""
        now, holdings = self._clock.wall(), self._planner.cluster.holdings
        due = [
            job
            for job, until in self._until.items()
            if (holding := holdings.get(job)) is not None and now >= until - holding.leave_s
        ]
        if not due:
            return
        outcomes = await self._transitions.apply([self._leave(job, guard) for job in sorted(due)])
        gone = sum(isinstance(outcome, Written) for outcome in outcomes)
        self._telemetry.count("ares_preemptions_total", gone, "gap")
        log.info("gaps.over", jobs=gone)

    def _leave(self, job: str, guard: Compare) -> JobChange:
        state, now = self._view.entries[job].state, self._clock.wall()
        what = Preempt(
            fence=state.fence,
            by="scheduler",
            reason=f"the gap it ran in ends at {moment(self._until[job], now)}",
            record=moved_record("gap", "", self._planner.cluster.holdings[job], now),
        )
        return JobChange(job, state.tenant, (what,), (guard,))
