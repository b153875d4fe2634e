"""Turns that are kept: whoever was promised a start does not lose it because shares moved since.

A job that matters no more than one with a promise comes after it. The more important, and those with a deadline, come
before it where their ranks say so.
"""

from collections.abc import Iterable
from math import inf

from ares.core.queue.factors import JobFacts, rank
from ares.core.queue.shares import Shares
from ares.core.queue.waiting import WaitingQueue
from ares.model.job import PRIORITIES
from ares.model.profile import Profile

_PROMISING = frozenset({"easy", "aggressive", "deadline"})


class KeptTurns:
    """Of the jobs that are promised a start, what their ranks mean for those of others."""

    __slots__ = ("_jobs", "_most")

    def __init__(self, ranks: dict[str, tuple[int, float]]) -> None:
        self._jobs = ranks.keys()
        # By priority level: the rank that nobody of it comes before.
        self._most = [
            min((primary for of, primary in ranks.values() if of <= level), default=inf)
            for level in range(len(PRIORITIES))
        ]

    def within(self, job: str, facts: JobFacts, primary: float) -> tuple[float, bool]:
        """What the rank of a job counts in line, and whether it comes after others that count as much."""
        if not self._jobs or facts.latest_start is not None or job in self._jobs:
            return primary, False
        most = self._most[facts.level]
        return (most, True) if most < primary else (primary, False)


def kept_turns(
    waiting: WaitingQueue, promised: Iterable[str], profile: Profile, shares: Shares, now: float
) -> KeptTurns:
    """Where the order moves while jobs wait; where it does not, nobody loses a turn by that."""
    if waiting.settled is not None or profile.backfill.strategy not in _PROMISING or "backfill" not in profile.actions:
        return KeptTurns({})
    ranks: dict[str, tuple[int, float]] = {}
    for job in promised:
        facts = waiting.facts_of(job) if job in waiting else None
        if facts is not None and facts.latest_start is None:
            ranks[job] = facts.level, rank(facts, shares, profile.order, now)[0]
    return KeptTurns(ranks)
