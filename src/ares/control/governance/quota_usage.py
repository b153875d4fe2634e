"""The resource use of tenants, updated with every change of the view, from the first query on."""

from collections.abc import Callable, Iterable, Mapping

import msgspec
import structlog

from ares.control.governance.alerts import Alerts
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.capacity.holding import Holding
from ares.core.lifecycle.updates import in_force
from ares.core.quota.asked import asked_by, units_of
from ares.core.quota.counts import (
    TENANT,
    CountedUse,
    Counts,
    QuotaLevel,
    apart,
    counted_for,
    is_live,
    levels_of,
    live,
    overrun,
    place_of,
    to_come,
)
from ares.core.quota.lending import unspent
from ares.core.quota.measures import add, month_end, month_of, times
from ares.model.job import JobSpec
from ares.model.state import BOUND, ArrayRecord, FlowRecord, JobState
from ares.ports.clock import Clock
from ares.ports.store import Store, StoreError
from ares.ports.telemetry import Telemetry

_OVERRUNS_KEPT_S = 1.0
# Assumed time to the end of a job whose end is unknown.
_SOMETIME_S = 60.0

_Sums = dict[QuotaLevel, dict[str, int]]


class Counting:
    """Reads the view only: what this replica just wrote is there once the view has it."""

    def __init__(self, view: View, holdings: Callable[[], Mapping[str, Holding]], clock: Clock) -> None:
        self._view = view
        self._holdings = holdings
        self._clock = clock
        self._counts: dict[str, Counts] = {}
        # Jobs of counted tenants that hold something.
        self._bound: dict[str, set[str]] = {}
        self._overruns: dict[str, tuple[float, _Sums]] = {}
        self._moves: dict[str, int] = {}
        # Bytes of datasets by tenant, None until they are asked for after a change.
        self._datasets: dict[str, int] | None = None
        # Tenants whose counts were found wrong, and no recount has agreed with them since.
        self.doubted: set[str] = set()
        # Tasks of an array come one after the other.
        self._latest: tuple[JobSpec | None, dict[str, int]] = (None, {})
        view.subscribe(self._on_delta)

    # ---- reading

    @property
    def tenants(self) -> tuple[str, ...]:
        return tuple(self._counts)

    def moves(self, tenant: str) -> int:
        """Grows whenever a job of the tenant changes."""
        return self._moves.get(tenant, 0)

    def counts(self, tenant: str) -> Counts:
        found = self._counts.get(tenant)
        return self.rebuild(tenant) if found is None else found

    def used(self, tenant: str) -> Callable[[QuotaLevel], dict[str, int]]:
        """What a level of the tenant uses now, each answer a copy of its own."""
        counts, now = self.counts(tenant), self._clock.wall()
        month, overruns = month_of(now), self._overrun(tenant, now)
        forgotten = self._view.kept.spent.get(f"{tenant}/{month}")
        published = self._published(tenant)

        def of_level(level: QuotaLevel) -> dict[str, int]:
            found = counts.used(level, month)
            if published and level == TENANT:
                add(found, {"storage": published})
            if level == TENANT:
                add(found, self.idle(tenant))
            add(found, overruns.get(level, {}))
            if forgotten is not None:
                add(found, forgotten.levels.get(str(level), {}))
            return found

        return of_level

    def idle(self, tenant: str) -> dict[str, int]:
        """What clusters were lent of the tenant's quota beyond what jobs of theirs use: it counts as used."""
        sums: dict[str, int] = {}
        for name, cluster in self._view.kept.clusters.items() if self._view.kept.escrow else ():
            if (record := self._view.kept.escrow.get(f"{name}/{tenant}")) is not None:
                add(sums, unspent(record.escrow, self.counts(tenant).sums.get(place_of(cluster.code), {})))
        return sums

    def _published(self, tenant: str) -> int:
        """Bytes of the tenant's datasets, each version with all of its own."""
        if self._datasets is None:
            self._datasets = {}
            for record in self._view.kept.datasets.values():
                self._datasets[record.tenant] = self._datasets.get(record.tenant, 0) + record.bytes
        return self._datasets.get(tenant, 0)

    def frees_in_s(self, tenant: str, level: QuotaLevel, measure: str, needs: int, frees: str) -> float | None:
        """In how many seconds so many units will be free by the plan; None when that is unknown."""
        now = self._clock.wall()
        if frees == "month":
            return month_end(now) - now
        if frees != "jobs":
            return None
        ends = sorted(self._ends(tenant, level, measure, now))
        for at, units in ends:
            needs -= units
            if needs <= 0:
                return max(1.0, at - now)
        return _SOMETIME_S

    def _ends(self, tenant: str, level: QuotaLevel, measure: str, now: float) -> Iterable[tuple[float, int]]:
        holdings, entries = self._holdings(), self._view.entries
        for job in self._bound.get(tenant, ()):
            held, entry = holdings.get(job), entries.get(job)
            if held is None or entry is None or level not in levels_of(entry.state.team, entry.state.submitted_by):
                continue
            yield (held.ends_at or now + _SOMETIME_S), units_of(self.asked(entry.state), measure)

    def _overrun(self, tenant: str, now: float) -> _Sums:
        known = self._overruns.get(tenant)
        if known is not None and self._clock.monotonic() - known[0] <= _OVERRUNS_KEPT_S:
            return known[1]
        sums: _Sums = {}
        for job in self._bound.get(tenant, ()):
            state = self._view.entries[job].state
            more = overrun(state, self.asked(state), now)
            for level in levels_of(state.team, state.submitted_by) if any(more.values()) else ():
                add(sums.setdefault(level, {}), more)
        self._overruns[tenant] = (self._clock.monotonic(), sums)
        return sums

    # ---- counting

    def asked(self, state: JobState) -> dict[str, int]:
        spec = self._view.spec(state)
        if spec is None:
            return {"jobs": 1}
        if spec is not self._latest[0]:
            self._latest = (spec, asked_by(spec))
        return self._latest[1]

    def rebuild(self, tenant: str) -> Counts:
        """From all that the view has."""
        counts = self._counts[tenant] = Counts()
        self._bound[tenant] = set()
        for _, job in self._view.order.get(tenant, ()):
            self._put(counts, self._view.entries[job].state)
        for array in self._view.arrays.values():
            if array.tenant == tenant and not array.expanded:
                self._put_array(counts, array)
        for flow in self._view.kept.flows.values():
            if flow.tenant == tenant:
                self._put_flow(counts, flow)
        return counts

    def _put(self, counts: Counts, state: JobState) -> None:
        self._moves[state.tenant] = self._moves.get(state.tenant, 0) + 1
        (self._bound[state.tenant].add if state.phase in BOUND else self._bound[state.tenant].discard)(state.id)
        if is_live(state):
            counts.put(state.id, live(state, self.asked(state)))
        else:
            counts.drop(state.id)
            counts.end(state)

    def _put_array(self, counts: Counts, array: ArrayRecord) -> None:
        """Tasks that do not exist yet count from the moment the array does."""
        left = 0 if array.expanded else array.tasks - len(self._view.by_array.get(array.id, ()))
        raw = self._view.specs.get(array.id)
        if left <= 0 or raw is None:
            counts.drop(array.id)
            return
        spec = self._view.decode_spec(raw)
        amounts = to_come(asked_by(spec), array.estimated_s, array.cost_estimate)
        counts.put(array.id, CountedUse(counted_for(array.id, spec.team, array.submitted_by), times(amounts, left)))

    def _put_flows(self, changed: Iterable[str]) -> None:
        for flow_id in changed:
            flow = self._view.kept.flows.get(flow_id)
            if flow is not None and (counts := self._counts.get(flow.tenant)) is not None:
                self._put_flow(counts, flow)

    def _put_flow(self, counts: Counts, flow: FlowRecord) -> None:
        """All that a workflow asks for counts until its jobs exist; those that do meanwhile count twice, with care."""
        if flow.whole or flow.abandoned:
            counts.drop(flow.id)
        else:
            counts.put(flow.id, CountedUse(counted_for(flow.id, flow.team, flow.submitted_by), dict(flow.asked)))

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted or keys.DATASETS in delta.kept:
            self._datasets = None
        if delta.relisted:
            self._counts.clear()
            self._bound.clear()
            self._overruns.clear()
            return
        arrays = set(delta.arrays)
        for before, entry in delta.states:
            counts = self._counts.get(entry.state.tenant)
            if counts is None:
                continue
            if before is not None and not is_live(before):
                counts.end(before, -1)
            self._put(counts, entry.state)
            if before is None and entry.state.array is not None:
                arrays.add(entry.state.array)
        for state in delta.removed:
            counts = self._counts.get(state.tenant)
            if counts is not None:
                self._bound[state.tenant].discard(state.id)
                counts.drop(state.id)
                if not is_live(state):
                    counts.end(state, -1)
        for array_id in arrays:
            array = self._view.arrays.get(array_id)
            if array is not None and (counts := self._counts.get(array.tenant)) is not None:
                self._put_array(counts, array)
        self._put_flows(delta.flows)


# ---- counted once more
# Every replica does it for its own counts. What differs by more than a tenth is told and counted anew, and the tenant's
# jobs are admitted with more care until a recount agrees.


log = structlog.get_logger()

DRIFT_MAX = 0.1
_EVERY_S = 60.0
_PAGE = 500
_PAUSE_S = 0.01
# What moves while it is counted is counted again.
_TRIES = 3


class Recount:
    def __init__(
        self,
        store: Store,
        view: View,
        counting: Counting,
        alerts: Alerts,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._store = store
        self._view = view
        self._counting = counting
        self._alerts = alerts
        self._clock = clock
        self._telemetry = telemetry
        self._decode_state = msgspec.json.Decoder(JobState).decode

    async def run(self) -> None:
        """All tenants that have a quota, about once a minute."""
        while True:
            tenants = sorted(self._view.kept.quotas)
            for tenant in tenants:
                try:
                    await self.look(tenant)
                except StoreError as error:
                    log.warning("quota.recount_delayed", tenant=tenant, error=str(error))
                await self._clock.sleep(_EVERY_S / len(tenants))
            if not tenants:
                await self._clock.sleep(_EVERY_S)

    async def look(self, tenant: str) -> float:
        """By how much the counts were wrong; if by too much, they are right now."""
        drift = await self._drift(tenant)
        if drift <= DRIFT_MAX:
            self._counting.doubted.discard(tenant)
            return drift
        self._counting.rebuild(tenant)
        self._counting.doubted.add(tenant)
        self._telemetry.count("ares_quota_drift_total")
        text = f"the count of what {tenant} uses was off by {drift:.0%}; it was made anew, and admission is careful"
        log.error("quota.drift", tenant=tenant, drift=round(drift, 3))
        await self._alerts.raise_("quota-drift", tenant, tenant, text, {"drift": drift}, "critical")
        return drift

    async def _drift(self, tenant: str) -> float:
        drift = 0.0
        for _ in range(_TRIES):
            before, moves = self._seen(tenant), self._counting.moves(tenant)
            truth = _by_level(await self._recount(tenant), month_of(self._clock.wall()))
            await self._view.catch_up()
            drift = min(_apart(before, truth), _apart(self._seen(tenant), truth))
            if drift <= DRIFT_MAX or moves == self._counting.moves(tenant):
                break
        return drift

    def _seen(self, tenant: str) -> dict[QuotaLevel, dict[str, int]]:
        return _by_level(self._counting.counts(tenant), month_of(self._clock.wall()))

    async def _recount(self, tenant: str) -> Counts:
        counts, specs, created = Counts(), dict[str, JobSpec](), dict[str, int]()
        after, more = "", True
        while more:
            page = await self._store.range(f"{keys.STATE}{tenant}/", after=after, limit=_PAGE)
            for kv in page.kvs:
                state = self._decode_state(kv.value)
                if state.array is not None:
                    created[state.array] = created.get(state.array, 0) + 1
                if is_live(state):
                    spec = await self._spec(tenant, state.array or state.id, specs)
                    counts.put(state.id, live(state, {"jobs": 1} if spec is None else asked_by(in_force(spec, state))))
                else:
                    counts.end(state)
            after, more = page.kvs[-1].key if page.kvs else after, page.more
            if more:
                await self._clock.sleep(_PAUSE_S)
        for kv in (await self._store.range(f"{keys.ARRAYS}{tenant}/")).kvs:
            array = msgspec.json.decode(kv.value, type=ArrayRecord)
            left = 0 if array.expanded else array.tasks - created.get(array.id, 0)
            spec = await self._spec(tenant, array.id, specs) if left > 0 else None
            if spec is not None:
                amounts = times(to_come(asked_by(spec), array.estimated_s, array.cost_estimate), left)
                counts.put(array.id, CountedUse(counted_for(array.id, spec.team, array.submitted_by), amounts))
        return counts

    async def _spec(self, tenant: str, job: str, known: dict[str, JobSpec]) -> JobSpec | None:
        """A specification never changes: one that the view has is the store's."""
        if job not in known:
            raw = self._view.specs.get(job)
            if raw is None:
                kv = await self._store.get(keys.job(tenant, job))
                if kv is None:
                    return None
                raw = kv.value
            known[job] = self._view.decode_spec(raw)
        return known[job]


def _by_level(counts: Counts, month: str) -> dict[QuotaLevel, dict[str, int]]:
    return {level: counts.used(level, month) for level in counts.levels}


def _apart(counted: dict[QuotaLevel, dict[str, int]], other: dict[QuotaLevel, dict[str, int]]) -> float:
    return max(
        (apart(counted.get(level, {}), other.get(level, {})) for level in counted.keys() | other.keys()), default=0.0
    )
