"""Counts what tenants use once more, from the store itself, and compares: a wrong count must not stay one.

Every replica does it for its own counts. What differs by more than a tenth is told and counted anew, and the tenant's
jobs are admitted with more care until a recount agrees.
"""

import msgspec
import structlog

from ares.control.governance.alerts import Alerts
from ares.control.governance.quota_usage import Counting
from ares.control.state.view import View
from ares.core import keys
from ares.core.lifecycle.updates import in_force
from ares.core.quota.asked import asked_by
from ares.core.quota.counts import CountedUse, Counts, QuotaLevel, apart, is_live, levels_of, live, to_come
from ares.core.quota.measures import month_of, times
from ares.model.job import JobSpec
from ares.model.state import ArrayRecord, JobState
from ares.ports.clock import Clock
from ares.ports.store import Store, StoreError
from ares.ports.telemetry import Telemetry

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
                counts.put(array.id, CountedUse(levels_of(spec.team, array.submitted_by), amounts))
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
