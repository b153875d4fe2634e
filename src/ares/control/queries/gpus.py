"""Every GPU of the platform: which are held, by which of the caller's jobs, and which of those compute."""

from typing import Final

from ares.api.job_sessions import LiveUse
from ares.api.nodes import GpuJob, GpuMap, GpuNode
from ares.control.queries.shared_looks import SharedLooks
from ares.control.queries.usage import LiveUses
from ares.control.scheduler.monitor import ready
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import View
from ares.core.access.table import sees_all
from ares.model.access import Principal
from ares.model.job_session import GpuReading
from ares.model.node import NodeRecord
from ares.ports.clock import Clock

# Many viewers share one look at what the drivers say: it asks every node.
_KEPT_S: Final = 5.0


class _Columns:
    def __init__(self) -> None:
        self.nodes: list[GpuNode] = []
        self.jobs: dict[str, int] = {}
        self.index: list[int] = []
        self.memory_mib: list[int] = []
        self.held_milli: list[int] = []
        self.job: list[int] = []
        self.busy: list[int] = []
        self.watts: list[int] = []
        self.celsius: list[int] = []


class GpuMaps:
    def __init__(self, view: View, uses: LiveUses, clock: Clock) -> None:
        self._view = view
        self._uses = uses
        self._clock = clock
        self._looks = SharedLooks[str | None, LiveUse](clock, _KEPT_S)

    async def of(self, who: Principal, node: str | None = None) -> GpuMap:
        """Jobs of the caller's tenant are named, or with a role that sees them those of all. Of one node, or of all."""
        wide = sees_all(who) and not who.home
        use = await self._looks.of(None if wide else who.tenant, lambda: self._uses.all(who))
        await self._view.catch_up()
        told = {(rank.node, rank.job, device.index): device for rank in use.ranks for device in rank.devices}
        found = _Columns()
        for number, (name, record) in enumerate(sorted(self._view.nodes.items())):
            if record.info.gpus and node in (None, name):
                self._add(found, name, record, None if wide else who.tenant, told)
            if number % WORKED_ON == WORKED_ON - 1:
                await breathe()
        return GpuMap(
            at=self._clock.wall(),
            nodes=tuple(found.nodes),
            jobs=tuple(self._job(job) for job in found.jobs),
            index=tuple(found.index),
            memory_mib=tuple(found.memory_mib),
            held_milli=tuple(found.held_milli),
            job=tuple(found.job),
            busy=tuple(found.busy),
            watts=tuple(found.watts),
            celsius=tuple(found.celsius),
            unasked=use.unasked,
        )

    def _add(
        self,
        found: _Columns,
        name: str,
        record: NodeRecord,
        tenant: str | None,
        told: dict[tuple[str, str, int], GpuReading],
    ) -> None:
        info = record.info
        found.nodes.append(
            GpuNode(
                name=name, pool=info.pool, rack=info.rack, model=info.gpus[0].model, ready=ready(self._view, name),
                cordoned=record.cordoned, drained=bool(record.drained_by), mock=info.gpus[0].vendor == "mock",
                first=len(found.index), gpus=len(info.gpus),
            )
        )  # fmt: skip
        shares: dict[int, list[tuple[int, str]]] = {}
        for job, places in self._view.by_node.get(name, {}).items():
            for place in places:
                for gpu in place.gpus:
                    shares.setdefault(gpu, []).append((place.gpu_milli, job))
        for gpu in info.gpus:
            held = sorted(shares.get(gpu.index, ()), reverse=True)
            seen = next((job for _, job in held if self._may_see(job, tenant)), None)
            found.index.append(gpu.index)
            found.memory_mib.append(gpu.memory_mib)
            found.held_milli.append(min(1000, sum(milli for milli, _ in held)))
            found.job.append(-1 if seen is None else found.jobs.setdefault(seen, len(found.jobs)))
            now = None if seen is None else told.get((name, seen, gpu.index))
            found.busy.append(-1 if now is None else now.busy_percent)
            found.watts.append(-1 if now is None or now.watts is None else round(now.watts))
            found.celsius.append(-1 if now is None or now.celsius is None else now.celsius)

    def _may_see(self, job: str, tenant: str | None) -> bool:
        entry = self._view.entries.get(job)
        return entry is not None and tenant in (None, entry.state.tenant)

    def _job(self, job: str) -> GpuJob:
        entry = self._view.entries.get(job)
        if entry is None:
            return GpuJob(id=job, name="", tenant="", user="")
        state = entry.state
        return GpuJob(id=state.id, name=state.name, tenant=state.tenant, user=state.submitted_by)
