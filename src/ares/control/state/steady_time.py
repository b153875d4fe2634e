"""Time that a wrong clock cannot move: for the expiry of tokens and the deletion of old records.

A server clock that is set back would revive expired tokens; a server that starts a month ahead would delete all
records that are kept for a month. So the time that was seen last is kept in the store, and time goes on
from there: `ending` never goes back, `keeping` never runs ahead. A leap is believed when it has lasted.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec
import structlog

from ares.core import keys
from ares.model.timing import ClockRecord
from ares.ports.clock import Clock
from ares.ports.store import Compare, Put, Store, StoreError

log = structlog.get_logger()

_LOOK_EVERY_S = 60.0
# A clock that is this far ahead is believed at once, or after so long. What ends too early hurts at once, so leaps that
# are being corrected must not count; a record deleted too early is lost, so the operator has a day to correct them.
_ENDING = (0.0, 600.0)
_KEEPING = (86_400.0, 86_400.0)


class HeldClock:
    """`ports.clock.Clock`: the machine's clock, bounded by the time that is known."""

    def __init__(self, clock: Clock, believed: tuple[float, float]) -> None:
        self._clock = clock
        self._believed = believed
        self.steady = Steady(clock.wall(), clock.monotonic())

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def look(self) -> tuple[float, float]:
        """The machine's time, and the time that is certain."""
        wall, monotonic = self._clock.wall(), self._clock.monotonic()
        self.steady = self.steady.looked(wall, monotonic, *self._believed)
        return wall, self.steady.now(monotonic)

    def begin(self, at: float) -> None:
        """Begins at the time that was last stored."""
        self.steady = Steady(at, self._clock.monotonic())


# Kind, tenant, subject, text and numbers of an alert.
RaiseAlert = Callable[[str, str, str, str, Mapping[str, float]], Awaitable[None]]


class _Ending(HeldClock):
    def wall(self) -> float:
        return max(self.look())


class _Keeping(HeldClock):
    def wall(self) -> float:
        return min(self.look())


class Timekeeping:
    """Two clocks: `ending` for credentials that expire, `keeping` for records that are deleted."""

    def __init__(self, store: Store, clock: Clock, alert: RaiseAlert, replica: str) -> None:
        self._store = store
        self._clock = clock
        self._alert = alert
        self._replica = replica
        self.ending = _Ending(clock, _ENDING)
        self.keeping = _Keeping(clock, _KEEPING)

    async def open(self) -> None:
        """Before any request is served."""
        kv = await self._store.get(keys.CLOCK)
        if kv is not None:
            known = msgspec.json.decode(kv.value, type=ClockRecord)
            self.ending.begin(known.ending)
            self.keeping.begin(known.keeping)

    async def run(self) -> None:
        """Looks at the clock now and then, so that a leap that lasts is noticed, and an alert is raised."""
        while True:
            await self._tell()
            await self._clock.sleep(_LOOK_EVERY_S)

    async def lead(self, guard: Compare) -> None:
        """Stores the time now and then, until cancelled."""
        while True:
            record = ClockRecord(ending=self.ending.look()[1], keeping=self.keeping.look()[1])
            try:
                await self._store.txn([guard], [Put(keys.CLOCK, msgspec.json.encode(record))])
            except StoreError as error:
                log.warning("clock.unwritten", error=str(error))
            await self._clock.sleep(_LOOK_EVERY_S)

    async def _tell(self) -> None:
        wall, certain = self.keeping.look()
        ahead_s = wall - certain
        if abs(ahead_s) <= _KEEPING[0] or (ahead_s > 0 and self.keeping.steady.jumped_since is None):
            return
        where = f"{abs(ahead_s) / 86_400:.1f} days {'ahead of' if ahead_s > 0 else 'behind'}"
        waits = " for a day" if ahead_s > 0 else ""
        text = (
            f"the clock of {self._replica} is {where} the time that the platform has seen pass. Nothing is forgotten "
            f"for it{waits}, and nothing that expired comes back: set the clock if it is wrong"
        )
        numbers = {"aheadS": round(ahead_s), "wall": wall, "seen": certain}
        await self._alert("clock-jumped", "", f"clock/{self._replica}", text, numbers)


class Steady(NamedTuple):
    """`at` was the time when the monotonic clock showed `since`. A wall clock that is ahead of it by more than is
    believed at once has been so from `jumped_since` on."""

    at: float
    since: float
    jumped_since: float | None = None

    def now(self, monotonic: float) -> float:
        """Goes on with the monotonic clock: never backwards, and never in leaps."""
        return self.at + (monotonic - self.since)

    def looked(self, wall: float, monotonic: float, at_once_s: float, after_s: float) -> "Steady":
        """A wall clock that is ahead is followed if it is so by little, or has been so for long; one that was set
        back is not."""
        ahead_s = wall - self.now(monotonic)
        if ahead_s <= 0:
            return self if self.jumped_since is None else self._replace(jumped_since=None)
        since = monotonic if self.jumped_since is None else self.jumped_since
        if ahead_s <= at_once_s or monotonic - since >= after_s:
            return Steady(wall, monotonic)
        return self._replace(jumped_since=since)
