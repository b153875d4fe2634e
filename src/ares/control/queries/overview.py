"""The state of all of it at a glance, for dashboards that ask every few seconds."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from ares.api.deadlines import SlaView
from ares.api.nodes import Overview, TenantJobs, WaitingGroup
from ares.api.reasons import Reason, ReasonCode
from ares.control.queries.shared_looks import SharedLooks
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.deadlines import Deadlines
from ares.control.scheduler.monitor import ready
from ares.control.state.pacing import LOOKED_AT, WORKED_ON, breathe
from ares.control.state.view import Delta, View
from ares.core.access.table import sees_all
from ares.model.access import Principal
from ares.model.state import TERMINAL, Phase
from ares.ports.clock import Clock

# Many viewers share one look.
_KEPT_S: Final = 1.0
# Deadlines are asked of every job that is kept, which is more work and changes less.
_PROMISES_KEPT_S: Final = 15.0
_PROMISES_S: Final = 86_400.0
_TENANTS_MAX: Final = 20
_Viewer = tuple[str, bool]


class PhaseCounts:
    """Jobs by tenant and phase. It follows the view from the first question on: without a viewer it costs nothing."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._counts: dict[str, Counter[Phase]] | None = None

    def of(self, tenant: str) -> dict[Phase, int]:
        return _there(self._followed().get(tenant, Counter[Phase]()))

    def busiest(self, most: int) -> tuple[TenantJobs, ...]:
        """Tenants with jobs that have not ended, those with the most first."""
        live: dict[str, dict[Phase, int]] = {
            tenant: {phase: jobs for phase, jobs in _there(counts).items() if phase not in TERMINAL}
            for tenant, counts in self._followed().items()
        }
        busy = sorted((tenant for tenant in live if live[tenant]), key=lambda name: (-sum(live[name].values()), name))
        return tuple(TenantJobs(tenant=tenant, jobs=live[tenant]) for tenant in busy[:most])

    def _followed(self) -> dict[str, Counter[Phase]]:
        if self._counts is None:
            self._view.subscribe(self._on_delta)
            return self._count()
        return self._counts

    def _count(self) -> dict[str, Counter[Phase]]:
        counts: dict[str, Counter[Phase]] = {}
        for entry in self._view.entries.values():
            counts.setdefault(entry.state.tenant, Counter())[entry.state.phase] += 1
        self._counts = counts
        return counts

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted or self._counts is None:
            self._count()
            return
        for before, entry in delta.states:
            counts = self._counts.setdefault(entry.state.tenant, Counter())
            counts[entry.state.phase] += 1
            if before is not None:
                counts[before.phase] -= 1
        for state in delta.removed:
            self._counts.setdefault(state.tenant, Counter())[state.phase] -= 1


def _there(counts: Counter[Phase]) -> dict[Phase, int]:
    return {phase: jobs for phase, jobs in counts.items() if jobs > 0}


@dataclass(slots=True)
class _Machines:
    """Sums over nodes."""

    nodes: int = 0
    nodes_ready: int = 0
    nodes_cordoned: int = 0
    gpus: int = 0
    gpus_ready: int = 0
    gpus_held: int = 0
    cpu_milli: int = 0
    cpu_milli_held: int = 0
    memory_mib: int = 0
    memory_mib_held: int = 0
    mock_gpus: bool = False


@dataclass(slots=True)
class _Group:
    first: Reason
    example: str
    jobs: int = 0


@dataclass(slots=True)
class _Queue:
    groups: dict[ReasonCode, _Group] = field(default_factory=dict[ReasonCode, _Group])
    oldest: tuple[float, str] | None = None


class Overviews:
    """Jobs of the tenant that the caller is in or acts in; machines are shown to all callers."""

    def __init__(self, view: View, planner: LiveCluster, deadlines: Deadlines, clock: Clock) -> None:
        self._view = view
        self._planner = planner
        self._deadlines = deadlines
        self._clock = clock
        self._counts = PhaseCounts(view)
        self._looks = SharedLooks[_Viewer, Overview](clock, _KEPT_S)
        self._promises = SharedLooks[_Viewer, tuple[SlaView, ...]](clock, _PROMISES_KEPT_S)

    async def of(self, who: Principal) -> Overview:
        return await self._looks.of((who.tenant, sees_all(who)), lambda: self._look(who))

    async def _look(self, who: Principal) -> Overview:
        tenant, wide = who.tenant, sees_all(who)
        await self._view.catch_up()
        machines, queue = await self._machines(), await self._queue(tenant)
        promises = await self._promises.of(
            (tenant, wide), lambda: self._deadlines.classes_seen(who, since_s=_PROMISES_S)
        )
        groups = sorted(queue.groups.items(), key=lambda item: (-item[1].jobs, item[0]))
        leader = self._view.leader
        return Overview(
            at=self._clock.wall(),
            tenant=tenant,
            jobs=self._counts.of(tenant),
            waiting=tuple(
                WaitingGroup(
                    code=code, remedy=group.first.remedy, jobs=group.jobs, example=group.example,
                    message=group.first.message,
                )
                for code, group in groups
            ),
            oldest_queued_at=None if queue.oldest is None else queue.oldest[0],
            oldest_job="" if queue.oldest is None else queue.oldest[1],
            nodes=machines.nodes,
            nodes_ready=machines.nodes_ready,
            nodes_cordoned=machines.nodes_cordoned,
            gpus=machines.gpus,
            gpus_ready=machines.gpus_ready,
            gpus_held=machines.gpus_held,
            cpu_milli=machines.cpu_milli,
            cpu_milli_held=machines.cpu_milli_held,
            memory_mib=machines.memory_mib,
            memory_mib_held=machines.memory_mib_held,
            mock_gpus=machines.mock_gpus,
            promises=tuple(service for service in promises if service.jobs),
            tenants=self._counts.busiest(_TENANTS_MAX) if wide else (),
            leader="" if leader is None else leader.replica,
            store_age_s=self._clock.monotonic() - self._view.heard_at,
        )  # fmt: skip

    async def _machines(self) -> _Machines:
        total = _Machines()
        for number, (name, record) in enumerate(tuple(self._view.nodes.items())):
            info, there = record.info, ready(self._view, name)
            held = [place for places in self._view.by_node.get(name, {}).values() for place in places]
            total.nodes += 1
            total.nodes_ready += there
            total.nodes_cordoned += record.cordoned
            total.gpus += len(info.gpus)
            total.gpus_ready += len(info.gpus) if there else 0
            # Whole ones: several jobs may have a share of the same GPU.
            total.gpus_held += len({gpu for place in held for gpu in place.gpus})
            total.cpu_milli += info.cpu_milli
            total.cpu_milli_held += sum(place.cpu_milli for place in held)
            total.memory_mib += info.memory_mib
            total.memory_mib_held += sum(place.memory_mib for place in held)
            total.mock_gpus = total.mock_gpus or any(gpu.vendor == "mock" for gpu in info.gpus)
            if number % WORKED_ON == WORKED_ON - 1:
                await breathe()
        return total

    async def _queue(self, tenant: str) -> _Queue:
        """Jobs of one class wait for the same reason: that is asked once for each."""
        found, asked = _Queue(), 0
        for number, job_class in enumerate(tuple(self._planner.cluster.waiting.active.values()), start=1):
            if number % LOOKED_AT == 0:
                await breathe()
            if job_class.key.account.partition("/")[0] != tenant or not len(job_class.line):
                continue
            example = job_class.line.nth(0)[3]
            reason, entry = self._planner.reason(example), self._view.entries.get(example)
            if reason is not None:
                group = found.groups.setdefault(reason.code, _Group(reason, example))
                group.jobs += len(job_class.line)
            if entry is not None and (found.oldest is None or entry.state.queued_at < found.oldest[0]):
                found.oldest = (entry.state.queued_at, example)
            asked += 1
            if asked % WORKED_ON == 0:
                await breathe()
        return found
