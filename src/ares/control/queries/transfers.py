"""Who moves which bytes now, as far as the caller may know."""

from ares.api.quotas import BreakerRow, PausedJob, TransferRow, TransfersView
from ares.control.execution.transfers import RateLeases
from ares.control.state.view import View
from ares.core.access.table import reaches
from ares.model.access import Principal

_ROWS_MAX = 1000


class TransferList:
    def __init__(self, view: View, leases: RateLeases) -> None:
        self._view = view
        self._leases = leases

    def show(self, who: Principal) -> TransfersView:
        board, rates = self._leases.board, self._leases.rates()
        rows = [
            TransferRow(
                node=node,
                tenant=flow.tenant,
                kind=flow.kind,
                bytes_per_s=flow.moved,
                waiting_bytes=flow.waiting,
                tenant_bytes_per_s=None if (rate := rates.get(flow.tenant)) is None else round(rate),
            )
            for node, flow in board.flows()
            if reaches(who, "jobs:read", flow.tenant)
        ]
        rows.sort(key=lambda row: (-row.bytes_per_s - row.waiting_bytes, row.node, row.tenant, row.kind))
        breakers = [
            BreakerRow(node=node, endpoint=breaker.endpoint, tenant=breaker.tenant, phase=breaker.phase)
            for node, breaker in board.breakers()
            if reaches(who, "jobs:read", breaker.tenant)
        ]
        paused = [
            PausedJob(job=job, endpoint=endpoint)
            for job, endpoint in sorted(board.paused().items())
            if (entry := self._view.entries.get(job)) is not None and reaches(who, "jobs:read", entry.state.tenant)
        ]
        return TransfersView(
            transfers=tuple(rows[:_ROWS_MAX]), breakers=tuple(breakers[:_ROWS_MAX]), paused=tuple(paused[:_ROWS_MAX])
        )
