"""When waiting jobs start, as intervals that four of five starts fall into; each start that comes is learned from."""

from math import log
from typing import NamedTuple

from ares.api.decisions import Eta
from ares.api.predictions import Hits
from ares.core.forecast.spread import IntervalEnds, Spread, SpreadData
from ares.model.base import Record

# Added to both sides of a ratio of waits: a minute more or less is no error.
FLOOR_S = 60.0
# No job waits longer, or it is not worth saying.
LONGEST_S = 30 * 86_400.0


class EtasData(Record, frozen=True):
    """All that was learned, as plain data."""

    spreads: dict[str, SpreadData] = {}
    # By the interval given first, and by the latest one.
    first: Hits = Hits()
    latest: Hits = Hits()


class Wait(NamedTuple):
    """How long a job is said to wait, infinity when it is not known, and what that rests on.

    The share of its kind of resource that it asks for tells which errors are alike."""

    seconds: float
    share: float
    basis: str = ""


class _Given(NamedTuple):
    at: float
    said_s: float
    bucket: str
    ends: IntervalEnds


class Etas:
    """Widens and narrows the intervals given for waits by how the starts turned out."""

    def __init__(self, data: EtasData = EtasData()) -> None:  # noqa: B008 - frozen
        self._spreads = {bucket: Spread(spread) for bucket, spread in data.spreads.items()}
        self.first, self.latest = data.first, data.latest
        self._first: dict[str, _Given] = {}
        self._latest: dict[str, _Given] = {}

    @property
    def data(self) -> EtasData:
        spreads = {bucket: spread.data for bucket, spread in self._spreads.items()}
        return EtasData(spreads=spreads, first=self.first, latest=self.latest)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._first

    def interval(self, wait: Wait) -> tuple[float, float]:
        """The earliest and the latest start, in seconds from now."""
        said_s = min(wait.seconds, LONGEST_S)
        spread = self._spreads.get(_bucket(said_s, wait.share)) or _UNTAUGHT
        return spread.around(said_s, FLOOR_S)

    def give(self, job_id: str, wait: Wait, now: float) -> None:
        """The job was told this: it is judged when the job starts. The first and the latest count."""
        said_s = min(wait.seconds, LONGEST_S)
        bucket = _bucket(said_s, wait.share)
        given = _Given(now, said_s, bucket, self._spreads.setdefault(bucket, Spread()).ends)
        self._first.setdefault(job_id, given)
        self._latest[job_id] = given

    def started(self, job_id: str, now: float) -> bool | None:
        """Whether the job started within the interval it was told first; None when it was told nothing."""
        first, latest = self._first.pop(job_id, None), self._latest.pop(job_id, None)
        if first is None or latest is None:
            return None
        within = self._spreads[first.bucket].judge(first.said_s, now - first.at, FLOOR_S, first.ends)
        self.first = _counted(self.first, within)
        self.latest = _counted(self.latest, _within(latest, now))
        return within

    def forget(self) -> None:
        """No start is to be judged by what was given so far."""
        self._first.clear()
        self._latest.clear()

    def gone(self, job_id: str) -> None:
        """The job left the queue without having started."""
        self._first.pop(job_id, None)
        self._latest.pop(job_id, None)


def eta(etas: Etas, wait: Wait, now: float) -> Eta:
    if wait.seconds >= LONGEST_S:
        return Eta(earliest=now, latest=None, basis=wait.basis, computed_at=now)
    low_s, high_s = etas.interval(wait)
    return Eta(earliest=now + low_s, latest=now + high_s, basis=wait.basis, computed_at=now)


_UNTAUGHT = Spread()


def _bucket(said_s: float, share: float) -> str:
    """Errors of like size lie together: waits by powers of four, shares of the resource by powers of four."""
    waits = int(log(1.0 + said_s / FLOOR_S, 4))
    return f"{waits}/{int(-log(min(1.0, max(share, 1e-6)), 4))}"


def _within(given: _Given, now: float) -> bool:
    waited = max(0.0, now - given.at)
    return given.ends.low <= log((waited + FLOOR_S) / (given.said_s + FLOOR_S)) <= given.ends.high


def _counted(hits: Hits, within: bool) -> Hits:
    return Hits(given=hits.given + 1, within=hits.within + within)
