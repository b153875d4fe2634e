"""The rights of an agent: it may report on ranks that are placed on its own node only. Any other message is refused,
counted and recorded."""

import structlog

from ares.control.execution.commands import grants
from ares.control.execution.enrolment import SessionRefused
from ares.control.execution.session import AgentSession, Key
from ares.control.governance.alerts import Alerts
from ares.control.governance.audit import Audit
from ares.control.state.view import View
from ares.core.lifecycle.checkpoints import saving_place
from ares.core.lifecycle.ranks import holds, place_of
from ares.model.audit import AuditDraft
from ares.model.link import AttemptRef, LogChunk
from ares.model.state import JobState
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()


class Rights:
    """The rights of all agents connected to this replica."""

    def __init__(self, view: View, audit: Audit, alerts: Alerts, telemetry: Telemetry) -> None:
        self._view = view
        self._audit = audit
        self._alerts = alerts
        self._telemetry = telemetry

    def may_report(self, session: AgentSession, ref: AttemptRef, rank: int) -> bool:
        """Whether the rank is placed on the session's own node."""
        entry = self._view.entries.get(ref.job)
        if entry is None or entry.state.tenant != ref.tenant or not holds(entry.state):
            return False
        place = place_of(entry.state.placements, rank) or place_of(entry.state.leaving, rank)
        return place is not None and (place.node, place.incarnation) == (session.node, session.incarnation)

    def may_log(self, session: AgentSession, chunk: LogChunk) -> bool:
        """Whether it is output of the attempt that has the rank on this node."""
        return self.may_tell(session, chunk.ref, chunk.rank, chunk.attempt)

    def may_tell(self, session: AgentSession, ref: AttemptRef, rank: int, attempt: int) -> bool:
        """Whether what is told is of the attempt that has the rank on this node."""
        if not self.may_report(session, ref, rank):
            return False
        state = self._view.entries[ref.job].state
        return attempt == state.attempt and ref.fence <= state.fence

    def may_upload(self, session: AgentSession, key: Key) -> bool:
        """Whether the attempt is the current one, and the rank is placed on the session's node and has not ended."""
        ref, rank = key
        entry = self._view.entries.get(ref.job)
        if entry is None or not grants(entry.state, ref, rank) or rank in entry.state.ended_ranks:
            return False
        place = place_of(entry.state.placements, rank)
        return place is not None and (place.node, place.incarnation) == (session.node, session.incarnation)

    def may_save(self, session: AgentSession, key: Key) -> bool:
        """Whether the rank, placed on the session's node, may save a checkpoint: also while it is preempted."""
        ref, rank = key
        entry = self._view.entries.get(ref.job)
        if entry is None or entry.state.tenant != ref.tenant:
            return False
        place = saving_place(entry.state, ref.fence, rank)
        return place is not None and (place.node, place.incarnation) == (session.node, session.incarnation)

    def is_stale(self, session: AgentSession, ref: AttemptRef, rank: int) -> bool:
        """Whether the attempt was revoked so long ago that its placement was released."""
        entry = self._view.entries.get(ref.job)
        stale = entry is not None and ref.fence < entry.state.fence
        return stale and not self.may_report(session, ref, rank)

    def note(self, session: AgentSession, what: str, ref: AttemptRef, rank: int) -> None:
        """Records a refused message, unless it may be a late one about an attempt that was granted."""
        entry = self._view.entries.get(ref.job)
        state = None if entry is None else entry.state
        if not _forged(state, ref, session.node):
            return
        # Only names that the control plane knows go into the log.
        job, tenant = ("", "") if state is None else (f"jobs/{state.id}", state.tenant)
        log.warning("agent.not_granted", node=session.node, what=what, job=job, rank=rank)
        self._deny(session.node, what, "not_granted", job, tenant)

    async def refused(self, node: str, refusal: SessionRefused) -> SessionRefused:
        """Records the refusal in the audit log. Two agents with one identity are a mistake, or an attack."""
        if refusal.reason:
            self._deny(node, "openSession", refusal.reason, f"nodes/{node}", "")
        if refusal.reason == "duplicate":
            text = f"two agents have the identity of node {node}: {refusal}"
            await self._alerts.raise_("duplicate-agent", "", f"nodes/{node}", text)
        if refusal.reason == "malformed":
            text = f"the agent of node {node} was refused: {refusal}; correct it, or take its certificate back"
            await self._alerts.raise_("agent-malformed", "", f"nodes/{node}", text)
        return refusal

    def _deny(self, node: str, what: str, reason: str, about: str, tenant: str) -> None:
        self._telemetry.count("ares_auth_denials_total", 1, reason)
        self._audit.tell(
            AuditDraft(
                operation=what, outcome="DENY", reason=reason, user=node, role="node", tenant=tenant, object=about
            )
        )


def _forged(state: JobState | None, ref: AttemptRef, node: str) -> bool:
    """Whether the node never had this attempt. A report of an attempt that was revoked is late, not forged. For a gang
    that was resized it is no longer known which nodes it had."""
    if state is None or state.tenant != ref.tenant or ref.fence > state.fence:
        return True
    if ref.fence < state.fence or state.generation:
        return False
    return all(place.node != node for place in (*state.placements, *state.leaving))
