"""The result of checking one replay."""

from ares.model.base import Record


class ReplayVerdict(Record, frozen=True):
    """Counts of what was checked, and every violation in words, up to a limit."""

    policy: str
    # The backfill strategy that promises are checked by.
    strategy: str
    decisions: int = 0
    starts: int = 0
    ends: int = 0
    # How often the start of the head of the queue was compared: with the jobs that passed it, and without them.
    heads: int = 0
    # How often a promise was compared with the one before, and all promises of a decision with all that runs.
    promises: int = 0
    plans: int = 0
    # How often a promise that had slipped was looked at: whether others came into its room.
    drains: int = 0
    # Promises that moved, or could not be checked, because a job outlived its estimate or a node failed.
    excused: int = 0
    # Jobs that were promised a start and started, and how many of them within a minute of what they were told first.
    told: int = 0
    kept: int = 0
    # Jobs whose wait, since they were promised a start, was held against the most it may be; and those of them that
    # started later than the earliest they were told.
    bounded: int = 0
    slipped: int = 0
    # What of the policy is not judged here, and why.
    not_judged: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    # Violations beyond the limit.
    more: int = 0

    @property
    def broken(self) -> int:
        return len(self.violations) + self.more

    def words(self) -> list[str]:
        """For a person: one line, then what is wrong or was not looked at."""
        counts = (
            f"{self.policy}: {self.decisions:,} decisions, {self.starts:,} starts, {self.heads:,} waits of the first in"
            f" line, {self.promises:,} promises, {self.plans:,} plans ahead; {self.excused:,} excused;"
            f" {self.broken:,} violations"
        )
        if self.bounded:
            counts += f"; {self.bounded:,} waits within their bound, {self.slipped:,} of them beyond what was told"
        if self.told:
            share = 100 * self.kept / self.told
            counts += f"; {share:.1f} % of {self.told:,} started within a minute of what they were told first"
        rest = [f"and {self.more:,} more"] if self.more else []
        return [counts, *(f"not judged: {rule}" for rule in self.not_judged), *self.violations, *rest]
