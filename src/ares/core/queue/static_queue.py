"""All waiting jobs in one line, where neither time nor use changes their order: no job is ranked twice."""

from bisect import bisect_left, insort

from ares.core.queue.drf import Amounts
from ares.core.queue.factors import SETTLED, JobFacts, rank
from ares.core.queue.order import Place
from ares.core.queue.shares import Shares
from ares.core.queue.usage import DecayedUsage
from ares.model.profile import OrderPolicy

# Settled factors look at neither shares nor the time; placeholders are passed to them.
_NO_SHARES = Shares(Amounts(0, 0, 0), {}, DecayedUsage(1.0), 0.0)

# (minus primary rank, minus secondary rank, place in line): the smallest comes first.
Rank = tuple[float, float, Place]


def is_settled(order: OrderPolicy) -> bool:
    return all(factor.name in SETTLED for factor in (*order.primary, *order.secondary))


class StaticQueue:
    """Sorted once; a job is put in and taken out by bisection."""

    __slots__ = ("_order", "_ranks", "line")

    def __init__(self, order: OrderPolicy) -> None:
        self._order = order
        self._ranks: dict[str, Rank] = {}
        self.line: list[Rank] = []

    def add(self, place: Place, facts: JobFacts) -> None:
        at = self._ranks[place[3]] = self._rank(place, facts)
        if not self.line or at > self.line[-1]:
            self.line.append(at)
        else:
            insort(self.line, at)

    def remove(self, job_id: str) -> None:
        at = self._ranks.pop(job_id)
        if self.line[0] is at:
            del self.line[0]
        else:
            del self.line[bisect_left(self.line, at)]

    def ahead(self, job_id: str) -> list[Rank]:
        """Every job before a waiting job."""
        return self.line[: bisect_left(self.line, self._ranks[job_id])]

    def before(self, place: Place, facts: JobFacts) -> list[Rank]:
        """Every job before a place that no job has."""
        return self.line[: bisect_left(self.line, self._rank(place, facts))]

    def _rank(self, place: Place, facts: JobFacts) -> Rank:
        primary, secondary = rank(facts, _NO_SHARES, self._order, 0.0)
        # Between equals the earlier submission comes first, deadline or not.
        return -primary, -secondary, (0.0, *place[1:])
