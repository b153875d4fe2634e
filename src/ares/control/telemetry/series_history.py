"""The replica's own memory of its numbers: graphs without any other program."""

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol

from ares.api.telemetry.series import SeriesAnswer, SeriesPoints
from ares.control.state.pacing import breathe
from ares.control.telemetry.looks import guarded
from ares.control.telemetry.measures import Measures
from ares.core.series import SERIES_KEPT_MAX, SeriesKey, SeriesRings
from ares.ports.clock import Clock
from ares.ports.telemetry import MetricReading, ReadableTelemetry

_EVERY_S: Final = 10.0
_SAVED_EVERY_S: Final = 300.0
# Shown in one answer.
SERIES_SHOWN_MAX: Final = 64

# What is remembered: gauges as they are, counters as rates, histograms as rates and as quantiles of what came between
# two looks. Series of single GPUs and operations are too many; Prometheus keeps those.
GAUGES: Final = (
    "ares_queue_depth", "ares_pending_gpus", "ares_oldest_pending_seconds", "ares_jobs_running", "ares_gpus",
    "ares_share_gini", "ares_tenants_active", "ares_borrowed_gpus", "ares_deadlines_open", "ares_deadlines_at_risk",
    "ares_nodes", "ares_store_age_seconds", "ares_disk_free_bytes", "ares_lease_age_seconds",
)  # fmt: skip
# Gauges of single things of which there are too many: the mean of them all, as `NAME:mean`.
MEANS: Final = ("ares_gpu_utilization",)
# Gauges that are told when something changes, and not measured at a look.
TOLD: Final = ("ares_pending_jobs", "ares_pool_power_watts", "ares_agents_connected", "ares_streams_open")
RATES: Final = (
    "ares_jobs_total", "ares_submissions_total", "ares_retries_total", "ares_preemptions_total",
    "ares_lease_losses_total", "ares_gpu_seconds_total", "ares_energy_joules_total", "ares_cost_total",
    "ares_deadlines_met_total", "ares_deadlines_missed_total", "ares_log_bytes_total", "ares_auth_denials_total",
    "ares_limited_total", "ares_store_conflicts_total",
)  # fmt: skip
QUANTILES: Final = (
    "ares_scheduling_latency_seconds", "ares_start_latency_seconds", "ares_submit_seconds", "ares_cycle_seconds",
    "ares_store_latency_seconds", "ares_loop_lag_seconds", "ares_wait_seconds",
)  # fmt: skip
_SHOWN: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


class KeptSeries(Protocol):
    """Where they outlive the process. Both may take a while, and neither fails."""

    def save(self, rings: SeriesRings) -> None: ...

    def load(self) -> SeriesRings | None: ...


class SeriesHistory:
    """Every replica remembers its own counters, and the gauges of the whole cluster whether it leads or not: it has the
    same picture. They are measured apart, so that only the leader exposes them."""

    def __init__(
        self,
        measures: Measures,
        live: ReadableTelemetry,
        clock: Clock,
        replica: str,
        kept: KeptSeries | None = None,
    ) -> None:
        self._measures = measures
        self._live = live
        self._apart = live.apart()
        self._clock = clock
        self._replica = replica
        self._kept = kept
        self.rings = SeriesRings()
        self._before: dict[SeriesKey, MetricReading] = {}
        self._looked_at: float | None = None

    async def run(self) -> None:
        if self._kept is not None and (known := await asyncio.to_thread(self._kept.load)) is not None:
            self.rings = known
        saved_at = self._clock.monotonic()
        try:
            while True:
                await guarded("series", self.look, self._live)
                await self._clock.sleep(_EVERY_S)
                if self._clock.monotonic() - saved_at >= _SAVED_EVERY_S:
                    saved_at = self._clock.monotonic()
                    await self._save()
        finally:
            if self._kept is not None:
                # The process ends: nothing else waits for this.
                self._kept.save(self.rings)

    async def _save(self) -> None:
        if self._kept is not None:
            await asyncio.to_thread(self._kept.save, self.rings.copy())

    async def look(self) -> None:
        await self._measures.take(self._apart, everywhere=True)
        now = self._clock.monotonic()
        passed_s = None if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        values: dict[SeriesKey, float] = {}
        for reading in (*self._apart.readings(GAUGES), *self._live.readings(TOLD)):
            values[reading.name, reading.labels] = reading.value
        for name in MEANS:
            if known := [reading.value for reading in self._apart.readings((name,))]:
                values[f"{name}:mean", ()] = sum(known) / len(known)
        newest: dict[SeriesKey, MetricReading] = {}
        for reading in self._live.readings((*RATES, *QUANTILES)):
            key = (reading.name, reading.labels)
            newest[key] = reading
            before = self._before.get(key)
            if passed_s:
                # A series that is new began at nothing.
                values |= dict(_since(reading, before, passed_s))
        self._before = newest
        self.rings.put(self._clock.wall(), values)

    # ---- reading

    async def answer(self, names: tuple[str, ...], seconds: float) -> SeriesAnswer:
        """Series of these names, whatever their labels; of no names, all of them with their newest values alone."""
        now = self._clock.wall()
        ring, since = self.rings.ring_for(seconds), now - seconds
        wanted = [key for key in self.rings.rows if not names or key[0] in names]
        shown = wanted if not names else wanted[:SERIES_SHOWN_MAX]
        found: list[SeriesPoints] = []
        for key in shown:
            points = tuple(ring.read(self.rings.rows[key], since, now)) if names else ()
            found.append(SeriesPoints(name=key[0], labels=dict(key[1]), points=points, latest=self.rings.latest(key)))
            if names:
                # One of them may have thousands of points.
                await breathe()
        return SeriesAnswer(
            replica=self._replica,
            at=now,
            since=ring.first(since, now) * ring.shape.step_s,
            step_s=ring.shape.step_s,
            series=tuple(found),
            kept=len(self.rings.rows),
            kept_max=SERIES_KEPT_MAX,
        )


def _since(reading: MetricReading, before: MetricReading | None, passed_s: float) -> Iterator[tuple[SeriesKey, float]]:
    """What came since the look before, as rate and as quantiles."""
    more = reading.value - (0.0 if before is None else before.value)
    yield (f"{reading.name}:rate", reading.labels), max(0.0, more) / passed_s
    if not reading.counts or more <= 0:
        return
    then = (0,) * len(reading.counts) if before is None else before.counts
    came = [now - had for now, had in zip(reading.counts, then, strict=True)]
    for name, part in _SHOWN:
        yield (f"{reading.name}:{name}", reading.labels), quantile(reading.bounds, came, part)


def quantile(bounds: tuple[float, ...], counts: list[int], part: float) -> float:
    """As Prometheus' `histogram_quantile`: straight lines within buckets; beyond the last bound, that bound."""
    wanted, so_far = part * sum(counts), 0
    for at, count in enumerate(counts):
        if count and so_far + count >= wanted:
            if at >= len(bounds):
                return bounds[-1]
            below = bounds[at - 1] if at else 0.0
            return below + (bounds[at] - below) * (wanted - so_far) / count
        so_far += count
    return bounds[-1]
