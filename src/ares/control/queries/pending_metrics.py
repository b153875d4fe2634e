"""Numbers for dashboards: waiting jobs by reason, so that a wrong wish is not an ordinary wait; what pools draw."""

from collections import Counter
from itertools import islice

from ares.api.reasons import REMEDIES, ReasonCode
from ares.control.scheduler.cluster_view import LiveCluster
from ares.core.capacity.power import draw_of_pools
from ares.ports.clock import Clock
from ares.ports.telemetry import Telemetry

_EVERY_S = 2.0
# Classes looked at each time; with more of them the counts of the others are as of an earlier time.
_CLASSES_AT_ONCE = 32
# Pools with a metric of their own.
_POOLS_MAX = 256


class PendingMetrics:
    """Metrics of pending jobs. Leader only. A few classes at a time, so that requests do not wait."""

    def __init__(self, planner: LiveCluster, clock: Clock, telemetry: Telemetry) -> None:
        self._planner = planner
        self._clock = clock
        self._telemetry = telemetry
        self._codes: dict[int, ReasonCode] = {}
        # Those with a metric.
        self._pools: set[str] = set()
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
        for code in REMEDIES:
            self._telemetry.gauge("ares_pending_jobs", counts[code], code)
        self._power()

    def _power(self) -> None:
        drawn = draw_of_pools(self._planner.cluster.table)
        # A metric keeps every label it ever had, and a node says which pool it is in.
        self._pools |= set(islice(sorted(drawn.keys() - self._pools), _POOLS_MAX - len(self._pools)))
        # A pool that lost its last node draws nothing.
        for pool in self._pools:
            self._telemetry.gauge("ares_pool_power_watts", drawn.get(pool, 0.0), pool)
