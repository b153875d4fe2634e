"""The store of record of a simulated world, each replica's faulty wire to it, and storage of blobs and logs."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from msgspec import Struct

from ares.adapters.blobs.memory import MemoryBlobs
from ares.adapters.logs.files import FileLogs
from ares.adapters.store.epoch import encode as encode_epoch
from ares.adapters.store.history import History
from ares.adapters.store.leases import Leases
from ares.adapters.store.memory import Keys, MemoryStore
from ares.check.invariants.history import Commit, Restored, Write
from ares.core.keys import EPOCH
from ares.model.link import AttemptRef
from ares.ports.blobs import Mismatch
from ares.ports.store import (
    KV,
    Changes,
    Committed,
    Compacted,
    Compare,
    Op,
    Page,
    Put,
    StoreChange,
    StoreError,
    StoreUnavailable,
    Unknown,
)
from ares.sim.world.clocks import Chance, SimClock
from ares.sim.world.loop import SimLoop, context_of
from ares.sim.world.record import WorldRecorder

# ---- blobs and logs
# a disk that may be full.


class SimBlobs(MemoryBlobs):
    def __init__(self, loop: SimLoop, chance: Chance) -> None:
        super().__init__(loop.time)
        self._chance = chance
        # Share of calls that something happens to.
        self.rate = 0.0

    async def append(self, ref: AttemptRef, sha256: str, offset: int, data: bytes) -> int:
        if self.rate and self._chance(self.rate):
            data = await self._harmed(data)
        return await super().append(ref, sha256, offset, data)

    async def seal(self, ref: AttemptRef, sha256: str, size: int) -> Mismatch | None:
        if self.rate and self._chance(self.rate):
            await self._harmed(b"")
        return await super().seal(ref, sha256, size)

    async def _harmed(self, data: bytes) -> bytes:
        match self._chance.pick(("slow", "full", "short", "wrong")):
            case "slow":
                await asyncio.sleep(self._chance.between(0.2, 3.0))
            case "full":
                raise OSError(errno.ENOSPC, "no space left on the device")
            case "short":
                return data[: len(data) // 2]
            case _:
                return bytes([data[0] ^ 1]) + data[1:] if data else data
        return data


class SimLogs(FileLogs):
    # A fault: there is room for a line of Ares' own and for nothing else.
    full = False

    def append(
        self,
        tenant: str,
        job: str,
        attempt: int,
        rank: int,
        offset: int,
        data: bytes,
        *,
        note: bool = False,
        stderr: Sequence[tuple[int, int]] = (),
    ) -> int:
        if self.full and data and not note:
            raise OSError(errno.ENOSPC, "no space left on the device")
        return super().append(tenant, job, attempt, rank, offset, data, note=note, stderr=stderr)


# ---- the store of record
# A request is carried out when it arrives, whether its sender still lives or not; the sender learns of it when the
# answer arrives, or never.


T = TypeVar("T")

# A caller waits this long for the store's answer.
TIMEOUT_S = 2.0
_RESTORED_LEASE_S = 5.0

Trouble = Literal["refused", "request-lost", "reply-lost", "late"]


class Backup(Struct, frozen=True):
    revision: int
    kvs: dict[str, KV]


class RecordedStore(MemoryStore):
    """Writes every commit into the history."""

    def __init__(self, clock: SimClock, recorder: WorldRecorder) -> None:
        super().__init__(clock)
        self._recorder = recorder
        # The replica whose request is being carried out.
        self.writer = ""
        self.epoch = 1
        now(self.txn([], [Put(EPOCH, encode_epoch(self.epoch, bytes(16)))]))

    def _record(self, changes: Sequence[StoreChange]) -> None:
        super()._record(changes)
        if changes:
            writes = tuple(_write(change) for change in changes)
            now = self._recorder.now()
            self._recorder.add(Commit(t=now, revision=self._revision, writes=writes, by=self.writer))

    def snapshot(self) -> dict[str, KV]:
        """Every key as it is now."""
        return {key: kv for key in self._keys.under("") if (kv := self._keys.full(key)) is not None}

    def backup(self) -> "Backup":
        return Backup(self._revision, self.snapshot())

    def restore(self, backup: "Backup") -> None:
        """As from a copy of the disk: what came after is gone, revisions are given again, only the epoch is new.
        Requests that were on their way are gone with the old process."""
        self.epoch += 1
        self._leases.close()
        self._leases = Leases(self._clock, self._expire)
        self._keys = Keys(self._leases)
        for kv in backup.kvs.values():
            self._keys.put(kv)
            if kv.lease:
                self._leases.add(kv.lease, _RESTORED_LEASE_S)
        self._revision = backup.revision
        self._history.fail(StoreUnavailable("the store was restored"))
        self._history = History(self._revision)
        self._recorder.add(Restored(t=self._recorder.now(), revision=self._revision))
        now(self.txn([], [Put(EPOCH, encode_epoch(self.epoch, bytes(16)))]))


def _write(change: StoreChange) -> Write:
    kv = change.kv
    return Write(kv.key, None) if change.deleted else Write(kv.key, kv.value.decode(), kv.version)


@dataclass
class Weather:
    """How the store treats requests now. Shared by all wires; a replica's own cut comes on top."""

    # Share of requests that something happens to.
    rate: float = 0.0
    troubles: tuple[Trouble, ...] = ("refused", "request-lost", "reply-lost", "late")
    # Between being sent and carried out, and back, at most.
    delay_s: float = 0.002
    # Share of requests that take very long.
    slow: float = 0.0
    # No member leads: everything is refused or never answered.
    away: bool = False


class StoreWire:
    """`ports.store.Store` for one replica."""

    def __init__(self, loop: SimLoop, store: RecordedStore, weather: Weather, chance: Chance, replica: str) -> None:
        self._loop = loop
        self._store = store
        self._weather = weather
        self._chance = chance
        self._replica = replica
        self._there = context_of("world")
        # Cut off from the store: nothing arrives in either direction.
        self.cut = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._broken = 0
        # In a directed case: the trouble of a transaction that writes this, and the delay of a late one.
        self.ordained: Callable[[Sequence[Op]], Trouble | None] | None = None
        self.late_s = (TIMEOUT_S, 3 * TIMEOUT_S)

    # ---- faults

    def hold_watch(self) -> None:
        self._flowing.clear()

    def release_watch(self) -> None:
        if not self.cut:
            self._flowing.set()

    def break_watch(self) -> None:
        """Ends the watch after what it holds: the replica has to list again."""
        self._broken += 1
        self._flowing.set()

    def set_cut(self, cut: bool) -> None:
        self.cut = cut
        if cut:
            self._flowing.clear()
        else:
            # A connection does not survive this for long.
            self.break_watch()

    # ---- requests on their way

    def _delay(self) -> float:
        weather, chance = self._weather, self._chance
        if weather.slow and chance(weather.slow):
            return chance.between(0.1, 1.5)
        return weather.delay_s * chance.random()

    async def _call(self, work: Callable[[], T], ordained: Trouble | None = None) -> T:
        """Raises StoreUnavailable when no answer comes: nothing is known then."""
        chance, weather = self._chance, self._weather
        trouble = chance.pick(weather.troubles) if weather.rate and chance(weather.rate) else ordained
        if self.cut or weather.away:
            trouble = "refused" if trouble == "refused" or (weather.away and chance(0.5)) else "request-lost"
        if trouble == "refused":
            await asyncio.sleep(self._delay())
            raise StoreUnavailable("the store refused the request; nothing was changed")
        answer: asyncio.Future[T] = self._loop.create_future()
        if trouble is not None:
            # Only then will the caller's patience be needed.
            self._loop.call_later(TIMEOUT_S, _settle, answer, _NoAnswer(), context=self._there)
        if trouble != "request-lost":
            delay = chance.between(*self.late_s) if trouble == "late" else self._delay()
            arrive = partial(self._arrive, self._store.epoch, work, answer, answered=trouble is None)
            self._loop.call_later(delay, arrive, context=self._there)
        return await answer

    def _arrive(self, epoch: int, work: Callable[[], T], answer: asyncio.Future[T], *, answered: bool) -> None:
        if epoch != self._store.epoch:
            return
        self._store.writer = self._replica
        outcome: T | StoreError
        try:
            outcome = work()
        except StoreError as error:
            outcome = error
        if self.cut:
            self._loop.call_later(TIMEOUT_S, _settle, answer, _NoAnswer(), context=self._there)
        elif answered:
            self._loop.call_later(self._delay(), _settle, answer, outcome, context=self._there)

    # ---- `ports.store.Store`

    async def get(self, key: str) -> KV | None:
        return await self._call(lambda: now(self._store.get(key)))

    async def range(self, prefix: str, *, after: str = "", limit: int = 0, min_mod_revision: int = 0) -> Page:
        return await self._call(
            lambda: now(self._store.range(prefix, after=after, limit=limit, min_mod_revision=min_mod_revision))
        )

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> Committed | Unknown:
        ordained = None if self.ordained is None else self.ordained(then)
        try:
            return await self._call(lambda: now(self._store.txn(compares, then, otherwise)), ordained)
        except _NoAnswer as error:
            return Unknown(str(error))

    async def revision(self) -> int:
        return await self._call(lambda: now(self._store.revision()))

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes | Compacted]:
        broken = self._broken
        async for item in self._store.watch(prefix, from_revision):
            await asyncio.sleep(self._delay())
            await self._flowing.wait()
            if broken != self._broken:
                raise StoreUnavailable("the watch broke")
            yield item

    async def grant_lease(self, ttl_s: float) -> int:
        return await self._call(lambda: now(self._store.grant_lease(ttl_s)))

    async def keep_alive(self, lease: int) -> float:
        return await self._call(lambda: now(self._store.keep_alive(lease)))

    async def revoke_lease(self, lease: int) -> None:
        await self._call(lambda: now(self._store.revoke_lease(lease)))

    async def close(self) -> None:
        raise AssertionError("a replica does not own the store")


class _NoAnswer(StoreUnavailable):
    """No answer came: the request may have been carried out, or may be later."""

    def __init__(self) -> None:
        super().__init__(f"the store did not answer within {TIMEOUT_S:g} s")


def _settle(answer: asyncio.Future[T], outcome: T | StoreError) -> None:
    if answer.done():
        return
    if isinstance(outcome, StoreError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def now(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call that does not wait for anything."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the store of a simulated world never waits")
