"""Budgets when jobs start and while they run: a job that outlived its estimate goes on to cost, so budgets are checked
again. Leader only."""

from collections.abc import Iterable, Sequence

import structlog

from ares.control.execution.transitions import JobChange, Transitions
from ares.control.governance.alerts import Alerts
from ares.control.governance.quota_usage import Counting
from ares.control.state.view import View
from ares.core.lifecycle.inputs import Cancel
from ares.core.quota.counts import TENANT, is_live
from ares.core.quota.judge import bound
from ares.core.quota.measures import from_units, to_units
from ares.model.quota import QuotaRecord
from ares.model.state import BOUND, JobState
from ares.ports.clock import Clock
from ares.ports.store import StoreError

log = structlog.get_logger()

_LOOK_EVERY_S = 5.0
_BUDGET = "budget"
BY = "budget"


class BudgetWatch:
    """Warns at the threshold, alerts beyond the budget, and stops jobs there if the quota says so."""

    def __init__(self, view: View, counting: Counting, transitions: Transitions, alerts: Alerts, clock: Clock) -> None:
        self._view = view
        self._counting = counting
        self._transitions = transitions
        self._alerts = alerts
        self._clock = clock

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except StoreError as error:
                log.warning("budgets.delayed", error=str(error))
            await self._clock.sleep(_LOOK_EVERY_S)

    async def look(self) -> None:
        for record in list(self._view.kept.quotas.values()):
            limit = record.quota.own.amounts.get(_BUDGET)
            if limit is not None and limit.hard is not None:
                await self._look_at(record, limit.hard)

    async def _look_at(self, record: QuotaRecord, hard: float) -> None:
        tenant = record.tenant
        units = self._counting.used(tenant)(TENANT).get(_BUDGET, 0)
        if units <= bound(_BUDGET, hard, record.quota.threshold):
            return
        spent = from_units(_BUDGET, units)
        numbers = {"spent": spent, "budget": hard}
        if units <= to_units(_BUDGET, hard):
            text = (
                f"{tenant} has spent or promised {spent:g} of its budget of {hard:g} this month; no more jobs are taken"
            )
            await self._alerts.raise_("budget-near", tenant, tenant, text, numbers)
            return
        stops = record.quota.over_budget == "stop"
        what = "its jobs are stopped" if stops else "its jobs go on and cost on: over_budget is warn"
        text = f"{tenant} has spent or promised {spent:g}, beyond its budget of {hard:g} this month; {what}"
        await self._alerts.raise_("budget-exceeded", tenant, tenant, text, numbers, "critical")
        if stops:
            await self._stop(tenant, f"the tenant's budget of {hard:g} is exceeded by {spent - hard:g}")

    def left(self, tenant: str) -> float | None:
        """What of the tenant's budget is neither spent nor promised; None without a budget."""
        record = self._view.kept.quotas.get(tenant)
        limit = None if record is None else record.quota.own.amounts.get(_BUDGET)
        if limit is None or limit.hard is None:
            return None
        return limit.hard - from_units(_BUDGET, self._counting.used(tenant)(TENANT).get(_BUDGET, 0))

    # ---- when jobs start

    def unpaid(self, starting: Sequence[JobState]) -> dict[str, str]:
        """Of jobs that are about to start, in this order: the jobs that the budget does not cover any more, because
        others outlived their estimates, and why. Only for quotas that stop such jobs."""
        found: dict[str, str] = {}
        by_tenant: dict[str, list[JobState]] = {}
        for state in starting:
            if state.cost_estimate > 0 and state.tenant in self._view.kept.quotas:
                by_tenant.setdefault(state.tenant, []).append(state)
        for tenant, states in by_tenant.items():
            found.update(self._unpaid_of(self._view.kept.quotas[tenant], states))
        return found

    def _unpaid_of(self, record: QuotaRecord, starting: list[JobState]) -> Iterable[tuple[str, str]]:
        limit = record.quota.own.amounts.get(_BUDGET)
        if limit is None or limit.hard is None or record.quota.over_budget != "stop":
            return
        hard, units = to_units(_BUDGET, limit.hard), self._counting.used(record.tenant)(TENANT).get(_BUDGET, 0)
        if units <= hard:
            # The budget covers every job that was admitted.
            return
        units -= self._promised(record.tenant)
        for state in starting:
            cost = to_units(_BUDGET, state.cost_estimate)
            if units + cost <= hard:
                units += cost
                continue
            taken = f"{from_units(_BUDGET, units):g} of the tenant's budget of {limit.hard:g} are spent or held by jobs"
            why = f"{taken} that run; it may cost {state.cost_estimate:g}: have the budget raised, and submit it again"
            yield state.id, why

    def _promised(self, tenant: str) -> int:
        """The part of the budget that jobs which have not started will use."""
        states = (self._view.entries[job].state for _, job in self._view.order.get(tenant, ()))
        costs = sum(state.cost_estimate for state in states if is_live(state) and state.phase not in BOUND)
        for array in self._view.arrays.values():
            if array.tenant == tenant and not array.expanded:
                left = array.tasks - len(self._view.by_array.get(array.id, ()))
                costs += max(0, left) * array.cost_estimate
        return to_units(_BUDGET, costs)

    # ---- while they run

    async def _stop(self, tenant: str, why: str) -> None:
        """Stops every job with a cost: waiting jobs would start, and running jobs go on to cost."""
        states = (self._view.entries[job].state for _, job in self._view.order.get(tenant, ()))
        costly = [state.id for state in states if is_live(state) and state.cost_estimate > 0]
        log.warning("budget.stopped", tenant=tenant, jobs=len(costly))
        await self._transitions.apply([JobChange(job, tenant, (Cancel(by=BY, reason=why),)) for job in costly])
