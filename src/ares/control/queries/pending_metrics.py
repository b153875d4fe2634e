"""Numbers for dashboards: waiting jobs by reason, so that a wrong wish is not an ordinary wait; what pools draw."""

from collections import Counter
from itertools import islice

import numpy as np

from ares.api.reasons import REMEDIES, ReasonCode
from ares.control.scheduler.cluster_view import LiveCluster
from ares.core.capacity.node_table import NodeTable
from ares.core.capacity.power import draw_of_pools
from ares.ports.clock import Clock
from ares.ports.telemetry import Telemetry

_EVERY_S = 2.0
# Classes looked at each time; with more of them the counts of the others are as of an earlier time.
_CLASSES_AT_ONCE = 32
_PASSED_MAX_S = 10 * _EVERY_S


class PendingMetrics:
    """Metrics of pending jobs. Leader only. A few classes at a time, so that requests do not wait."""

    def __init__(self, planner: LiveCluster, clock: Clock, telemetry: Telemetry) -> None:
        self._planner = planner
        self._clock = clock
        self._telemetry = telemetry
        self._codes: dict[int, ReasonCode] = {}
        self._looked_at = -_PASSED_MAX_S
        self._next = 0

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            await self.look()

    async def look(self) -> None:
        active = self._planner.cluster.waiting.active
        self._codes = {number: code for number, code in self._codes.items() if number in active}
        self._next = 0 if self._next >= len(active) else self._next
        for number, job_class in islice(list(active.items()), self._next, self._next + _CLASSES_AT_ONCE):
            # One at a time: requests are served in between, and the class may be empty by then.
            await self._clock.sleep(0.0)
            reason = self._planner.reason(job_class.line.nth(0)[3]) if len(job_class.line) else None
            if reason is not None:
                self._codes[number] = reason.code
        self._next += _CLASSES_AT_ONCE
        counts: Counter[ReasonCode] = Counter()
        for number, code in self._codes.items():
            counts[code] += len(active[number].line) if number in active else 0
        self._telemetry.gauges("ares_pending_jobs", {(code,): counts[code] for code in REMEDIES})
        table = self._planner.cluster.table
        self._telemetry.gauges("ares_pool_power_watts", {(pool,): w for pool, w in draw_of_pools(table).items()})
        self._idle(table)

    def _idle(self, table: NodeTable) -> None:
        """GPU-seconds that passed since the last look without a job, by what is free now."""
        now = self._clock.monotonic()
        passed_s, self._looked_at = now - self._looked_at, now
        # After a pause of its own, such as another replica's lead, nothing is known of the time between.
        if not 0.0 < passed_s <= _PASSED_MAX_S:
            return
        free: Counter[str] = Counter()
        for row in np.flatnonzero(table.exists & (table.gpu_idle > 0)).tolist():
            record = table.records[row]
            if record is not None:
                free[record.info.pool] += int(table.gpu_idle[row])
        for pool, milli in free.items():
            self._telemetry.count("ares_gpu_seconds_total", milli / 1000 * passed_s, pool, "idle")
