"""The resource use of tenants, updated with every change of the view, from the first query on."""

from collections.abc import Callable, Iterable, Mapping

from ares.control.state.view import Delta, View
from ares.core.capacity.holding import Holding
from ares.core.quota.asked import asked_by, units_of
from ares.core.quota.counts import CountedUse, Counts, QuotaLevel, is_live, levels_of, live, overrun, to_come
from ares.core.quota.measures import add, month_end, month_of, times
from ares.model.job import JobSpec
from ares.model.state import BOUND, ArrayRecord, FlowRecord, JobState
from ares.ports.clock import Clock

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

        def of_level(level: QuotaLevel) -> dict[str, int]:
            found = counts.used(level, month)
            add(found, overruns.get(level, {}))
            if forgotten is not None:
                add(found, forgotten.levels.get(str(level), {}))
            return found

        return of_level

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
        counts.put(array.id, CountedUse(levels_of(spec.team, array.submitted_by), times(amounts, left)))

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
            counts.put(flow.id, CountedUse(levels_of(flow.team, flow.submitted_by), dict(flow.asked)))

    def _on_delta(self, delta: Delta) -> None:
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
