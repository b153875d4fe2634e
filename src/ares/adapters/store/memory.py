"""The store of simulations and unit tests: etcd's semantics in a dict."""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ares.adapters.store.evaluate import Txn, evaluate, remove_keys
from ares.adapters.store.history import History
from ares.adapters.store.leases import Leases
from ares.adapters.store.limits import check_key, check_txn, prefix_end
from ares.ports.clock import Clock
from ares.ports.store import (
    KV,
    Changes,
    Committed,
    Compacted,
    Compare,
    Op,
    Page,
    StoreChange,
    StoreUnavailable,
    Unknown,
)


@dataclass(frozen=True, slots=True)
class StoreFault:
    """`delay_s` passes before the transaction is carried out, and for `late` after the answer."""

    kind: Literal["refused", "delayed", "request_lost", "reply_lost", "late"]
    delay_s: float = 0.0


class Faults:
    """The faults of the next transactions, in order. A simulation overrides `take`."""

    def __init__(self) -> None:
        self._next: deque[StoreFault | None] = deque()
        # A lease ends after this part of its time: below 1 early, above 1 late.
        self.lease_stretch = 1.0

    def next(self, *faults: StoreFault | None) -> None:
        """None stands for a transaction without a fault."""
        self._next.extend(faults)

    def take(self) -> StoreFault | None:
        return self._next.popleft() if self._next else None


class Keys:
    """A dict and its keys in order; the state that transactions are evaluated on."""

    def __init__(self, leases: Leases) -> None:
        self._kvs: dict[str, KV] = {}
        self._order: list[str] = []
        self._leases = leases

    def full(self, key: str) -> KV | None:
        return self._kvs.get(key)

    meta = full

    def under(self, prefix: str, after: str = "") -> Sequence[str]:
        end = prefix_end(prefix)
        first = bisect_right(self._order, after) if after >= prefix and after else bisect_left(self._order, prefix)
        return self._order[first : len(self._order) if end is None else bisect_left(self._order, end)]

    def of_lease(self, lease: int) -> Sequence[str]:
        return [key for key in self._order if self._kvs[key].lease == lease]

    def put(self, kv: KV) -> None:
        if kv.key not in self._kvs:
            insort(self._order, kv.key)
        self._kvs[kv.key] = kv

    def remove(self, key: str) -> None:
        del self._kvs[key]
        del self._order[bisect_left(self._order, key)]

    def has_lease(self, lease: int) -> bool:
        return lease in self._leases


class MemoryStore:
    """No threads and no real time: what happens depends on the calls and the clock alone."""

    def __init__(self, clock: Clock, faults: Faults | None = None, *, history_max: int = 100_000) -> None:
        self.faults = faults or Faults()
        self._clock = clock
        self._leases = Leases(clock, self._expire)
        self._keys = Keys(self._leases)
        self._revision = 1
        self._history = History(0, count_max=history_max)
        self._next_lease = 1
        self._closed = False
        self._late: set[asyncio.Task[None]] = set()

    async def get(self, key: str) -> KV | None:
        check_key(key)
        self._enter()
        return self._keys.full(key)

    async def range(self, prefix: str, *, after: str = "", limit: int = 0, min_mod_revision: int = 0) -> Page:
        self._enter()
        found: list[KV] = []
        for key in self._keys.under(prefix, after):
            kv = self._keys.full(key)
            if kv is None or kv.mod_revision < min_mod_revision:
                continue
            if limit and len(found) == limit:
                return Page(tuple(found), self._revision, more=True)
            found.append(kv)
        return Page(tuple(found), self._revision)

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> Committed | Unknown:
        check_txn(compares, then, otherwise)
        self._enter()
        txn = Txn(tuple(compares), tuple(then), tuple(otherwise))
        fault = self.faults.take()
        if fault is None:
            return self._apply(txn)
        if fault.kind == "late":
            task = asyncio.get_running_loop().create_task(self._apply_late(txn, fault.delay_s))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            return Unknown("no answer from the store; the transaction is still on its way")
        if fault.delay_s:
            await self._clock.sleep(fault.delay_s)
            self._enter()
        if fault.kind == "refused":
            raise StoreUnavailable("the store refused the transaction; nothing was changed")
        if fault.kind == "request_lost":
            return Unknown("no answer from the store")
        outcome = self._apply(txn)
        return Unknown("no answer from the store") if fault.kind == "reply_lost" else outcome

    async def revision(self) -> int:
        self._enter()
        return self._revision

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes | Compacted]:
        return self._history.watch(prefix, from_revision)

    async def grant_lease(self, ttl_s: float) -> int:
        self._enter()
        lease = self._next_lease
        self._next_lease += 1
        self._leases.stretch = self.faults.lease_stretch
        self._leases.add(lease, ttl_s)
        return lease

    async def keep_alive(self, lease: int) -> float:
        self._enter()
        self._leases.stretch = self.faults.lease_stretch
        return self._leases.renew(lease)

    async def revoke_lease(self, lease: int) -> None:
        self._enter()
        if self._leases.remove(lease):
            self._expire([lease])

    async def close(self) -> None:
        self._closed = True
        self._leases.close()
        self._history.fail(StoreUnavailable("the store was closed"))

    def compact(self) -> None:
        """Forgets the watch history up to now."""
        self._history.compact(self._revision)

    def _enter(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store was closed")
        self._leases.expire_due()

    def _apply(self, txn: Txn) -> Committed:
        committed, changes = evaluate(self._keys, txn, self._revision)
        self._record(changes)
        return committed

    async def _apply_late(self, txn: Txn, delay_s: float) -> None:
        await self._clock.sleep(delay_s)
        if not self._closed:
            self._apply(txn)

    def _expire(self, leases: Sequence[int]) -> None:
        for lease in leases:
            self._record(remove_keys(self._keys, self._keys.of_lease(lease), self._revision + 1))

    def _record(self, changes: Sequence[StoreChange]) -> None:
        if changes:
            self._revision += 1
            self._history.append(self._revision, changes)
            self._history.wake()
