"""How many jobs there may be. One tenant must not take all there is; an array takes as much as its tasks."""

from typing import NamedTuple

from ares.control.state.population import Population
from ares.control.state.view import View
from ares.core.refusal import Refusal

_LIVE_KEY = "limits.tenant_jobs_max"


class Room(NamedTuple):
    """How many jobs there may be: kept of all tenants, and of one tenant kept, and not ended."""

    jobs: int = 2_000_000
    kept: int = 1_000_000
    live: int = 500_000


class JobRoom:
    """What is left of that, by what the view shows now."""

    def __init__(self, view: View, room: Room) -> None:
        self._view = view
        self._room = room
        self._population = Population(view)

    def left(self, tenant: str) -> int:
        kept, live = self._population.kept(tenant), self._population.live(tenant)
        return min(self._room.jobs - len(self._view.entries), self._room.kept - kept, self._room.live - live)

    def refusal(self, tenant: str, tasks: int, before: int = 0) -> Refusal | None:
        """Why so many more do not fit, beside those that came before them in the same request."""
        if before + tasks <= self.left(tenant):
            return None
        found = (len(self._view.entries), self._population.kept(tenant), self._population.live(tenant))
        bounds = (
            ("jobs are kept", found[0], self._room.jobs, "limits.jobs_max"),
            (f"jobs of {tenant} are kept", found[1], self._room.kept, "limits.tenant_records_max"),
            (f"jobs of {tenant} have not ended", found[2], self._room.live, _LIVE_KEY),
        )
        for words, there, most, key in bounds:
            if there + before + tasks > most:
                wait = "jobs end, or cancel some" if key == _LIVE_KEY else "finished jobs are removed by retention"
                return Refusal(
                    code="queue-full",
                    message=f"{tasks} more do not fit: {there + before} of {most} {words}",
                    fix=f"wait until {wait}; an operator can raise {key}",
                    retry_after_s=5.0,
                )
        return None
