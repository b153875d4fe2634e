"""Reports of what jobs used, from the jobs that are still known."""

from collections.abc import AsyncGenerator

from ares.api.usage import By, UsageReport
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import View
from ares.core.access.table import sees_all
from ares.core.lifecycle.usage_report import UsageSum
from ares.model.access import Principal
from ares.model.state import JobState
from ares.ports.clock import Clock


class Spending:
    """A tenant's members see their own, administrators all."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock

    async def report(self, who: Principal, by: By, since_s: float | None, limit: int) -> UsageReport:
        """Of the last so many seconds, or of all that is known."""
        await self._view.catch_up()
        now = self._clock.wall()
        found = UsageSum(by, 0.0 if since_s is None else now - since_s, now)
        for tenant in tuple(self._view.order) if sees_all(who) else (who.tenant,):
            async for states in self._view_strides(tenant):
                found.add(states)
        return found.report(limit)

    async def _view_strides(self, tenant: str) -> AsyncGenerator[list[JobState], None]:
        order = tuple(self._view.order.get(tenant, ()))
        for first in range(0, len(order), WORKED_ON):
            entries = (self._view.entries.get(job) for _, job in order[first : first + WORKED_ON])
            yield [entry.state for entry in entries if entry is not None]
            await breathe()
