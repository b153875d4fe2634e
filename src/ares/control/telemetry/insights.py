"""Watches the replica's own series for what is odd, keeps what was found, and what people made of it."""

import asyncio
import hashlib
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from ares.api.telemetry.insights import DemandView, InsightList
from ares.control.governance.alerts import Alerts
from ares.control.state.leader import leads_for_s
from ares.control.state.records import Records, absent, same
from ares.control.state.view import View
from ares.control.telemetry.looks import guarded
from ares.control.telemetry.series_history import SeriesHistory
from ares.core import keys
from ares.core.insight.anomalies import HISTORY_MIN, Floats, Oddity
from ares.core.insight.demand import STEP_S, forecast
from ares.core.insight.watched import QUEUE, is_watched, oddity, told, watched_as
from ares.core.series import SeriesKey, StepRing
from ares.model.access import Principal
from ares.model.telemetry.insight import InsightRecord, InsightVerdict
from ares.ports.clock import Clock
from ares.ports.store import Delete, Op, Put, Store
from ares.ports.telemetry import Telemetry

_EVERY_S: Final = 60.0
# An episode is over when its series was as usual for so long; before that it is the same one.
_COOL_DOWN_S: Final = 1800.0
# So long after a change of machines, of the profile or of the leader its effects are expected.
_EXPECTED_S: Final = 900.0
INSIGHTS_MAX: Final = 500
_AHEAD_S: Final = (7200.0, 21_600.0)
_FORECAST_EVERY_S: Final = 900.0


class Insights:
    """Every replica watches its own series. An episode is one record, whichever replica sees it first."""

    def __init__(
        self, store: Store, view: View, history: SeriesHistory, alerts: Alerts, telemetry: Telemetry, clock: Clock,
        replica: str,
    ) -> None:  # fmt: skip
        self._records = Records(store, view)
        self._view = view
        self._history = history
        self._alerts = alerts
        self._telemetry = telemetry
        self._clock = clock
        self._replica = replica
        self._started = clock.monotonic()
        self._judged = 0
        self._forecasts: tuple[float, tuple[DemandView, ...]] | None = None

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            await guarded("insights", self.look, self._telemetry)

    # ---- what is odd

    async def look(self) -> None:
        now = self._clock.wall()
        refused = self._refused()
        found = await asyncio.to_thread(self._odd, self._minutes(now), refused)
        causes = self.causes()
        lost = any(key[0] == "ares_nodes" for key in found)
        for key, odd in found.items():
            moves = (watched := watched_as(key)) is not None and watched.capacity
            cause = next((cause for cause, only in causes if moves or not only), "")
            if not cause and lost and moves and key[0] != "ares_nodes":
                cause = "machines are lost"
            await self._keep(key, odd, cause, now)
        await self._end(set(found), now)

    def _minutes(self, now: float) -> dict[SeriesKey, Floats]:
        """The last whole minutes of watched series, copied: they are judged in a thread."""
        rings = self._history.rings
        ring = next(ring for ring in rings.rings if ring.shape.step_s == int(_EVERY_S))
        last = int(now // _EVERY_S) - 1
        rows = {key: row for key, row in rings.rows.items() if is_watched(key)}
        return {key: _steps(ring, row, last, ring.shape.steps - 2) for key, row in rows.items()}

    def _odd(self, minutes: dict[SeriesKey, Floats], refused: dict[str, int]) -> dict[SeriesKey, Oddity]:
        self._judged = sum(int(np.isfinite(values).sum()) >= HISTORY_MIN for values in minutes.values())
        queue = minutes.get(QUEUE)
        found = ((key, oddity(key, values, queue, refused.get(_subject(key), 0))) for key, values in minutes.items())
        return {key: odd for key, odd in found if odd is not None}

    def _refused(self) -> dict[str, int]:
        """How often a person said of a series that it was no anomaly."""
        counts: dict[str, int] = {}
        for record in self._view.kept.insights.values():
            if record.verdict == "no-anomaly":
                subject = _subject((record.series, tuple(sorted(record.labels.items()))))
                counts[subject] = counts.get(subject, 0) + 1
        return counts

    def causes(self) -> list[tuple[str, bool]]:
        """Known causes at the moment, and whether each explains only what moves with the machines."""
        now, found = self._clock.wall(), list[tuple[str, bool]]()
        if self._clock.monotonic() - self._started < _EXPECTED_S:
            found.append(("this server was started lately", False))
        led_s = leads_for_s(self._view, self._clock)
        if led_s is None or led_s < _EXPECTED_S:
            found.append(("there is a new leader, or none", False))
        if now - self._view.profile.at < _EXPECTED_S:
            found.append((f"the profile was changed to version {self._view.profile.version}", False))
        drained = [name for name, record in self._view.nodes.items() if record.drained_by]
        if drained:
            found.append((f"{len(drained)} machines are drained", True))
        fresh = [record for record in self._view.nodes.values() if now - record.registered_at < _EXPECTED_S]
        if fresh:
            found.append((f"{len(fresh)} agents were started lately", True))
        return found

    async def _keep(self, key: SeriesKey, odd: Oddity, cause: str, now: float) -> None:
        known = self._going_on(key)
        if known is not None and known.cause and not cause:
            # It has outlasted what explained it: now it is news.
            await self._change(replace(known, cause="", last_at=now, value=odd.value))
            await self._tell(key, odd)
            return
        if known is not None:
            # Only now and then: an episode that goes on is no news.
            if now - known.last_at >= _COOL_DOWN_S / 3:
                await self._change(replace(known, last_at=now, value=odd.value))
            return
        labels = dict(key[1])
        name = hashlib.sha256(f"{_subject(key)}\n{now // _COOL_DOWN_S}".encode()).hexdigest()[:16]
        record = InsightRecord(
            id=name, series=key[0], labels=labels, text=told(key, odd), began_at=now, last_at=now, value=odd.value,
            low=odd.low, high=odd.high, probability=odd.probability, replica=self._replica, cause=cause,
        )  # fmt: skip
        path = keys.insight(name)
        ops: list[Op] = [Put(path, msgspec.json.encode(record)), *self._room()]
        if await self._records.write([absent(path)], ops) and not cause:
            await self._tell(key, odd)

    async def _tell(self, key: SeriesKey, odd: Oddity) -> None:
        await self._alerts.raise_("anomaly", "", _subject(key), told(key, odd), {"value": odd.value}, "info")

    def _going_on(self, key: SeriesKey) -> InsightRecord | None:
        labels = dict(key[1])
        found = self._view.kept.insights.values()
        return next(
            (
                record
                for record in found
                if record.ended_at is None and (record.series, record.labels) == (key[0], labels)
            ),
            None,
        )

    async def _end(self, odd: set[SeriesKey], now: float) -> None:
        for record in list(self._view.kept.insights.values()):
            key = (record.series, tuple(sorted(record.labels.items())))
            if record.ended_at is None and key not in odd and now - record.last_at >= _COOL_DOWN_S:
                await self._change(replace(record, ended_at=record.last_at))

    def _room(self) -> list[Op]:
        """Deletes what makes room for one more: the oldest that no person judged."""
        kept = self._view.kept.insights
        if len(kept) < INSIGHTS_MAX:
            return []
        oldest = min(kept.values(), key=lambda record: (bool(record.verdict), record.last_at))
        return [Delete(keys.insight(oldest.id))]

    async def _change(self, record: InsightRecord) -> None:
        found = await self._records.read(keys.insight(record.id), InsightRecord)
        if found is not None:
            kv, known = found
            kept = replace(record, verdict=known.verdict, by=known.by, note=known.note)
            await self._records.write([same(kv)], [Put(keys.insight(record.id), msgspec.json.encode(kept))])

    # ---- what people make of it

    async def judge(self, who: Principal, name: str, verdict: InsightVerdict, note: str) -> InsightRecord | None:
        """None when there is no such insight."""

        async def attempt() -> InsightRecord | bool | None:
            found = await self._records.read(keys.insight(name), InsightRecord)
            if found is None:
                return False
            kv, known = found
            after = replace(known, verdict=verdict, by=who.author, note=note[:1000])
            written = await self._records.write([same(kv)], [Put(keys.insight(name), msgspec.json.encode(after))])
            return after if written else None

        done = await self._records.settle(f"what was said of insight {name}", attempt)
        return done if isinstance(done, InsightRecord) else None

    async def listed(self, *, every: bool = False) -> InsightList:
        await self._view.catch_up()
        found = [
            record
            for record in self._view.kept.insights.values()
            if every or (not record.cause and record.verdict != "no-anomaly")
        ]
        return InsightList(
            replica=self._replica,
            at=self._clock.wall(),
            insights=tuple(sorted(found, key=lambda record: -record.began_at)),
            forecasts=await self._demand(),
            judged=self._judged,
            watched=sum(is_watched(key) for key in self._history.rings.rows),
            causes=tuple(cause for cause, _ in self.causes()),
        )

    # ---- demand

    async def _demand(self) -> tuple[DemandView, ...]:
        now = self._clock.monotonic()
        if self._forecasts is None or now - self._forecasts[0] >= _FORECAST_EVERY_S:
            series = self._gpus(self._clock.wall())
            views = await asyncio.to_thread(_forecasts, *series)
            if not len(series[0]):
                # The first numbers of a server that has just started are a moment away: not kept.
                return views
            self._forecasts = (now, views)
        return self._forecasts[1]

    def _gpus(self, now: float) -> tuple[Floats, Floats, int]:
        """GPUs that are held or asked for, and GPUs that are there, by quarters of an hour."""
        rings = self._history.rings
        ring = next(ring for ring in rings.rings if ring.shape.step_s == STEP_S)
        last, steps = int(now // STEP_S) - 1, ring.shape.steps - 2
        held = free = waits = np.zeros(0)
        for key, row in rings.rows.items():
            values = _steps(ring, row, last, steps) if key[0] in ("ares_gpus", "ares_pending_gpus") else None
            if values is None:
                continue
            if key[0] == "ares_pending_gpus":
                waits = values
            elif dict(key[1]).get("state") == "held":
                held = _plus(held, values)
            else:
                free = _plus(free, values)
        if not len(held) or not len(waits):
            return np.zeros(0), np.zeros(0), 0
        return held + waits, _plus(held, free) if len(free) else held, last - steps + 1


def _forecasts(demand: Floats, capacity: Floats, first_step: int) -> tuple[DemandView, ...]:
    return tuple(_view(demand, capacity, first_step, ahead_s) for ahead_s in _AHEAD_S)


def _view(demand: Floats, capacity: Floats, first_step: int, ahead_s: float) -> DemandView:
    if not len(demand):
        return DemandView(ahead_s=ahead_s, silent="there are no GPUs whose demand is known")
    found = forecast(demand, capacity, first_step, ahead_s)
    if isinstance(found, str):
        return DemandView(ahead_s=ahead_s, silent=found)
    return DemandView(
        ahead_s=ahead_s, probability=round(found.probability, 3), low=found.low, high=found.high,
        capacity=float(capacity[-1]), skill=round(found.skill, 3), coverage=round(found.coverage, 3), tried=found.tried,
    )  # fmt: skip


def _plus(one: Floats, other: Floats) -> Floats:
    """A pool that was not there then had none. Where neither is known, the sum is not."""
    if not len(one):
        return other
    both = np.where(np.isfinite(one), one, 0.0) + np.where(np.isfinite(other), other, 0.0)
    return np.where(np.isfinite(one) | np.isfinite(other), both, np.nan)


def _steps(ring: StepRing, row: int, last: int, steps: int) -> Floats:
    wanted = np.arange(last - steps + 1, last + 1)
    known = (ring.newest - ring.shape.steps < wanted) & (wanted <= ring.newest)
    return np.where(known, ring.values[row, wanted % ring.shape.steps].astype(np.float64), np.nan)


def _subject(key: SeriesKey) -> str:
    return key[0] + "".join(f" {name}={value}" for name, value in key[1])
