"""Reports of what jobs used, from the jobs that are still known."""

from ares.core.access.table import sees_all
from ares.core.energy.report import By, UsageReport, usage
from ares.model.access import Principal
from ares.ports.clock import Clock
from ares.services.view import View


class Spending:
    """A tenant's members see their own, administrators all."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock

    async def report(self, who: Principal, by: By, since_s: float | None, limit: int) -> UsageReport:
        """Of the last so many seconds, or of all that is known."""
        await self._view.catch_up()
        now = self._clock.wall()
        every = sees_all(who)
        states = (entry.state for entry in self._view.entries.values() if every or entry.state.tenant == who.tenant)
        return usage(states, by, 0.0 if since_s is None else now - since_s, now, limit)
