"""What jobs used, from the jobs that are still known; and what running jobs use at the moment."""

from collections.abc import AsyncGenerator
from typing import Final

from ares.api.job_sessions import LiveUse, RankUse
from ares.api.usage import By, UsageReport
from ares.control.execution.job_sessions import JobSessions
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import View
from ares.core.access.table import sees_all
from ares.core.lifecycle.ranks import place_of
from ares.core.lifecycle.usage_report import UsageSum
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job_session import AttemptUse
from ares.model.link import AttemptRef
from ares.model.state import JobState, Placement
from ares.ports.clock import Clock

# ---- reports


class Spending:
    """A tenant's members see their own, administrators all."""

    def __init__(self, view: View, clock: Clock, here: str) -> None:
        self._view = view
        self._clock = clock
        # The name of this cluster.
        self._here = here

    async def report(self, who: Principal, by: By, since_s: float | None, limit: int) -> UsageReport:
        """Of the last so many seconds, or of all that is known."""
        now = self._clock.wall()
        since = 0.0 if since_s is None else now - since_s
        return await self.summed(who, UsageSum(by, since, now, here=self._here), limit)

    async def summed(self, who: Principal, found: UsageSum, limit: int) -> UsageReport:
        await self._view.catch_up()
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


# ---- at the moment


# Two looks make a rate. An earlier look is good for that within this time.
_BETWEEN_S: Final = 0.5
_OLD_S: Final = 30.0
# Jobs that one answer covers.
_JOBS_MAX: Final = 2000

_Key = tuple[AttemptRef, int]


class LiveUses:
    def __init__(self, view: View, sessions: JobSessions, clock: Clock) -> None:
        self._view = view
        self._sessions = sessions
        self._clock = clock
        # The latest look at each rank, and when it was taken here. Old ones are forgotten at the next look.
        self._seen: dict[_Key, tuple[AttemptUse, float]] = {}

    async def of_job(self, who: Principal, job_id: str) -> LiveUse | Refusal | None:
        """None when there is no such job. A job that does not run uses nothing."""
        await self._view.catch_up()
        entry = self._view.entries.get(job_id)
        if entry is None or entry.state.tenant != who.tenant:
            return None
        return await self._look([entry.state])

    async def all(self, who: Principal) -> LiveUse:
        """Of the tenant's running jobs, or of every tenant's for those that see them."""
        await self._view.catch_up()
        wide = sees_all(who) and not who.home
        found = list[JobState]()
        for jobs in self._view.by_node.values():
            for job in jobs:
                state = self._view.entries[job].state
                if wide or state.tenant == who.tenant:
                    found.append(state)
        return await self._look(list({state.id: state for state in found}.values())[:_JOBS_MAX])

    async def _look(self, states: list[JobState]) -> LiveUse:
        running = [state for state in states if state.phase == "RUNNING"]
        if not running:
            return LiveUse(ranks=())
        now = self._clock.monotonic()
        before = {key: use for key, (use, at) in self._seen.items() if now - at < _OLD_S}
        uses, unasked = await self._sessions.measure(running)
        if any((use.ref, use.rank) not in before or use.at <= before[use.ref, use.rank].at for use in uses):
            before |= {(use.ref, use.rank): use for use in uses}
            await self._clock.sleep(_BETWEEN_S)
            uses, unasked = await self._sessions.measure(running)
        now = self._clock.monotonic()
        self._seen = {key: seen for key, seen in self._seen.items() if now - seen[1] < _OLD_S}
        self._seen |= {(use.ref, use.rank): (use, now) for use in uses}
        by_id = {state.id: state for state in running}
        ranks = [
            _rank(by_id[use.ref.job], place, use, before.get((use.ref, use.rank)), mock=self._is_mock(place.node))
            for use in uses
            if (place := place_of(by_id[use.ref.job].placements, use.rank)) is not None
        ]
        return LiveUse(ranks=tuple(ranks), unasked=unasked)

    def _is_mock(self, name: str) -> bool:
        node = self._view.nodes.get(name)
        return node is not None and any(gpu.vendor == "mock" for gpu in node.info.gpus)


def _rank(state: JobState, place: Placement, use: AttemptUse, before: AttemptUse | None, *, mock: bool) -> RankUse:
    cpus = 0.0
    if before is not None and use.at > before.at:
        cpus = max(0.0, use.cpu_s - before.cpu_s) / (use.at - before.at)
    return RankUse(
        job=state.id,
        name=state.name,
        tenant=state.tenant,
        user=state.submitted_by,
        node=place.node,
        rank=place.rank,
        cpus=round(cpus, 2),
        cpus_asked=place.cpu_milli / 1000,
        memory_bytes=use.memory_bytes,
        memory_asked_bytes=place.memory_mib << 20,
        processes=use.processes,
        gpus=place.gpus,
        gpus_busy=sum(gpu.busy_percent for gpu in use.gpus) / 100 if use.gpus else None,
        gpu_memory_bytes=sum(gpu.memory_mib for gpu in use.gpus) << 20 if use.gpus else None,
        devices=use.gpus,
        mock_gpus=bool(place.gpus) and mock,
    )
