"""How far one cycle may go through the queue, and which jobs had a turn: the next cycle begins with the others."""

from collections.abc import Callable

# However short the time, so many jobs get a turn: every cycle comes further.
_LEAST = 16


class CycleBudget:
    """Lasts from cycle to cycle. `over` says when the time is up: the budget itself reads no clock."""

    def __init__(self, over: Callable[[], bool]) -> None:
        self._over = over
        # Jobs that had a turn since all jobs had one, and the ones among them that had it in earlier cycles.
        self.seen: set[str] = set()
        self.before: frozenset[str] = frozenset()
        # Turns in this cycle. `spent`: the cycle ended before every job had a turn in it. `whole`: every job that had
        # none in earlier cycles had one.
        self._turns = 0
        self.spent = self.whole = False

    def begin(self) -> None:
        self._turns = 0
        self.spent = self.whole = False
        self.before = frozenset(self.seen)

    def reach(self, job: str) -> bool:
        """Whether the job has its turn in this cycle."""
        if self.spent or (self._turns >= _LEAST and self._over()):
            self.spent = True
            return False
        self._turns += 1
        self.seen.add(job)
        return True

    def all_had_one(self) -> None:
        """Every job without a turn in earlier cycles had one: jobs that earlier cycles came to are next."""
        self.whole = True
        self.seen -= self.before

    def end(self) -> None:
        if not self.spent:
            self.whole = True
            self.seen.clear()
