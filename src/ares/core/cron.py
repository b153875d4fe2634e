"""Schedules: cron expressions of five fields, the moments they name in a time zone, and what becomes of each.

A schedule speaks of local times. Where clocks are put forward some of them do not exist: such a time fires as much
later as the clocks jumped. Where clocks are put back some come twice: such a time fires the first time only, unless the
schedule fires in every hour, when it goes on with the hours as they pass.
"""

import re
from collections.abc import Collection, Iterator
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Literal, NamedTuple

from msgspec.structs import replace

from ares.core.refusal import Refusal
from ares.model.cron import CronFiring, CronRecord

# The longest that a schedule may leave out: the next 29 February may be eight years away.
_YEARS_MAX = 9
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMED = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip
_PART = re.compile(r"(\*|[a-z0-9]+)(?:-([a-z0-9]+))?(?:/([0-9]{1,4}))?", re.ASCII)
_FIX = "write five fields: minute hour day-of-month month day-of-week, such as '30 3 * * MON-FRI', or @daily"


class _CronField(NamedTuple):
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _CronField("minute", 0, 59),
    _CronField("hour", 0, 23),
    _CronField("day of month", 1, 31),
    _CronField("month", 1, 12, _MONTHS),
    _CronField("day of week", 0, 7, _DAYS),
)


class Schedule(NamedTuple):
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    # 0 is Sunday.
    weekdays: frozenset[int]
    # Whether days of the month and of the week are both named: then either of them is enough.
    either: bool

    def on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either else by_month and by_week

    def moments(self, day: date, zone: tzinfo) -> list[float]:
        """Seconds since the epoch, in order, each once."""
        if not self.on(day):
            return []
        found: set[float] = set()
        for hour in self.hours:
            for minute in self.minutes:
                local = datetime.combine(day, time(hour, minute), zone)
                found.add(local.timestamp())
                if len(self.hours) == 24:
                    found.add(local.replace(fold=1).timestamp())
        return sorted(found)


def parse(text: str) -> Schedule | Refusal:
    """The schedule of an expression, or what is wrong with it."""
    fields = _NAMED.get(text.strip().lower(), text).lower().split()
    if len(fields) != len(_FIELDS):
        return _bad(f"{text[:80]!r} has {len(fields)} fields, a schedule has 5")
    found: list[tuple[int, ...]] = []
    for field, written in zip(_FIELDS, fields, strict=True):
        numbers = _numbers(field, written)
        if isinstance(numbers, Refusal):
            return numbers
        found.append(numbers)
    minutes, hours, days, months, weekdays = found
    schedule = Schedule(
        minutes, hours, frozenset(days), frozenset(months), frozenset(day % 7 for day in weekdays),
        either=not (fields[2].startswith("*") or fields[4].startswith("*")),
    )  # fmt: skip
    if not any(schedule.on(date(2024, 1, 1) + timedelta(days=n)) for n in range(366)):
        return _bad(f"{text[:80]!r} names no day that there is")
    return schedule


def _numbers(field: _CronField, written: str) -> tuple[int, ...] | Refusal:
    found: set[int] = set()
    for part in written.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return _bad(f"{part[:40]!r} is not a {field.name}")
        first, last, step = match[1], match[2], int(match[3] or 1)
        if first == "*":
            low, high = field.least, field.most if field.most != 7 else 6
        else:
            low_, high_ = _number(field, first), _number(field, last or first)
            if low_ is None or high_ is None:
                return _bad(f"{part[:40]!r} is not a {field.name} from {field.least} to {field.most}")
            low, high = low_, high_ if last or not match[3] else field.most
        if step < 1 or high < low or (first == "*" and last is not None):
            return _bad(f"{part[:40]!r} is not a range of a {field.name}")
        found.update(range(low, high + 1, step))
    return tuple(sorted(found))


def _number(field: _CronField, word: str) -> int | None:
    if word in field.names:
        return field.names.index(word) + field.least
    return int(word) if word.isdecimal() and field.least <= int(word) <= field.most else None


def _bad(message: str) -> Refusal:
    return Refusal(code="cron-invalid", message=message, fix=_FIX)


# ---- moments


def upcoming(schedule: Schedule, zone: tzinfo, after: float) -> Iterator[float]:
    """The moments after that one, in order."""
    day = datetime.fromtimestamp(after, zone).date() - timedelta(days=1)
    seen = after
    for _ in range(366 * _YEARS_MAX):
        for moment in schedule.moments(day, zone):
            if moment > seen:
                seen = moment
                yield moment
        day += timedelta(days=1)


def following(schedule: Schedule, zone: tzinfo, after: float) -> float | None:
    return next(upcoming(schedule, zone, after), None)


def latest(schedule: Schedule, zone: tzinfo, after: float, until: float) -> float | None:
    """The last moment after `after` and not after `until`."""
    day = datetime.fromtimestamp(until, zone).date() + timedelta(days=1)
    first = datetime.fromtimestamp(after, zone).date() - timedelta(days=1)
    while day >= first:
        moments = [moment for moment in schedule.moments(day, zone) if after < moment <= until]
        if moments:
            return moments[-1]
        day -= timedelta(days=1)
    return None


# ---- what becomes of a moment


# A moment that is noticed later than this was missed: no server led then, or the schedule was paused.
LATE_S = 60.0
# Firings that the record remembers.
HISTORY_MAX = 50


class DueFiring(NamedTuple):
    """What is to be done about the newest moment that has come."""

    moment: float
    action: Literal["fire", "replace", "missed", "overlap"]
    # Jobs of earlier firings that have not ended.
    running: tuple[str, ...] = ()


def considered(record: CronRecord, now: float) -> float:
    """Moments up to this one were seen to. One in the future was noted by a clock that was ahead, and does not count:
    the schedule would be silent until then."""
    return now - LATE_S if record.considered_at > now + LATE_S else record.considered_at


def due(record: CronRecord, schedule: Schedule, zone: tzinfo, live: Collection[str], now: float) -> DueFiring | None:
    """None while no moment has come since the last. Of several that have, the newest stands for all: a schedule that
    could not fire for a day makes one job, or none, and never a day's worth of jobs."""
    moment = latest(schedule, zone, considered(record, now), now)
    if moment is None:
        return None
    if now - moment > LATE_S and record.missed == "skip":
        return DueFiring(moment, "missed")
    running = tuple(firing.job for firing in record.history if firing.job in live)
    if running and record.overlap == "forbid":
        return DueFiring(moment, "overlap", running)
    return DueFiring(moment, "replace" if running and record.overlap == "replace" else "fire", running)


def noted(record: CronRecord, firing: CronFiring) -> CronRecord:
    """With one more firing; the oldest are forgotten."""
    return replace(record, considered_at=firing.at, history=(*record.history, firing)[-HISTORY_MAX:])


def request_id(name: str, moment: float) -> str:
    """One for each firing, whichever leader makes it. No client's id has a space in it, so none can take it."""
    return f"cron {name} {moment:.0f}"
