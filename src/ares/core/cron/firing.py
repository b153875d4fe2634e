"""What becomes of a moment that a schedule names: a job, or why there is none."""

from collections.abc import Collection
from datetime import tzinfo
from typing import Literal, NamedTuple

from msgspec.structs import replace

from ares.core.cron.schedule import Schedule, latest
from ares.model.cron import CronFiring, CronRecord

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
