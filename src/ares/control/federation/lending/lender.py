"""What of tenants' quotas each cluster is lent, at the global plane: written between a tenant's admissions, so that
what is admitted and what is lent are never more than the quota together."""

import msgspec
import structlog

from ares.control.execution.enrolment import SessionRefused
from ares.control.federation.link_session import ClusterSession
from ares.control.governance.quota_usage import Counting
from ares.control.state.view import View
from ares.control.submit.quota_gate import Admissions, AmidWrite, InUse
from ares.core import keys
from ares.core.federation.clusters import OVER
from ares.core.quota import lending
from ares.core.quota.counts import TENANT, place_of
from ares.model.cluster import EscrowRecord, LentQuota
from ares.model.cluster_link import AllowanceGiven, AllowanceHeld
from ares.model.quota import Quota
from ares.ports.clock import Clock
from ares.ports.store import Put

log = structlog.get_logger()

# Tenants that one cluster may speak of.
TENANTS_MAX = 10_000


class Lender:
    def __init__(self, view: View, admissions: Admissions, counting: Counting, clock: Clock, epoch: int) -> None:
        self._view, self._admissions, self._counting, self._clock = view, admissions, counting, clock
        self._epoch = epoch

    async def settle(self, session: ClusterSession) -> None:
        """Takes over what the cluster gave back, lends it more where it has little left, and tells it."""
        kept = self._view.kept
        known = [lent.tenant for lent in kept.escrow.values() if lent.cluster == session.name]
        for tenant in dict.fromkeys((*kept.quotas, *known, *session.held)):
            due = self._decided(session, tenant, None) is not None
            if not due and session.lent.get(tenant) == self._stamp(session, tenant):
                continue
            if due and not await self._admissions.amid(
                tenant, lambda in_use, t=tenant: self._decided(session, t, in_use)
            ):
                continue
            # It says nothing of what is lent from now on.
            session.held.pop(tenant, None)
            session.lent[tenant] = self._stamp(session, tenant)
            if (given := self._given(session.name, tenant)) is not None and session.given.get(tenant) != given:
                session.given[tenant] = given
                session.send(given)

    def _stamp(self, session: ClusterSession, tenant: str) -> tuple[object, ...]:
        """What a decision depends on, but for the time."""
        kept = self._view.kept
        return (
            self._counting.moves(tenant), kept.quotas.revisions.get(tenant, 0),
            kept.escrow.revisions.get(f"{session.name}/{tenant}", 0), kept.clusters.revisions.get(session.name, 0),
            session.held.get(tenant),
        )  # fmt: skip

    def _decided(self, session: ClusterSession, tenant: str, in_use: InUse | None) -> AmidWrite | None:
        """What is to be written; None for nothing. Without `in_use`, by what this replica sees just now."""
        kept, name = self._view.kept, session.name
        record = kept.clusters.get(name)
        if record is None or record.state in OVER or record.generation != session.record.generation:
            return None
        before = kept.escrow.get(f"{name}/{tenant}")
        escrow = EscrowRecord() if before is None else before.escrow
        quota = self._quota(tenant)
        if (held := session.held.get(tenant)) is not None:
            said = EscrowRecord(granted=held.granted, released=held.released)
            escrow = lending.told(quota, escrow, said, rebuilds=self._has_forgotten(session))
        if quota is not None and record.state == "ACTIVE" and session.healed and self._is_whole():
            in_use = in_use or self._counting.used(tenant)
            spent = in_use(place_of(record.code))
            idle = self._counting.idle(tenant)
            escrow = lending.granted(quota, escrow, spent, in_use(TENANT), idle, self._clock.wall())
        if escrow == (EscrowRecord() if before is None else before.escrow):
            return None
        put = Put(keys.escrow(name, tenant), msgspec.json.encode(LentQuota(cluster=name, tenant=tenant, escrow=escrow)))
        return AmidWrite((kept.escrow.unchanged(f"{name}/{tenant}"), kept.clusters.unchanged(name)), (put,))

    def _has_forgotten(self, session: ClusterSession) -> bool:
        """Whether this store may have lent the cluster something that it does not know of any more: it was restored
        since, and the cluster was there before."""
        return self._epoch > 1 and session.hello.generation > 0 and session.rebuilds(self._epoch)

    def _is_whole(self) -> bool:
        """Not while a cluster may have been lent something that a restored store has forgotten."""
        return not any(0 < c.healed_in < self._epoch and c.state not in OVER for c in self._view.kept.clusters.values())

    def _quota(self, tenant: str) -> Quota | None:
        record = self._view.kept.quotas.get(tenant)
        return None if record is None else record.quota

    def _given(self, cluster: str, tenant: str) -> AllowanceGiven | None:
        """None for a tenant that was never limited there."""
        kept, quota = self._view.kept, self._quota(tenant)
        lent, record = kept.escrow.get(f"{cluster}/{tenant}"), kept.clusters.get(cluster)
        if record is None or lent is None:
            return None
        active = record.state == "ACTIVE"
        return AllowanceGiven(
            tenant=tenant, granted=lent.escrow.granted, released=lent.escrow.released, until=lent.escrow.until,
            measures=() if quota is None else tuple(lending.lendable(quota)),
            keep={} if quota is None or not active else lending.kept_free(quota),
        )  # fmt: skip


def heed(session: ClusterSession, held: AllowanceHeld) -> None:
    """What a cluster says it was lent, until it is settled. Raises SessionRefused for more than it can have to say."""
    session.held[held.tenant] = held
    if len(session.held) > TENANTS_MAX:
        raise SessionRefused(f"the cluster was lent quota of more than {TENANTS_MAX} tenants", "malformed")
