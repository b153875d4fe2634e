"""What is said beside figures of clusters that are silent, or that have told none."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from ares.api.books.ages import ClusterAge

_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0


def silences(clusters: Iterable[ClusterAge], now: float) -> Iterator[str]:
    """A line for each."""
    for age in clusters:
        if age.silent and age.told_at is not None:
            since = age.told_at if age.heard_s is None else now - age.heard_s
            yield (
                f"cluster {age.cluster} is silent since {_clock(since)} ({_long(now - since)}): its figures are as of "
                f"{_clock(age.told_at)}; what it does meanwhile it tells when it is back"
            )
        elif age.silent:
            yield f"cluster {age.cluster} is silent, and has told no books: nothing of it is counted"
        elif age.told_at is None:
            yield f"cluster {age.cluster} has told no books yet: it does so within a minute"
        elif age.state in ("LEFT", "DEAD"):
            yield f"cluster {age.cluster} is {age.state}: what it used is known up to {_clock(age.told_at)}"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _long(seconds: float) -> str:
    for size, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(0.0, seconds):.0f} s"
