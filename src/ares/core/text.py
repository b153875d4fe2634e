"""Moments and spans in messages. In UTC: a reader may be anywhere."""

from datetime import UTC, datetime

_DAY_S = 86_400.0
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def clock(at: float, now: float) -> str:
    """14:20 UTC, with the date when it is not within a day."""
    moment = datetime.fromtimestamp(at, UTC)
    return moment.strftime("%H:%M UTC" if abs(at - now) < _DAY_S else "%Y-%m-%d %H:%M UTC")


def span(seconds: float) -> str:
    """At most two units: 45 s, 35 min, 2 h 5 min."""
    total = max(0, int(seconds))
    for size, unit, below, below_unit in _UNITS:
        if total >= size:
            rest = total % size // below
            return f"{total // size} {unit}{f' {rest} {below_unit}' if rest else ''}"
    return f"{total} s"


def count(number: int, what: str) -> str:
    """1 job, 3 jobs."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
