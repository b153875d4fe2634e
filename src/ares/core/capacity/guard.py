"""Whether plans go by time limits for now: where room is held by likely run times, a first in line that has waited for
long as the first is kept from waiting for ever."""

from collections.abc import Iterable

from ares.api.decisions import Promise
from ares.model.profile import BackfillPolicy


class Guard:
    """Likely run times are outlived by every other job, so that a promise by them may slip again and again. By time
    limits it cannot: jobs that pass from then on are gone when the first in line can start."""

    def __init__(self) -> None:
        # Jobs that are promised a start, with the time of the first promise.
        self._first: dict[str, float] = {}
        # Since when it is on.
        self.since: float | None = None
        self._news = False

    def promised(self, promises: Iterable[Promise]) -> None:
        before = self._first
        self._first = {promise.job: before.get(promise.job, promise.made_at) for promise in promises}

    def switched(self, policy: BackfillPolicy, now: float) -> bool:
        """Looks at the time. Whether it came on, or went off."""
        on = policy.hold == "likely" and any(now - at >= policy.guard_s for at in self._first.values())
        if on == (self.since is not None):
            return False
        self.since = now if on else None
        self._news = True
        return True

    def news(self) -> bool:
        """Whether it came on or went off since this was last asked."""
        found, self._news = self._news, False
        return found

    def counts(self, told: Promise) -> bool:
        """Whether a promise was made by time limits: then no job may break it."""
        return self.since is not None and told.made_at >= self.since
