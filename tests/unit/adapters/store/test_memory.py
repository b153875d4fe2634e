"""The memory store's faults and clock, which contract tests cannot see."""

import asyncio

import pytest

from ares.adapters.store.memory import MemoryStore, StoreFault
from ares.ports.store import Committed, Compare, Put, StoreUnavailable, Unknown
from tests.contract.store.watching import changes_until, first_of
from tests.unit.adapters.store.virtual import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> MemoryStore:
    return MemoryStore(clock)


async def test_faults_come_in_the_order_asked_for(store: MemoryStore) -> None:
    store.faults.next(StoreFault("refused"), None, StoreFault("reply_lost"), StoreFault("request_lost"))
    with pytest.raises(StoreUnavailable, match="nothing was changed"):
        await store.txn([], [Put("/a", b"1")])
    assert isinstance(await store.txn([], [Put("/a", b"2")]), Committed)
    assert isinstance(await store.txn([], [Put("/a", b"3")]), Unknown)
    assert isinstance(await store.txn([], [Put("/a", b"4")]), Unknown)
    assert isinstance(await store.txn([], [Put("/b", b"5")]), Committed)
    found = await store.get("/a")
    assert found is not None
    assert (found.value, found.version) == (b"3", 2)


async def test_a_delayed_transaction_sees_what_came_before_it(store: MemoryStore, clock: VirtualClock) -> None:
    store.faults.next(StoreFault("delayed", 5.0))
    slow = asyncio.create_task(store.txn([Compare("/a", "version", 0)], [Put("/a", b"slow")]))
    await clock.advance(1)
    assert not slow.done()
    await store.txn([], [Put("/a", b"fast")])
    await clock.advance(5)
    outcome = await slow
    assert isinstance(outcome, Committed)
    assert not outcome.succeeded


async def test_a_late_transaction_commits_after_its_caller_gave_up(store: MemoryStore, clock: VirtualClock) -> None:
    store.faults.next(StoreFault("late", 5.0))
    assert isinstance(await store.txn([Compare("/a", "version", 0)], [Put("/a", b"late")]), Unknown)
    assert await store.get("/a") is None
    await clock.advance(6)
    assert await store.get("/a") is not None
    # A compare of the caller's own read fences it off.
    store.faults.next(StoreFault("late", 5.0))
    assert isinstance(await store.txn([Compare("/b", "version", 0)], [Put("/b", b"late")]), Unknown)
    await store.txn([Compare("/b", "version", 0)], [Put("/b", b"mine")])
    await clock.advance(6)
    found = await store.get("/b")
    assert found is not None
    assert (found.value, found.version) == (b"mine", 1)


@pytest.mark.parametrize(("stretch", "alive_at", "gone_at"), [(1.0, 9.9, 10.0), (0.5, 4.9, 5.0), (2.0, 19.9, 20.0)])
async def test_leases_end_by_the_clock(
    store: MemoryStore, clock: VirtualClock, stretch: float, alive_at: float, gone_at: float
) -> None:
    store.faults.lease_stretch = stretch
    lease = await store.grant_lease(10)
    await store.txn([], [Put("/a", b"", lease=lease)])
    await clock.advance(alive_at)
    assert await store.get("/a") is not None
    await clock.advance(gone_at - alive_at)
    assert await store.get("/a") is None


async def test_a_shorter_lease_granted_later_ends_first(store: MemoryStore, clock: VirtualClock) -> None:
    long, short = await store.grant_lease(100), await store.grant_lease(1)
    await store.txn([], [Put("/long", b"", lease=long), Put("/short", b"", lease=short)])
    start = await store.revision() + 1
    await clock.advance(1)
    # Seen by the watch without any other call to the store.
    seen = await changes_until(store, "/", start, bool)
    assert [(change.kv.key, change.deleted) for change in seen] == [("/short", True)]
    await clock.advance(98)
    assert await store.keep_alive(long) == 100
    await clock.advance(99)
    assert await store.get("/long") is not None
    await clock.advance(1)
    assert await store.get("/long") is None


async def test_history_is_bounded(clock: VirtualClock) -> None:
    store = MemoryStore(clock, history_max=10)
    for step in range(25):
        await store.txn([], [Put("/a", b"%d" % step)])
    last = await store.revision()
    for start, known in ((2, False), (last - 10, False), (last - 9, True)):
        found = await first_of(store, "/", start)
        assert hasattr(found, "changes") is known, start
    seen = await changes_until(store, "/", last - 9, lambda got: len(got) >= 10)
    assert [int(change.kv.value) for change in seen] == list(range(15, 25))
