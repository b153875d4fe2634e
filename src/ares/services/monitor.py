"""Judges leases: takes attempts away from nodes that fell silent or came back as someone else.

Only the leader runs this. Silence is measured by this process's monotonic clock since it saw the
lease record change; the revocation compares that very record, so a renewal that lands first wins.
"""

import structlog

from ares.core import keys
from ares.core.run.handlers import revoked_fence
from ares.core.run.inputs import LeaseLost, Release
from ares.core.run.suspicion import Verdict, judge
from ares.model.state import BOUND, JobState
from ares.ports.clock import Clock
from ares.ports.store import Compare, StoreError
from ares.ports.telemetry import Telemetry
from ares.services.transitions import Change, Transitions, Written
from ares.services.view import LeaseEntry, View

log = structlog.get_logger()

DEAD_AFTER_S = 9.0
_SCAN_EVERY_S = 0.5


def ready(view: View, node: str) -> bool:
    """Whether the scheduler may place on the node: its agent renews, and is reached by a stream."""
    entry, age = view.leases.get(node), view.lease_age_s(node)
    return entry is not None and age is not None and age < DEAD_AFTER_S and bool(entry.lease.replica)


class Monitor:
    """Looks at every node that holds attempts, again and again."""

    def __init__(self, view: View, transitions: Transitions, clock: Clock, telemetry: Telemetry) -> None:
        self._view = view
        self._transitions = transitions
        self._clock = clock
        self._telemetry = telemetry
        self._verdict = Verdict()

    async def run(self) -> None:
        # What an earlier reign thought of the nodes says nothing about now.
        self._verdict = Verdict()
        while True:
            try:
                await self.scan()
            except StoreError as error:
                log.warning("monitor.scan_failed", error=str(error))
            await self._clock.sleep(_SCAN_EVERY_S)

    async def scan(self) -> None:
        """One look at every node that holds attempts."""
        if not self._view.connected:
            return
        now = self._clock.monotonic()
        ages = {node: now - entry.seen_at for node, entry in self._view.leases.items()}
        before, self._verdict = self._verdict, judge(ages, self._verdict, now, DEAD_AFTER_S)
        if before.paused_since is None and self._verdict.paused_since is not None:
            silent = sum(age >= DEAD_AFTER_S for age in ages.values())
            log.warning("monitor.storm", silent=silent, nodes=len(ages), pause_s=DEAD_AFTER_S)
        changes = [change for node in list(self._view.by_node) for change in self._lost_on(node, ages.get(node))]
        if not changes:
            return
        for change, outcome in zip(changes, await self._transitions.apply(changes), strict=True):
            if isinstance(outcome, Written):
                node = outcome.before.placements[0].node
                log.warning("attempt.lost", job=change.job, node=node, phase=outcome.state.phase)
                self._telemetry.count("ares_lease_losses_total")
                self._telemetry.observe("ares_recovery_seconds", ages.get(node) or 0.0)

    def _lost_on(self, node: str, age: float | None) -> list[Change]:
        entry = self._view.leases.get(node)
        states = [self._view.entries[job].state for job in sorted(self._view.by_node[node])]
        return [change for state in states if (change := self._lost(state, node, entry, age)) is not None]

    def _lost(self, state: JobState, node: str, entry: LeaseEntry | None, age: float | None) -> Change | None:
        reason = self._why_lost(state, node, entry, age)
        if reason is None:
            return None
        guard = Compare(keys.lease(node), "mod_revision", 0 if entry is None else entry.mod_revision)
        if state.phase in BOUND:
            return Change(state.id, state.tenant, (LeaseLost(fence=state.fence, reason=reason),), (guard,))
        return Change(state.id, state.tenant, (Release(fence=revoked_fence(state)),), (guard,))

    def _why_lost(self, state: JobState, node: str, entry: LeaseEntry | None, age: float | None) -> str | None:
        placement = next(p for p in state.placements if p.node == node)
        if entry is None or age is None:
            return f"node {node} was removed"
        if entry.lease.incarnation > placement.incarnation:
            return f"the agent of node {node} restarted"
        spec = self._view.spec(state)
        lease_s = DEAD_AFTER_S if spec is None else max(spec.lease_s, DEAD_AFTER_S)
        if age < lease_s or self._verdict.paused_since is not None:
            return None
        return f"node {node} has been silent for {age:.1f} s (lease {lease_s:g} s)"
