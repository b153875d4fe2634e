"""The cheapest set of holders whose eviction makes room, exactly, among a few; counted in steps, not in time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ares.core.schedule.preempt.fit import Site
from ares.core.schedule.preempt.holders import Freed

# With so many candidates every set is looked at, unless a cheaper one rules it out: at most 2^12 of them.
EXACT_MAX = 12


class Candidate(NamedTuple):
    """A holder that may go, by its place in the order of job ids: lower means a lower id."""

    holder: int
    cost: int
    # What the job counts for in the disruption bound.
    milli: int
    lender: str
    # (row of the node, what the job frees there).
    frees: tuple[tuple[int, Freed], ...]


# Total cost, number of jobs, indexes in order: the smallest is the best.
Key = tuple[int, int, tuple[int, ...]]


class Bound(NamedTuple):
    """How much may be evicted: in all, and from each account that borrows, as long as it still borrows."""

    milli: int
    borrowed: Mapping[str, int] = {}

    def allows(self, chosen: Sequence[Candidate]) -> bool:
        if sum([candidate.milli for candidate in chosen]) > self.milli:
            return False
        if not self.borrowed:
            return True
        of: dict[str, list[int]] = {}
        for candidate in chosen:
            of.setdefault(candidate.lender, []).append(candidate.milli)
        # The largest goes last: the evictions before it must leave something borrowed.
        return all(sum(milli) - max(milli) < self.borrowed.get(lender, 0) for lender, milli in of.items())

    def after(self, taken: Candidate) -> "Bound":
        """What is left of the bound once this candidate is gone."""
        if not self.borrowed:
            return Bound(self.milli - taken.milli)
        rest = self.borrowed.get(taken.lender, 0) - taken.milli
        return Bound(self.milli - taken.milli, {**self.borrowed, taken.lender: rest})


UNBOUND = Bound(1 << 62)


class SearchBudget:
    """Steps that a search may take. The same input takes the same steps on every machine."""

    __slots__ = ("spent", "steps")

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.spent = 0

    def spend(self, steps: int = 1) -> bool:
        self.spent += steps
        return self.spent <= self.steps

    @property
    def over(self) -> bool:
        return self.spent > self.steps


class Stand:
    """Nodes with some of their holders gone: knows how many ranks fit."""

    __slots__ = ("ranks", "sites")

    def __init__(self, sites: Mapping[int, Site]) -> None:
        self.sites = sites
        self.ranks = sum(site.ranks for site in sites.values())

    def evict(self, candidate: Candidate) -> None:
        for row, freed in candidate.frees:
            self.ranks += self.sites[row].give(freed, 1)

    def restore(self, candidate: Candidate) -> None:
        for row, freed in candidate.frees:
            self.ranks += self.sites[row].give(freed, -1)


def key_of(chosen: Sequence[Candidate]) -> Key:
    return (
        sum(candidate.cost for candidate in chosen),
        len(chosen),
        tuple(sorted(candidate.holder for candidate in chosen)),
    )


def worth(candidate: Candidate) -> tuple[float, int]:
    return -candidate.cost, -candidate.holder


# Which candidate to spare first: the dearest, the dearest for its size, the largest. Each is best in some case.
_SPARED_FIRST: tuple[Callable[[Candidate], tuple[float, int]], ...] = (
    worth,
    lambda candidate: (-candidate.cost / (candidate.milli + 1), -candidate.holder),
    lambda candidate: (-candidate.milli, -candidate.holder),
)


def needed_only(stand: Stand, evicted: Iterable[Candidate], want: int) -> list[Candidate]:
    """Takes back every eviction that is not needed, in this order. What is left has no smaller set within it."""
    left: list[Candidate] = []
    for candidate in evicted:
        stand.restore(candidate)
        if stand.ranks < want:
            stand.evict(candidate)
            left.append(candidate)
    return left


def cheapest(
    stand: Stand,
    candidates: Sequence[Candidate],
    want: int,
    bound: Bound,
    budget: SearchBudget,
    best: Key | None = None,
) -> Key | None:
    """The best set that makes `want` ranks fit within the bound, if it is better than `best`; else `best`.

    Exact with up to EXACT_MAX candidates. With more: every order of sparing first, then exactly among the best set
    found and the cheapest others.
    """
    if len(candidates) > EXACT_MAX:
        best = spared(stand, candidates, want, bound, best)
        needed = set(best[2]) if best else set[int]()
        pool = sorted(
            candidates, key=lambda candidate: (candidate.holder not in needed, candidate.cost, candidate.holder)
        )
        candidates = pool[:EXACT_MAX] if len(needed) < EXACT_MAX else ()
    return _exact(stand, candidates, want, bound, budget, best)


def spared(
    stand: Stand, candidates: Sequence[Candidate], want: int, bound: Bound, best: Key | None = None
) -> Key | None:
    """All candidates gone, then every one spared that need not go: the best of a few orders to spare them in."""
    for first in _SPARED_FIRST:
        for candidate in candidates:
            stand.evict(candidate)
        left = list(candidates)
        if stand.ranks >= want:
            left = needed_only(stand, sorted(candidates, key=first), want)
            if bound.allows(left):
                best = min(best, key_of(left)) if best else key_of(left)
        for candidate in left:
            stand.restore(candidate)
    return best


def _exact(
    stand: Stand, candidates: Sequence[Candidate], want: int, bound: Bound, budget: SearchBudget, best: Key | None
) -> Key | None:
    """Branch and bound, the dearest decided first.

    An undecided candidate counts as gone, so a branch ends as soon as sparing one more would leave too little room.
    When the budget is over, the best one so far is the answer.
    """
    order = sorted(candidates, key=worth)
    found = best

    def descend(depth: int, cost: int, chosen: tuple[Candidate, ...]) -> None:
        nonlocal found
        if found is not None and (cost, len(chosen)) > found[:2]:
            return
        if depth == len(order):
            key = key_of(chosen)
            found = min(found, key) if found else key
            return
        candidate = order[depth]
        # Nodes to count anew: most of the time goes into this.
        if not budget.spend(len(candidate.frees)):
            return
        stand.restore(candidate)
        if stand.ranks >= want:
            descend(depth + 1, cost, chosen)
        stand.evict(candidate)
        if bound.allows((*chosen, candidate)):
            descend(depth + 1, cost + candidate.cost, (*chosen, candidate))

    for candidate in order:
        stand.evict(candidate)
    if stand.ranks >= want:
        descend(0, 0, ())
    for candidate in order:
        stand.restore(candidate)
    return found
