"""How much of tenants' outputs was downloaded this month. Every replica writes down its own part, every few seconds:
what a replica served just before it died is forgotten."""

import msgspec
import structlog

from ares.control.state.view import View
from ares.core import keys
from ares.core.quota.counts import TENANT
from ares.core.quota.judge import OverQuota, over, use_at
from ares.core.quota.measures import month_end, month_of
from ares.model.quota import MeterRecord
from ares.ports.clock import Clock
from ares.ports.store import Put, Store, StoreError

log = structlog.get_logger()

_EVERY_S = 3.0


class Meters:
    def __init__(self, store: Store, view: View, clock: Clock, replica: str) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._replica = replica
        # By tenant and month: since this process began, and what an earlier one of this name had written down.
        self._served: dict[tuple[str, str], int] = {}
        self._before: dict[tuple[str, str], int] = {}
        self._written: dict[tuple[str, str], int] = {}

    def served(self, tenant: str) -> int:
        """Bytes this month, of all replicas."""
        month = month_of(self._clock.wall())
        own, prefix = keys.meter(tenant, month, self._replica).removeprefix(keys.METERS), f"{tenant}/{month}/"
        others = (meter for name, meter in self._view.kept.meters.items() if name.startswith(prefix) and name != own)
        return sum(meter.egress_bytes for meter in others) + self._own(tenant, month)

    def take(self, tenant: str, size: int) -> OverQuota | None:
        """Counts a download before it begins, unless it would be too much."""
        record, used = self._view.kept.quotas.get(tenant), {"egress": self.served(tenant)}
        if record is not None and over(record.quota, TENANT, "egress", used, {"egress": size}):
            now = self._clock.wall()
            seen = use_at(record.quota, TENANT, "egress", used, {"egress": size}, exceeded=True)
            message = (
                f"the tenant may download {seen.limit:g} GiB a month: {seen.used:g} were, {seen.asked:g} asked for"
            )
            again = month_end(now) - now
            return OverQuota(
                code="egress-exceeded", message=message, reason="quota", levels=(seen,), retry_after_s=again
            )
        self._add(tenant, size)
        return None

    def give_back(self, tenant: str, size: int) -> None:
        """What was not sent in the end."""
        self._add(tenant, -size)

    def _own(self, tenant: str, month: str) -> int:
        key = (tenant, month)
        if key not in self._before:
            record = self._view.kept.meters.get(keys.meter(tenant, month, self._replica).removeprefix(keys.METERS))
            self._before[key] = 0 if record is None else record.egress_bytes
        return self._before[key] + self._served.get(key, 0)

    def _add(self, tenant: str, size: int) -> None:
        month = month_of(self._clock.wall())
        self._own(tenant, month)
        self._served[tenant, month] = self._served.get((tenant, month), 0) + size

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        for (tenant, month), served in list(self._served.items()):
            if self._written.get((tenant, month)) == served:
                continue
            total = self._own(tenant, month)
            record = MeterRecord(tenant=tenant, month=month, replica=self._replica, egress_bytes=max(0, total))
            try:
                await self._store.txn([], [Put(keys.meter(tenant, month, self._replica), msgspec.json.encode(record))])
                self._written[tenant, month] = served
            except StoreError as error:
                log.warning("meters.delayed", error=str(error))
                return
