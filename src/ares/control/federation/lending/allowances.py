"""What this cluster was lent of tenants' quotas by its global plane, and gives back."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ares.control.federation.membership import Membership
from ares.control.governance.quota_usage import Counting
from ares.control.state.view import View
from ares.control.submit.quota_gate import Admissions, AmidWrite, InUse
from ares.core import keys
from ares.core.federation import escrow as rules
from ares.core.quota.counts import place_of
from ares.core.quota.lending import surplus_returned
from ares.model.cluster import Allowance
from ares.model.cluster_link import AllowanceGiven, AllowanceHeld
from ares.ports.store import Put


class Allowances:
    """Local jobs are admitted against these records, by every replica of the cluster; the leader changes them."""

    def __init__(self, view: View, membership: Membership, admissions: Admissions, counting: Counting) -> None:
        self._view, self._membership = view, membership
        self._admissions, self._counting = admissions, counting
        self._told: dict[str, AllowanceHeld] = {}

    def all_held(self) -> Sequence[AllowanceHeld]:
        """For a session that begins."""
        self._told = {tenant: _held(allowance) for tenant, allowance in self._view.kept.allowances.items()}
        return tuple(self._told.values())

    async def given(self, messages: Sequence[AllowanceGiven]) -> None:
        """What is lost of it is said again in the next session; the order of messages does not matter for amounts."""
        for told in messages:
            await self._given(told)

    async def _given(self, told: AllowanceGiven) -> None:
        def decide(_in_use: InUse) -> AmidWrite | None:
            before = self._view.kept.allowances.get(told.tenant) or Allowance(tenant=told.tenant)
            escrow = rules.heard(before.escrow, told.granted, told.released, told.until)
            after = replace(before, escrow=escrow, measures=told.measures, keep=told.keep)
            return None if after == before else self._put(after)

        await self._admissions.amid(told.tenant, decide)

    async def due(self) -> list[AllowanceHeld]:
        """Gives back what is not needed, and says what has changed."""
        news: list[AllowanceHeld] = []
        for tenant in tuple(self._view.kept.allowances):
            if self._returned(tenant, None) is not None:
                await self._admissions.amid(tenant, lambda in_use, t=tenant: self._returned(t, in_use))
            allowance = self._view.kept.allowances.get(tenant)
            held = None if allowance is None else _held(allowance)
            if held is not None and self._told.get(tenant) != held:
                self._told[tenant] = held
                news.append(held)
        return news

    def _returned(self, tenant: str, in_use: InUse | None) -> AmidWrite | None:
        before, record = self._view.kept.allowances.get(tenant), self._membership.record
        if before is None or record is None or not record.code:
            return None
        after = surplus_returned(before, (in_use or self._counting.used(tenant))(place_of(record.code)))
        return None if after == before else self._put(after)

    def _put(self, allowance: Allowance) -> AmidWrite:
        tenant = allowance.tenant
        put = Put(keys.allowance(tenant), msgspec.json.encode(allowance))
        return AmidWrite((self._view.kept.allowances.unchanged(tenant),), (put,))


def _held(allowance: Allowance) -> AllowanceHeld:
    escrow = allowance.escrow
    return AllowanceHeld(tenant=allowance.tenant, granted=escrow.granted, released=escrow.released)
