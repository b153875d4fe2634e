"""How long waiting jobs are taken to run: room is held by one number, the order goes by another."""

from math import inf

from ares.core.forecast.estimate import Estimate
from ares.model.job import JobSpec


class RunTimes:
    """The longest that is known of each job, where it is; and how long it will likely run, where that is less."""

    __slots__ = ("_endless", "_likely", "_longest", "by_likely", "holds_likely")

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._likely: dict[str, float] = {}
        # Whether the profile holds room by likely run times, and whether that is done just now.
        self.holds_likely = self.by_likely = False
        # While it does, jobs without a limit: no guard could hold them to one, so theirs is held by the longest.
        self._endless: set[str] = set()

    def put(self, job_id: str, longest_s: float, likely_s: float) -> None:
        if longest_s < inf:
            self._longest[job_id] = longest_s
        if likely_s < longest_s:
            self._likely[job_id] = likely_s
        elif self._likely:
            self._likely.pop(job_id, None)

    def without_limit(self, job_id: str) -> None:
        if self.holds_likely:
            self._endless.add(job_id)

    def drop(self, job_id: str) -> None:
        for known in (self._longest, self._likely):
            if known:
                known.pop(job_id, None)
        if self._endless:
            self._endless.discard(job_id)

    def held(self, job_id: str) -> float:
        """How long the job is taken to hold its room; infinity when it is not known."""
        return self.planned(job_id) if self.by_likely else self._longest.get(job_id, inf)

    def planned(self, job_id: str) -> float:
        """The same, as if the first in line had not waited for long."""
        by_likely = self.holds_likely and job_id not in self._endless
        return self.likely(job_id) if by_likely else self._longest.get(job_id, inf)

    def likely(self, job_id: str) -> float:
        likely_s = self._likely.get(job_id)
        return self._longest.get(job_id, inf) if likely_s is None else likely_s

    def held_s(self, estimate: Estimate | None, spec: JobSpec) -> float:
        """How long a job of which this is said would be taken to hold its room."""
        if estimate is None:
            return inf
        return estimate.seconds if self.by_likely and spec.time_limit_s is not None else estimate.hold_s
