"""Attempts on a node whose agent is told to stop: they save their work and go on elsewhere, without using a retry."""

import structlog

from ares.control.execution.reports import LEAVING, taken_back
from ares.control.execution.session import AgentSession
from ares.control.execution.transitions import JobChange, Transitions, Written
from ares.control.state.view import View
from ares.core.lifecycle.ranks import why_not_preemptible
from ares.model.link import AttemptRef
from ares.model.state import BOUND, JobState
from ares.ports.clock import Clock
from ares.ports.store import StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# An attempt granted just before the agent said so is found at the next look.
_LOOK_EVERY_S = 0.5


class Handover:
    """The handover for agents connected to this replica."""

    def __init__(self, view: View, transitions: Transitions, clock: Clock, telemetry: Telemetry) -> None:
        self._view = view
        self._transitions = transitions
        self._clock = clock
        self._telemetry = telemetry

    async def run(self, session: AgentSession) -> None:
        """Begins when the agent says that it stops. A gang moves as a whole: all its ranks save their work together."""
        await session.left.wait()
        while True:
            try:
                await self._move(session)
            except StoreError as error:
                log.warning("handover.delayed", node=session.node, error=str(error))
            await self._clock.sleep(_LOOK_EVERY_S)

    async def _move(self, session: AgentSession) -> None:
        jobs = self._view.by_node.get(session.node, {})
        states = [self._view.entries[job].state for job in jobs]
        changes = [
            JobChange(state.id, state.tenant, (taken_back(_ref(state), session.node),))
            for state in states
            if state.phase in BOUND and self._movable(state)
        ]
        if not changes:
            return
        outcomes = await self._transitions.apply(changes)
        moved = sum(isinstance(outcome, Written) for outcome in outcomes)
        self._telemetry.count("ares_preemptions_total", moved, LEAVING)
        log.info("handover.moving", node=session.node, jobs=moved)

    def _movable(self, state: JobState) -> bool:
        spec = self._view.spec(state)
        return spec is not None and not why_not_preemptible(spec)


def _ref(state: JobState) -> AttemptRef:
    return AttemptRef(job=state.id, tenant=state.tenant, fence=state.fence)
