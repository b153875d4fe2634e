"""Keeps the scheduler's picture of the cluster current on every replica, from changes of the view.

A follower's picture is as fresh as the leader's, so a failover starts warm, and any replica can say
where a job stands in the queue.
"""

import asyncio

from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plan import Plan
from ares.core.schedule.profile import Profile
from ares.core.schedule.reasons import Reason
from ares.model.state import JobState
from ares.ports.clock import Clock
from ares.services.monitor import ready
from ares.services.view import Delta, View, holds

_REASONS_KEPT_S = 3.0


class Planner:
    """Owns the `Cluster`; `changed` is set whenever something might be schedulable now."""

    def __init__(self, view: View, clock: Clock, profile: Profile = Profile()) -> None:  # noqa: B008
        self._view = view
        self._clock = clock
        self._profile = profile
        self._noted_at = float("-inf")
        self.cluster = Cluster()
        self.changed = asyncio.Event()
        # Counts changes: who waits can see whether more keep coming.
        self.news = 0
        self._reasons: dict[int, Reason] = {}
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self.cluster = Cluster()
            # They are by class, and the new picture numbers its classes anew.
            self._reasons.clear()
        for name in delta.nodes:
            self._put_node(name)
        for name in delta.leases:
            self._set_ready(name)
        for before, entry in delta.states:
            self._put_state(before, entry.state)
        for state in delta.removed:
            self.cluster.dequeue(state.id)
            self.cluster.release(state.id)
        if delta.states or delta.nodes or delta.leases or delta.relisted:
            self.news += 1 + len(delta.states)
            self.changed.set()

    def _put_node(self, name: str) -> None:
        record = self._view.nodes.get(name)
        if record is None:
            self.cluster.drop_node(name)
            return
        self.cluster.put_node(record)
        self._set_ready(name)

    def _set_ready(self, name: str) -> None:
        if name in self._view.nodes:
            self.cluster.set_ready(name, ready(self._view, name))

    def note(self, plan: Plan) -> None:
        """Keeps why jobs were left out. A cycle that stopped at its limit says nothing about the rest."""
        if not plan.more:
            self._reasons.clear()
        self._reasons.update((left.class_id, left.reason) for left in plan.left)
        self._noted_at = self._clock.monotonic()

    def reason(self, job_id: str) -> Reason | None:
        """Why the job still waits, by the latest cycle that looked at it.

        The leader has one at least every second while jobs wait; other replicas make one up to answer by.
        """
        if self._clock.monotonic() - self._noted_at > _REASONS_KEPT_S:
            self._reasons.clear()
            self.refresh_ready()
            self.note(cycle(self.cluster.snapshot(), self._profile, self._clock.wall()))
        class_id = self.cluster.class_of(job_id)
        return None if class_id is None else self._reasons.get(class_id)

    def refresh_ready(self) -> None:
        """Silence makes no change in the store: look at the clock."""
        for name in self._view.nodes:
            self._set_ready(name)

    def _put_state(self, before: JobState | None, state: JobState) -> None:
        was = None if before is None else before.phase
        if state.phase == "PENDING":
            if was != "PENDING":
                self.cluster.release(state.id)
                spec = self._view.spec(state)
                if spec is not None:
                    self.cluster.enqueue(state, spec)
            return
        if was == "PENDING" or before is None:
            self.cluster.dequeue(state.id)
        if holds(state):
            self.cluster.hold(state.id, state.placements)
        else:
            self.cluster.release(state.id)
