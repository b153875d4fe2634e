"""One region of a replay: a cluster with the real scheduling cycle, and its reports as the real ones are made."""

import heapq

import numpy as np
from msgspec.structs import replace

from ares.check.replay.trace import Trace
from ares.control.federation.routing.capacity import rooms_of
from ares.control.federation.routing.reporting import size_etas
from ares.core.routing.options import Kind
from ares.core.schedule.cycle import cycle
from ares.model.job import JobSpec
from ares.model.profile import Profile
from ares.model.state import JobState
from ares.model.uplink import ClusterReport, ReportedShape
from ares.sim.traces.world import END, LOOK, ReplayWorld

_HOUR_S = 3600.0
_NEVER = float("inf")
_NEW = JobState(id="planned", tenant="anybody", name="", submitted_by="anybody")


class Region:
    """All nodes of its trace are alike. Jobs of the trace are known by their number, wherever they run."""

    def __init__(self, name: str, trace: Trace, profile: Profile, specs: list[JobSpec]) -> None:
        self.name = name
        self.world = ReplayWorld(trace, profile, specs, 0)
        self._nodes = trace.nodes
        self._report: ClusterReport | None = None
        self._reported_at = -_NEVER

    @property
    def next_at(self) -> float:
        return self.world.events[0][0] if self.world.events else _NEVER

    def go(self, now: float) -> None:
        """Up to this moment, with a decision after each at which something happened."""
        while self.world.events and self.next_at <= now:
            at = self.world.now = self.next_at
            changed = False
            while self.world.events and self.next_at <= at:
                changed |= self._happen(*heapq.heappop(self.world.events))
            if changed:
                self.settle()
        self.world.now = now

    def _happen(self, _at: float, kind: int, _turn: int, job: int, attempt: float) -> bool:
        if kind == END:
            if not self.world.runs(job, attempt):
                return False
            self.world.end(job)
            return True
        return self.world.look(job, attempt) if kind == LOOK else False

    def submit(self, job: int, now: float) -> bool:
        self.world.now = now
        taken = self.world.submit(job)
        self.settle()
        return taken

    def settle(self) -> None:
        world = self.world
        world.cluster.advance(world.now)
        while world.cluster.pending:
            plan = cycle(world.cluster, world.now, tells=False)
            world.apply(plan)
            world.cluster.promise(plan.promises, more=plan.more)
            world.planned()
            if not plan.placed and not plan.more:
                return

    # ---- reports

    def report(self, now: float, every_s: float) -> ClusterReport:
        """The one that is known at the global plane: a new one whenever the last is that old."""
        if self._report is None or now - self._reported_at >= every_s:
            seq = 1 if self._report is None else self._report.seq + 1
            self._report, self._reported_at = self._made(seq, now), now
        return self._report

    def age_s(self, now: float) -> float:
        return now - self._reported_at

    def _made(self, seq: int, now: float) -> ClusterReport:
        cluster, table = self.world.cluster, self.world.cluster.table
        info = self._nodes[0]
        kind: Kind = (info.cpu_milli, info.memory_mib, 0, "", info.pool, "")
        rows = [cluster.rows[node.name] for node in self._nodes]
        free = [(max(0, int(table.cpu_free[row])), info.memory_mib, 0) for row in rows]
        new = replace(_NEW, submitted_at=now, queued_at=now)
        etas = size_etas(cluster, new, kind, len(rows), now) if cluster.pending else []
        shape = ReportedShape(
            cpu_milli=info.cpu_milli, memory_mib=info.memory_mib, pool=info.pool, nodes=len(rows),
            free_cpu_milli=sum(room[0] for room in free), free_memory_mib=info.memory_mib * len(rows),
            rooms=rooms_of(free), etas=tuple(etas),
            drain_hour=self._drain(info.cpu_milli),
        )  # fmt: skip
        return ClusterReport(
            cluster=self.name, incarnation=1, seq=seq, shapes=(shape,), nodes=len(rows), ready_nodes=len(rows),
            pending=cluster.pending, running=len(cluster.holdings), labels=(f"pool={info.pool}",),
        )  # fmt: skip

    def _drain(self, cpu_milli: int) -> float:
        """Whole machines an hour, by how long running jobs were to run."""
        holdings = self.world.cluster.holdings.values()
        shares = [
            sum(place.cpu_milli for place in holding.placements) / cpu_milli * _HOUR_S / max(holding.runs_s, 1.0)
            for holding in holdings
            if holding.runs_s is not None
        ]
        return float(np.sum(shares))
