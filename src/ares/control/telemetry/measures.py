"""Gauges as of the moment they are asked for: of this replica, and on the leader of the whole cluster.

Nothing of it is kept up to date between two looks: it lies in the view and in the scheduler's picture.
"""

from collections import Counter

import numpy as np

from ares.control.queries.health import Health
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.deadlines import Deadlines
from ares.control.state.leader import Leader
from ares.control.state.pacing import LOOKED_AT, WORKED_ON, breathe
from ares.control.state.view import View
from ares.control.telemetry.gpu_readings import GpuReadings
from ares.control.telemetry.open_deadlines import OpenDeadlines
from ares.core.queue.fairness import fairness
from ares.ports.clock import Clock
from ares.ports.telemetry import Telemetry

# Of the whole cluster: on the leader alone. One that is deposed has none of them any more.
LEADER_GAUGES = (
    "ares_queue_depth", "ares_oldest_pending_seconds", "ares_pending_jobs", "ares_pending_gpus", "ares_jobs_unreached",
    "ares_jobs_running", "ares_gpus", "ares_reserved_gpus", "ares_pool_power_watts", "ares_share_gini",
    "ares_tenants_active", "ares_borrowed_gpus", "ares_deadlines_open", "ares_deadlines_at_risk",
)  # fmt: skip
_WHOLE = 1000


class Measures:
    def __init__(
        self,
        view: View,
        planner: LiveCluster,
        leader: Leader,
        health: Health,
        deadlines: Deadlines,
        gpu_readings: GpuReadings,
        clock: Clock,
    ) -> None:
        self._view = view
        self._planner = planner
        self._leader = leader
        self._health = health
        self._deadlines = deadlines
        self._open = OpenDeadlines(view)
        self._gpu_readings = gpu_readings
        self._clock = clock

    async def take(self, telemetry: Telemetry, *, everywhere: bool = False) -> None:
        """With `everywhere` also those of the whole cluster where another replica leads."""
        self._health.measure(telemetry)
        self._gpu_readings.measure(telemetry)
        if not self._leader.leading and not everywhere:
            for name in LEADER_GAUGES:
                telemetry.gauges(name, {})
            return
        await self._queue(telemetry)
        now, tellings = self._clock.wall(), self._view.kept.tellings
        ages = {(name,): max(0.0, now - telling.at) for name, telling in tellings.items()}
        telemetry.gauges("ares_cluster_data_age_seconds", ages)
        self._shares(telemetry)
        self._gpus(telemetry)
        await self._running(telemetry)
        await self._due(telemetry)

    async def _queue(self, telemetry: Telemetry) -> None:
        cluster, now = self._planner.cluster, self._clock.wall()
        telemetry.gauge("ares_queue_depth", cluster.pending)
        oldest, gpus = now, 0
        for number, job_class in enumerate(tuple(cluster.waiting.active.values()), start=1):
            if number % LOOKED_AT == 0:
                await breathe()
            if count := len(job_class.line):
                ask = job_class.key.asks[0]
                gpus += count * ask.ranks * ask.gpus_milli
                oldest = min(oldest, job_class.line.nth(0)[1])
        telemetry.gauge("ares_pending_gpus", gpus / _WHOLE)
        telemetry.gauge("ares_oldest_pending_seconds", max(0.0, now - oldest))

    def _shares(self, telemetry: Telemetry) -> None:
        cluster = self._planner.cluster
        waiting = frozenset(job_class.key.account.partition("/")[0] for job_class in cluster.waiting.active.values())
        found = fairness(cluster.held_by_tenant(), waiting, cluster.profile.shares, cluster.capacity())
        telemetry.gauge("ares_share_gini", found.gini)
        telemetry.gauge("ares_tenants_active", found.active)
        telemetry.gauge("ares_borrowed_gpus", found.borrowed_gpus)

    def _gpus(self, telemetry: Telemetry) -> None:
        table = self._planner.cluster.table
        free, there = Counter[str](), Counter[str]()
        for row in np.flatnonzero(table.exists & table.healthy).tolist():
            record = table.records[row]
            if record is not None and (count := int(table.gpu_count[row])):
                there[record.info.pool] += _WHOLE * count
                free[record.info.pool] += int(table.gpu_idle[row])
        held = {(pool, "held"): (all_ - free[pool]) / _WHOLE for pool, all_ in there.items()}
        telemetry.gauges("ares_gpus", held | {(pool, "free"): free[pool] / _WHOLE for pool in there})

    async def _running(self, telemetry: Telemetry) -> None:
        running, view = Counter[tuple[str, ...]](), self._view
        for number, holding in enumerate(tuple(self._planner.cluster.holdings.values()), start=1):
            record = view.nodes.get(holding.placements[0].node) if holding.placements else None
            running["" if record is None else record.info.pool,] += 1
            if number % LOOKED_AT == 0:
                await breathe()
        # Known pools with nothing in them say so.
        pools = {(record.info.pool,): 0 for record in view.nodes.values()}
        telemetry.gauges("ares_jobs_running", {**pools, **running})

    async def _due(self, telemetry: Telemetry) -> None:
        classes = {(name,): 0 for name in (*self._deadlines.classes, "own")}
        still, at_risk = Counter[tuple[str, ...]](classes), Counter[tuple[str, ...]](classes)
        for number, state in enumerate(self._open.states(), start=1):
            still[state.sla or "own",] += 1
            at_risk[state.sla or "own",] += self._deadlines.at_risk(state)
            if number % WORKED_ON == 0:
                await breathe()
        telemetry.gauges("ares_deadlines_open", still)
        telemetry.gauges("ares_deadlines_at_risk", at_risk)
