"""Quota that is lent between a global plane and its clusters, as people see it on either side."""

from ares.api.quotas import LentView
from ares.control.governance.quota_usage import Counting
from ares.control.state.view import View
from ares.core.federation.escrow import lent
from ares.core.quota.asked import units_of
from ares.core.quota.counts import place_of
from ares.core.quota.measures import from_units
from ares.model.cluster import EscrowRecord


class LentQuotas:
    def __init__(self, view: View, counting: Counting) -> None:
        self._view, self._counting = view, counting

    def of_tenant(self, tenant: str) -> tuple[LentView, ...]:
        """To all clusters of this global plane; in a cluster, to itself."""
        found = [row for row in self._rows() if row.tenant == tenant]
        return tuple(sorted(found, key=lambda row: (row.cluster, row.measure)))

    def of_cluster(self, name: str) -> tuple[LentView, ...]:
        found = [row for row in self._rows() if row.cluster == name]
        return tuple(sorted(found, key=lambda row: (row.tenant, row.measure)))

    def _rows(self) -> list[LentView]:
        kept, rows = self._view.kept, list[LentView]()
        for record in kept.escrow.values():
            cluster = kept.clusters.get(record.cluster)
            rows += [] if cluster is None else self._of(record.cluster, cluster.code, record.tenant, record.escrow)
        if (uplink := kept.uplink.get("")) is not None:
            for allowance in kept.allowances.values():
                rows += self._of(uplink.name, uplink.code, allowance.tenant, allowance.escrow)
        return rows

    def _of(self, cluster: str, code: str, tenant: str, escrow: EscrowRecord) -> list[LentView]:
        spent, amounts = self._counting.used(tenant)(place_of(code)), lent(escrow)
        return [
            LentView(
                cluster=cluster, tenant=tenant, measure=measure,
                lent=from_units(measure, amounts.get(measure, 0)), used=from_units(measure, units_of(spent, measure)),
                until=escrow.until,
            )
            for measure in sorted(escrow.granted)
        ]  # fmt: skip
