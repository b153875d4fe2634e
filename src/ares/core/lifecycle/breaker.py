"""How many failed attempts of one tenant are repeated in a minute, and the pause after too many."""

from ares.model.base import Record

# The first pause; each that follows within the calm time is twice as long.
PAUSE_FIRST_S = 10.0
PAUSE_LAST_S = 300.0
CALM_S = 600.0
_MINUTE_S = 60.0


class Breaker(Record, frozen=True):
    """Of one tenant, as of `at`."""

    at: float
    # How many retries may begin at once.
    left: float
    # None may begin before that.
    open_until: float = 0.0
    # How often it tripped without a calm time in between.
    trips: int = 0

    def is_open(self, now: float) -> bool:
        return now < self.open_until


def closed(now: float, per_minute: int) -> Breaker:
    return Breaker(at=now, left=float(per_minute))


def ask(before: Breaker, now: float, per_minute: int) -> tuple[Breaker, bool]:
    """Whether one more retry may begin now, and the breaker after that. It trips when a minute's worth is used up."""
    if before.is_open(now):
        return before, False
    left = min(float(per_minute), before.left + (now - before.at) * per_minute / _MINUTE_S)
    trips = 0 if now - before.open_until >= CALM_S else before.trips
    if left >= 1.0:
        return Breaker(at=now, left=left - 1.0, open_until=before.open_until, trips=trips), True
    pause_s = min(PAUSE_LAST_S, PAUSE_FIRST_S * 2.0**trips)
    return Breaker(at=now, left=left, open_until=now + pause_s, trips=min(trips + 1, 10)), False
