"""The choice of victims: the least lost GPU-seconds, then the fewest jobs, then the lowest ids.

Exact when at most EXACT_MAX holders matter, and for one missing rank on any number of nodes with at most EXACT_MAX
holders each. Otherwise a sweep over the most promising nodes; what it answers fits, keeps the bound, and has no smaller
set within it that would do, but a cheaper one may exist. All limits are counts of steps: the same input gives the
same answer.
"""

from collections.abc import Mapping
from math import floor
from typing import Literal, NamedTuple

import numpy as np

from ares.core.schedule.preempt.eligible import Exclusion, Rule
from ares.core.schedule.preempt.field import Field, lay_out, least_cost
from ares.core.schedule.preempt.holders import Asker, RoomColumns, RoomRequest
from ares.core.schedule.preempt.screen import Screened
from ares.core.schedule.preempt.search import EXACT_MAX, UNBOUND, Bound, Key, SearchBudget, Stand, cheapest
from ares.core.schedule.preempt.sweep import sweep
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
    stand = Stand({row: field.site(row) for one in candidates for row, _ in one.frees})
    for one in candidates:
        stand.evict(one)
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
