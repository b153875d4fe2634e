"""Ready means that the store takes writes now, and that there is room for them."""

import asyncio

import pytest

from ares.adapters.store.memory import MemoryStore
from ares.control.queries.health import FREE_BYTES_MIN, Health
from ares.control.state.leader import Leader
from ares.control.state.view import View
from ares.control.state.write_probe import WriteProbe
from ares.core import keys
from ares.ports.disk import DiskRoom
from ares.ports.store import Committed, StoreError, StoreFull, StoreUnavailable, Unknown
from tests.clocks import ManualClock


class Store(MemoryStore):
    """Answers as it is told to."""

    says: StoreError | Unknown | None = None
    held: asyncio.Event | None = None
    writes = 0

    async def txn(self, *given: object, **named: object) -> Committed | Unknown:  # type: ignore[override]
        self.writes += 1
        if self.held is not None:
            await self.held.wait()
        if isinstance(self.says, StoreError):
            raise self.says
        return self.says or await super().txn(*given, **named)  # type: ignore[arg-type]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock)


@pytest.fixture
def proof(store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> WriteProbe:
    monkeypatch.setattr("ares.control.state.write_probe._WAIT_S", 0.01)
    return WriteProbe(store, clock, "one")


@pytest.mark.parametrize(
    ("says", "word"), [(StoreUnavailable("etcd is gone"), "etcd is gone"), (StoreFull("no room"), "full")]
)
async def test_a_store_that_refuses_is_told_at_once(
    proof: WriteProbe, store: Store, clock: ManualClock, says: StoreError, word: str
) -> None:
    assert await proof.missing() == ""
    store.says = says
    await clock.advance(2.0)
    assert word in await proof.missing()
    store.says = None
    await clock.advance(2.0)
    assert await proof.missing() == ""


async def test_a_store_that_hangs_or_does_not_know_is_believed_for_a_while(
    proof: WriteProbe, store: Store, clock: ManualClock
) -> None:
    assert await proof.missing() == ""
    store.says = Unknown("cut off")
    await clock.advance(5.0)
    assert await proof.missing() == ""
    await clock.advance(6.0)
    assert "for 11 s" in await proof.missing()
    store.says, store.held = None, asyncio.Event()
    await clock.advance(5.0)
    assert "for 16 s" in await proof.missing()
    store.held.set()
    while await proof.missing():
        await asyncio.sleep(0)


async def test_no_answer_yet_is_no_proof(proof: WriteProbe, store: Store) -> None:
    store.held = asyncio.Event()
    assert "yet" in await proof.missing()


async def test_many_who_ask_cost_one_write(proof: WriteProbe, store: Store, clock: ManualClock) -> None:
    await asyncio.gather(*(proof.missing() for _ in range(50)))
    await asyncio.gather(*(proof.missing() for _ in range(50)))
    assert store.writes == 1
    await clock.advance(2.0)
    await proof.missing()
    assert store.writes == 2
    kv = await store.get(keys.PROOF)
    assert kv is not None
    assert b'"one"' in kv.value


@pytest.mark.parametrize(
    ("room", "short"),
    [
        (DiskRoom(path="/d", bytes_free=FREE_BYTES_MIN, bytes_all=1 << 40), ""),
        (DiskRoom(path="/d", bytes_free=FREE_BYTES_MIN - 1, bytes_all=1 << 40), "67,108,863 bytes are left at /d"),
        (DiskRoom(path="/d", bytes_free=20_000, bytes_all=1 << 20), ""),
        (DiskRoom(path="/d", bytes_free=10_000, bytes_all=1 << 20), "at least 10,485 are needed"),
        (DiskRoom(path="/d", bytes_free=1 << 40, bytes_all=1 << 40, inodes_free=999, inodes_all=10**9), "999 inodes"),
    ],
)
async def test_a_disk_without_room_is_told_with_numbers(
    proof: WriteProbe, store: Store, clock: ManualClock, room: DiskRoom, short: str
) -> None:
    view = View(store, clock)
    leader = Leader(store, view, clock, cluster="c", replica="one", exclusive=True)
    fine = DiskRoom(path="/fine", bytes_free=1 << 40, bytes_all=1 << 41)
    health = Health(view, leader, clock, proof, lambda: (fine, room))
    assert (await health.ready())[0] is False
    view.connected = True
    ready, facts = await health.ready()
    assert (ready, short in facts["disk"]) == (not short, True), facts
    assert facts["disk_free_mib"] == str(min(fine.bytes_free, room.bytes_free) >> 20)
