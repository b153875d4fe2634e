"""Victims for more ranks than one node can take, among more holders than can be tried: node by node, cheapest first."""

from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from ares.core.schedule.preempt.field import Field, least_cost
from ares.core.schedule.preempt.fit import Site
from ares.core.schedule.preempt.holders import Ints
from ares.core.schedule.preempt.search import (
    EXACT_MAX,
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

# So many nodes are looked at, the most promising first, or so many times the missing ranks.
ROWS_MIN = 256
ROWS_PER_RANK = 3
# Steps for the choice on one node.
_NODE_STEPS = 2_000


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
        here = [one for one in here if one.holder not in self.gone and one.milli <= self._left.milli]
        site = self.site(row)
        best: tuple[float, _NodeEviction] | None = None
        limit = min(self.need, self._field.most.item(row) - site.ranks)
        for more in sorted({min(1 << power, limit) for power in range(limit.bit_length() + 1)} if limit > 0 else ()):
            stand, want = Stand({row: site}), site.ranks + more
            left = self._left._replace(milli=self._left.milli * more // self.need) if self._even else self._left
            budget = SearchBudget(0 if self._budget.over else _NODE_STEPS)
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
            one = self._field.candidate(holder, self._row_of_slot)
            self.gone[holder] = one
            self._left = self._left.after(one)
            for row, freed in one.frees:
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
        stand = Stand({row: field.site(row) for one in chosen for row, _ in one.frees})
        return stand, chosen, stand.ranks + need

    stand, chosen, want = stand_for(sorted(state.gone))
    for one in chosen:
        stand.evict(one)
    left = needed_only(stand, sorted(chosen, key=worth), want)
    best = key_of(left) if bound.allows(left) else None
    others = sorted(state.seen - {one.holder for one in left}, key=lambda holder: (field.cost.item(holder), holder))
    pool = ([one.holder for one in left] + others)[:EXACT_MAX]
    if len(left) >= EXACT_MAX:
        return best
    stand, chosen, want = stand_for(pool)
    return cheapest(stand, chosen, want, bound, budget, best)
