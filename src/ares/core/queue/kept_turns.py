"""Turns that are kept: a job that was promised a start does not lose it because shares moved since.

A job of no higher priority than one with a promise comes after it. Jobs of higher priority, and jobs with a
deadline, come before it where their ranks say so.
"""

from collections.abc import Iterable
from math import inf

import numpy as np
import numpy.typing as npt

from ares.core.queue.factors import ClassFacts, JobFacts, rank
from ares.core.queue.factors.factor import Floats
from ares.core.queue.shares import Shares
from ares.core.queue.waiting import QueueView
from ares.model.job import PRIORITIES
from ares.model.profile import Profile

Bools = npt.NDArray[np.bool_]

_PROMISING = frozenset({"easy", "aggressive", "deadline"})


class KeptTurns:
    """The jobs that are promised a start, and how their ranks bound the ranks of other jobs."""

    __slots__ = ("_most", "jobs")

    def __init__(self, ranks: dict[str, tuple[int, float]]) -> None:
        self.jobs = ranks.keys()
        # By priority level: the rank that no job of the level comes before.
        self._most = [
            min((primary for of, primary in ranks.values() if of <= level), default=inf)
            for level in range(len(PRIORITIES))
        ]

    def within(self, job: str, facts: JobFacts, primary: float) -> tuple[float, bool]:
        """What the rank of a job counts in line, and whether it comes after jobs that count as much."""
        if not self.jobs or facts.latest_start is not None or job in self.jobs:
            return primary, False
        most = self._most[facts.level]
        return (most, True) if most < primary else (primary, False)

    def within_each(self, facts: ClassFacts, least: Floats, most: Floats) -> tuple[Floats, Bools]:
        """The same of many jobs that have no promise, by the least and the most that their ranks can be: no job comes
        before what this says."""
        if not self.jobs:
            return most, np.zeros(len(most), np.bool_)
        bound = np.array(self._most)[facts.level]
        after = np.isnan(facts.latest_start) & (bound < least)
        return np.where(after, bound, most), after


def kept_turns(waiting: QueueView, promised: Iterable[str], profile: Profile, shares: Shares, now: float) -> KeptTurns:
    """For orders that move while jobs wait; where the order is static, no job loses a turn."""
    if waiting.settled is not None or profile.backfill.strategy not in _PROMISING or "backfill" not in profile.actions:
        return KeptTurns({})
    ranks: dict[str, tuple[int, float]] = {}
    for job in promised:
        facts = waiting.facts_of(job) if job in waiting else None
        if facts is not None and facts.latest_start is None:
            ranks[job] = facts.level, rank(facts, shares, profile.order, now)[0]
    return KeptTurns(ranks)
