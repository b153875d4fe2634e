"""Jobs that move when their cluster is cut off: the cluster ends them before the global plane gives them to another.

A lease runs from when the latest report was sent that the global plane is known to have kept, by this process's own
monotonic clock. The global plane counts from when it saw that report, which is later.
"""

from collections.abc import Sequence

import structlog

from ares.control.federation.held_jobs import is_over
from ares.control.federation.membership import Membership
from ares.control.federation.routing.reporting import ClusterReporter
from ares.control.federation.taking import Taking
from ares.control.state.view import View
from ares.core.federation.clusters import code_in
from ares.core.federation.owners import LEASE_MIN_S, NEW_LEADER_HEARS_S, SELF_FENCE, must_fence, ownership_lease_s
from ares.model.cluster_link import ClusterMessage
from ares.model.state import TERMINAL, JobState
from ares.ports.clock import Clock
from ares.ports.store import StoreError

log = structlog.get_logger()

_LOOK_S = 1.0


class OwnershipLeases:
    def __init__(
        self, view: View, membership: Membership, taking: Taking, reporter: ClusterReporter, clock: Clock
    ) -> None:  # fmt: skip
        self._view, self._membership, self._taking = view, membership, taking
        self._reporter, self._clock = reporter, clock
        self._out: list[ClusterMessage] = []

    def said(self) -> Sequence[ClusterMessage]:
        """What the global plane has not been told yet. What is lost of it, healing finds in the records."""
        said, self._out = self._out, []
        return said

    async def run(self) -> None:
        """For as long as this replica leads the cluster. Before it hears of the global plane itself, it does not know
        how long that has been silent."""
        leads_at, self._reporter.renewed_at = self._clock.monotonic(), float("-inf")
        while True:
            await self._clock.sleep(_LOOK_S)
            now = self._clock.monotonic()
            if self._membership.record is None or now - leads_at < NEW_LEADER_HEARS_S:
                continue
            try:
                await self._look(self._membership.record.name, now)
            except StoreError as error:
                log.warning("leases.delayed", error=str(error))

    async def _look(self, name: str, now: float) -> None:
        renewed_at = self._reporter.renewed_at
        taken = self._view.kept.taken
        fenced = [record for record in taken.values() if record.possession.taken and record.possession.taken.fenced]
        gone = [(record.job, record.tenant) for record in fenced if self._is_gone(record.job)]
        said = await self._taking.let_go(name, gone) if gone else []
        if now - renewed_at >= SELF_FENCE * LEASE_MIN_S:
            due = [state for job in tuple(taken) if (state := self._moving(job, renewed_at, now)) is not None]
            if due:
                log.warning("leases.over", jobs=len(due), silent_s=round(now - renewed_at, 1))
                said += await self._taking.fence(name, due)
        self._out += said

    def _is_gone(self, job: str) -> bool:
        entry = self._view.entries.get(job)
        return entry is None or is_over(entry.state)

    def _moving(self, job: str, renewed_at: float, now: float) -> JobState | None:
        """The job, when it is to be ended here now."""
        entry, held = self._view.entries.get(job), self._view.kept.taken[job].possession.taken
        if entry is None or held is None or held.stage != "CONFIRMED" or code_in(job):
            return None
        spec = self._view.spec(entry.state)
        if spec is None or spec.on_partition != "move" or entry.state.phase in TERMINAL:
            return None
        lease_s = ownership_lease_s(spec.grace_s, spec.lease_s)
        return entry.state if must_fence(renewed_at, now, lease_s) else None
