"""Days by UTC, as books have them."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

DAY_S: Final = 86_400.0


def day_of(wall_s: float) -> str:
    """As "2026-11-17"."""
    return _named(int(wall_s // DAY_S))


@lru_cache(1024)
def _named(number: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=number)).strftime("%Y-%m-%d")


@lru_cache(1024)
def day_start(day: str) -> float:
    return datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()


def is_day(text: str) -> bool:
    """Whether the calendar has this day, in a century that a clock may show."""
    try:
        return day_start(text) >= 0.0
    except ValueError:
        return False


def day_end(day: str) -> float:
    return day_start(day) + DAY_S


def after(day: str) -> str:
    return day_of(day_start(day) + DAY_S)


def before(day: str) -> str:
    return day_of(day_start(day) - DAY_S)


def between(first: str, last: str) -> list[str]:
    """All days from the first to the last."""
    return [day_of(day_start(first) + number * DAY_S) for number in range(count(first, last))]


def count(first: str, last: str) -> int:
    """How many days that are."""
    return max(0, round((day_start(last) - day_start(first)) / DAY_S) + 1)
