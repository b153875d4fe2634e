"""The choice of victims: the least lost GPU-seconds, then the fewest jobs, then the lowest ids.

Exact when at most EXACT_MAX holders matter, and for one missing rank on any number of nodes with at most EXACT_MAX
holders each. Otherwise a sweep over the most promising nodes; what it answers fits, keeps the bound, and has no smaller
set within it that would do, but a cheaper one may exist. All limits are counts of steps: the same input gives the
same answer.
"""

from collections.abc import Mapping
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import floor
from typing import Literal, NamedTuple

import numpy as np

from ares.core.schedule.preempt.eligible import Exclusion, Rule
from ares.core.schedule.preempt.field import Field, lay_out, least_cost
from ares.core.schedule.preempt.fit import Site
from ares.core.schedule.preempt.holders import Asker, Ints, RoomColumns, RoomRequest
from ares.core.schedule.preempt.screen import Screened
from ares.core.schedule.preempt.search import (
    EXACT_MAX,
    UNBOUND,
    Bound,
    Candidate,
    Key,
    SearchBudget,
    Stand,
    cheapest,
    key_of,
    needed_only,
    spared,
    worth,
)
from ares.model.profile import PreemptionPolicy

# Steps of one choice, a few microseconds each.
STEPS_MAX = 50_000
# Laying out one node for a choice takes as long as so many steps.
_NODE_STEPS = 5
# With more parts than this, the holders that matter are not counted: there are too many to try all.
_PARTS_MAX = 4_096

Obstacle = Literal["not-enough", "disruption-bound", "borrowed"]


class Victims(NamedTuple):
    """The jobs that go, and where the ranks then fit: (node slot, ranks). No jobs: there is room already."""

    jobs: tuple[str, ...]
    slots: tuple[tuple[int, int], ...]
    lost_gpu_s: float
    evicted_gpus_milli: int
    # Sets of jobs looked at, and whether it is proven that none is better.
    considered: int
    exact: bool


class NoVictims(NamedTuple):
    """No job is evicted: why, and how many holders each rule keeps in place."""

    obstacle: Obstacle
    reason: str
    excluded: Mapping[Exclusion, int]
    considered: int


def bound_of(request: RoomRequest, asker: Asker, policy: PreemptionPolicy, rule: Rule) -> Bound:
    """How much may be evicted for the request. An operator's drain knows no bound."""
    if rule == "drain":
        return UNBOUND
    milli = floor(policy.disruption_max * request.milli + 1e-6)
    return Bound(milli, dict(asker.standing) if rule == "reclaim" else {})


def choose(request: RoomRequest, rooms: RoomColumns, screened: Screened, bound: Bound) -> Victims | NoVictims:
    """The holders to evict so that all ranks of the request fit."""
    field = lay_out(request, rooms, screened)
    need = request.ranks - int(field.now.sum())
    if need <= 0:
        return _victims(field, (), SearchBudget(0), exact=True)
    if need > int((field.most - field.now).sum()):
        return _not_enough(field)
    budget = SearchBudget(STEPS_MAX)
    found, exact = _solve(field, need, bound, budget)
    if found is None:
        return _smallest(field, need, bound, budget)
    return _victims(field, found[2], budget, exact=exact and not budget.over)


def _solve(field: Field, need: int, bound: Bound, budget: SearchBudget) -> tuple[Key | None, bool]:
    rows = field.helpful
    few = int((field.ends - field.begins)[rows].sum()) <= _PARTS_MAX
    holders = sorted({holder for row in rows.tolist() for holder in field.holders_on(row)}) if few else []
    small = [holder for holder in holders if field.milli(holder) <= bound.milli]
    if few and len(small) <= EXACT_MAX:
        slots = field.row_of_slot(rows)
        candidates = [field.candidate(holder, slots) for holder in small]
        stand = Stand({row: field.site(row) for row in rows.tolist()})
        return cheapest(stand, candidates, stand.ranks + need, bound, budget), True
    if need == 1:
        return _one_more(field, bound, budget)
    found = sweep(field, need, bound, budget, even=False)
    if found is None:
        again = SearchBudget(STEPS_MAX)
        found = sweep(field, need, bound, again, even=True)
        budget.spend(again.spent)
    return found, False


def _one_more(field: Field, bound: Bound, budget: SearchBudget) -> tuple[Key | None, bool]:
    """One rank is missing, so the holders of one node are enough: nodes in order of the least they could cost."""
    rows = field.helpful
    if bound.milli < UNBOUND.milli:
        rows = rows[least_cost(field.sized(), rows).cost <= bound.milli]
    if not len(rows):
        return None, True
    least = least_cost(field, rows)
    best: Key | None = None
    exact = True
    for i in np.lexsort((least.first, least.jobs, least.cost)).tolist():
        row = rows.item(i)
        if best is not None and best < (int(least.cost[i]), least.jobs.item(i), (least.first.item(i),)):
            break
        if not budget.spend(_NODE_STEPS):
            break
        slot = field.row_of_slot(rows[i : i + 1])
        here = [field.candidate(holder, slot) for holder in field.holders_on(row) if field.milli(holder) <= bound.milli]
        exact = exact and len(here) <= EXACT_MAX
        stand = Stand({row: field.site(row)})
        best = cheapest(stand, here, stand.ranks + 1, bound, budget, best)
    return best, exact


def _victims(field: Field, gone: tuple[int, ...], budget: SearchBudget, *, exact: bool) -> Victims:
    slots = field.row_of_slot(np.arange(len(field.rooms)))
    candidates = [field.candidate(holder, slots) for holder in gone]
    stand = Stand({row: field.site(row) for candidate in candidates for row, _ in candidate.frees})
    for candidate in candidates:
        stand.evict(candidate)
    ranks = field.now.copy()
    for row, site in stand.sites.items():
        ranks[row] = site.ranks
    # Rows with evictions are used first, then as few other nodes as possible.
    order = np.lexsort((field.rooms.slots, -ranks, field.now - ranks))
    places: list[tuple[int, int]] = []
    missing = field.request.ranks
    for row in order.tolist():
        here = min(missing, ranks.item(row))
        if not here:
            continue
        places.append((field.rooms.slots.item(row), here))
        missing -= here
        if not missing:
            break
    holders = [field.screened.holders[holder] for holder in gone]
    return Victims(
        jobs=tuple(holder.job for holder in holders),
        slots=tuple(places),
        lost_gpu_s=int(field.screened.lost_gpu_ms[list(gone)].sum()) / 1000,
        evicted_gpus_milli=sum(holder.gpus_milli for holder in holders),
        considered=budget.spent,
        exact=exact,
    )


def _smallest(field: Field, need: int, bound: Bound, budget: SearchBudget) -> Victims | NoVictims:
    """Finds the smallest eviction: it shows which bound is in the way, or that only the cheap choice was too large."""
    spent, budget = budget.spent, SearchBudget(STEPS_MAX)
    smallest, _ = _solve(field.sized(), need, Bound(UNBOUND.milli, bound.borrowed), budget)
    budget.spent += spent
    if smallest is not None and smallest[0] <= bound.milli:
        return _victims(field, smallest[2], budget, exact=False)
    asked = f"{field.request.milli / 1000:g} {'GPUs' if field.request.gpus else 'CPUs'} asked"
    if smallest is not None:
        reason = (
            f"{asked}, the smallest way found would evict {smallest[0] / 1000:g}"
            f"{' (the less it matters, the less it counts)' if any(field.screened.leniency) else ''}; the bound allows "
            f"{bound.milli / 1000:g}: raise preemption.disruption_max, or wait"
        )
        return NoVictims("disruption-bound", reason, field.screened.excluded, budget.spent)
    over = sum(beyond for beyond in bound.borrowed.values() if beyond > 0)
    reason = f"{asked}, all others together borrow {over / 1000:g}: what is their own stays with them"
    return NoVictims("borrowed", reason, field.screened.excluded, budget.spent)


def _not_enough(field: Field) -> NoVictims:
    kept = ", ".join(f"{count} by {word}" for word, count in sorted(field.screened.excluded.items()))
    reason = (
        f"{int(field.most.sum())} of {field.request.ranks} ranks would fit with everybody gone who may be evicted "
        f"({len(field.screened.holders)} jobs)" + (f"; kept in place: {kept}" if kept else "")
    )
    return NoVictims("not-enough", reason, field.screened.excluded, 0)


# ---- more ranks than one node can take, among more holders than can be tried: node by node, cheapest first


# So many nodes are looked at, the most promising first, or so many times the missing ranks.
ROWS_MIN = 256
ROWS_PER_RANK = 3
# Steps for the choice on one node.
_CHOICE_STEPS = 2_000


class _NodeEviction(NamedTuple):
    """The holders to evict on one node for so many more ranks there."""

    gain: int
    holders: tuple[int, ...]


class _Sweep:
    def __init__(self, field: Field, need: int, bound: Bound, rows: Ints, budget: SearchBudget, *, even: bool) -> None:
        self._field = field
        self._left = bound
        self._even = even
        self._budget = budget
        self._row_of_slot = field.row_of_slot(rows)
        self._sites: dict[int, Site] = {}
        self._version: dict[int, int] = {}
        self.gone: dict[int, Candidate] = {}
        self.seen: set[int] = set()
        self.need = need

    def site(self, row: int) -> Site:
        if row not in self._sites:
            self._sites[row] = self._field.site(row)
        return self._sites[row]

    def version(self, row: int) -> int:
        return self._version.get(row, 0)

    def option(self, row: int) -> tuple[float, _NodeEviction] | None:
        """The cheapest per rank on this node, as it is now. A gang's cost counts in parts: it frees other nodes too."""
        slot = {self._field.rooms.slots.item(row): row}
        here = [self._field.candidate(holder, slot) for holder in self._field.holders_on(row)]
        here = [
            candidate for candidate in here if candidate.holder not in self.gone and candidate.milli <= self._left.milli
        ]
        site = self.site(row)
        best: tuple[float, _NodeEviction] | None = None
        limit = min(self.need, self._field.most.item(row) - site.ranks)
        for more in sorted({min(1 << power, limit) for power in range(limit.bit_length() + 1)} if limit > 0 else ()):
            stand, want = Stand({row: site}), site.ranks + more
            left = self._left._replace(milli=self._left.milli * more // self.need) if self._even else self._left
            budget = SearchBudget(0 if self._budget.over else _CHOICE_STEPS)
            key = cheapest(stand, here, want, left, budget)
            if key is None and budget.over:
                key = spared(stand, here, want, left)
            self._budget.spend(budget.spent)
            if key is None:
                break
            if best is None or key[0] / more < best[0]:
                best = key[0] / more, _NodeEviction(more, key[2])
            self.seen.update(key[2])
        return best

    def evict(self, option: _NodeEviction) -> None:
        for holder in option.holders:
            candidate = self._field.candidate(holder, self._row_of_slot)
            self.gone[holder] = candidate
            self._left = self._left.after(candidate)
            for row, freed in candidate.frees:
                self.need -= self.site(row).give(freed, 1)
                self._version[row] = self.version(row) + 1


def sweep(field: Field, need: int, bound: Bound, budget: SearchBudget, *, even: bool) -> Key | None:
    """A good set within the bound that makes `need` more ranks fit, without needless members; None if none is found.

    With `even` each rank gets an equal part of the bound, so that the first ones do not use it up.
    """
    breadth = np.bincount(field.screened.parts.holder, minlength=len(field.cost))
    whole = field.cost
    parted = replace(field, cost=whole // np.maximum(1, np.minimum(breadth, need)))
    rows = _promising(parted, need)
    state = _Sweep(parted, need, bound, rows, budget, even=even)
    least = least_cost(parted, rows)
    estimate = np.maximum(least.shared, least.single / np.minimum(need, field.most[rows] - field.now[rows]))
    heap: list[tuple[float, int, int, _NodeEviction | None]] = [
        (estimate.item(i), row, 0, None) for i, row in enumerate(rows.tolist())
    ]
    heapify(heap)
    while state.need > 0 and heap:
        _, row, version, option = heappop(heap)
        if option is not None and version == state.version(row):
            state.evict(option)
        better = state.option(row) if state.need > 0 else None
        if better:
            heappush(heap, (better[0], row, state.version(row), better[1]))
    if state.need > 0:
        return None
    return _polished(field, need, bound, state, budget)


def _promising(field: Field, need: int) -> Ints:
    rows = field.helpful
    least = least_cost(field, rows)
    order = np.lexsort((least.first, least.cost))
    gains = np.cumsum((field.most - field.now)[rows[order]])
    enough = int(np.searchsorted(gains, need)) + 1
    return rows[order[: max(ROWS_MIN, ROWS_PER_RANK * need, enough)]]


def _polished(field: Field, need: int, bound: Bound, state: _Sweep, budget: SearchBudget) -> Key | None:
    """Without the holders that need not go; and with few left, exactly among them and the others that were tried."""

    def stand_for(holders: list[int]) -> tuple[Stand, list[Candidate], int]:
        slots = field.row_of_slot(field.helpful)
        chosen = [field.candidate(holder, slots) for holder in holders]
        stand = Stand({row: field.site(row) for candidate in chosen for row, _ in candidate.frees})
        return stand, chosen, stand.ranks + need

    stand, chosen, want = stand_for(sorted(state.gone))
    for candidate in chosen:
        stand.evict(candidate)
    left = needed_only(stand, sorted(chosen, key=worth), want)
    best = key_of(left) if bound.allows(left) else None
    others = sorted(
        state.seen - {candidate.holder for candidate in left}, key=lambda holder: (field.cost.item(holder), holder)
    )
    pool = ([candidate.holder for candidate in left] + others)[:EXACT_MAX]
    if len(left) >= EXACT_MAX:
        return best
    stand, chosen, want = stand_for(pool)
    return cheapest(stand, chosen, want, bound, budget, best)
