"""Which series are watched for what is odd, and in which words it is told."""

from typing import Final, Literal, NamedTuple

from ares.core.insight.anomalies import RARE, Floats, Oddity, odd_count, odd_drought, odd_level
from ares.core.series import SeriesKey


class WatchedSeries(NamedTuple):
    """`floor`: a distance from the usual that is never odd. `capacity`: it moves with the machines that are there, so a
    known cause there explains it."""

    words: str
    kind: Literal["level", "count", "drought"]
    unit: str = ""
    floor: float = 0.0
    rises: bool = True
    falls: bool = False
    capacity: bool = False


# Series by name. Of counts the rate is kept, so many a second.
WATCHED: Final[dict[str, WatchedSeries]] = {
    "ares_nodes": WatchedSeries("machines", "level", "", 1.0, falls=True, capacity=True),
    "ares_jobs_running": WatchedSeries("attempts that hold a place", "level", "", 5.0, falls=True, capacity=True),
    "ares_queue_depth": WatchedSeries("jobs that wait", "level", "", 50.0, capacity=True),
    "ares_pending_gpus": WatchedSeries("GPUs that waiting jobs ask for", "level", "", 16.0, capacity=True),
    "ares_oldest_pending_seconds": WatchedSeries("age of the oldest waiting job", "level", " s", 600.0, capacity=True),
    "ares_retries_total:rate": WatchedSeries("attempts that are repeated", "count", capacity=True),
    "ares_lease_losses_total:rate": WatchedSeries("attempts taken away from silent machines", "count", capacity=True),
    "ares_auth_denials_total:rate": WatchedSeries("requests denied", "count"),
    "ares_store_conflicts_total:rate": WatchedSeries("conflicts in the store", "count"),
    "ares_store_latency_seconds:p99": WatchedSeries("answers of the store, 99th percentile", "level", " s", 0.25),
    "ares_submit_seconds:p99": WatchedSeries("submissions, 99th percentile", "level", " s", 0.5),
    "ares_cycle_seconds:p99": WatchedSeries("scheduling cycles, 99th percentile", "level", " s", 0.5),
    "ares_loop_lag_seconds:p99": WatchedSeries("lag of the server's loop, 99th percentile", "level", " s", 0.25),
}
# Of jobs, what enters these states is news: too many that fail, and none that starts while others wait.
_JOBS: Final = "ares_jobs_total:rate"
_STATES: Final = {
    "failed": WatchedSeries("jobs that failed", "count"),
    "unknown": WatchedSeries("jobs whose end is not known", "count"),
    "running": WatchedSeries("jobs that started while others wait", "drought", capacity=True),
}
QUEUE: Final[SeriesKey] = ("ares_queue_depth", ())
_EVERY_S: Final = 60.0
# What a person called no anomaly must be this much rarer the next time, and after the third is not told any more.
_RARER: Final = 1e-3
REFUSALS_MAX: Final = 3


def is_watched(key: SeriesKey) -> bool:
    return watched_as(key) is not None


def watched_as(key: SeriesKey) -> WatchedSeries | None:
    name, labels = key
    return _STATES.get(dict(labels).get("state", "")) if name == _JOBS else WATCHED.get(name)


def oddity(key: SeriesKey, minutes: Floats, queue: Floats | None = None, refusals: int = 0) -> Oddity | None:
    """What is odd about the newest minutes of a watched series, the newest last. `queue`: how many jobs waited then.
    `refusals`: how often a person said that something like it was no anomaly."""
    watched = watched_as(key)
    if watched is None:
        return None
    if watched.kind == "count":
        found = odd_count(minutes * _EVERY_S)
    elif watched.kind == "drought":
        found = None if queue is None else odd_drought(minutes * _EVERY_S, queue)
    else:
        found = odd_level(minutes, watched.floor, rises=watched.rises, falls=watched.falls)
    if found is None or refusals >= REFUSALS_MAX or found.probability > RARE * _RARER**refusals:
        return None
    return found


def told(key: SeriesKey, found: Oddity) -> str:
    """In a person's words, with the numbers."""
    watched = watched_as(key) or WatchedSeries(key[0], "level")
    which = "".join(f", {label} {value}" for label, value in key[1] if value and label != "state")
    unit = watched.unit if watched.kind == "level" else " in ten minutes"
    usual = f"usually {max(0.0, found.low):,.4g} to {found.high:,.4g}{watched.unit}"
    return f"{watched.words}{which}: {found.value:,.4g}{unit}; {usual}"
