"""When no answer comes the outcome is a value, and reading back settles it."""

import asyncio
from pathlib import Path

import pytest

from ares.adapters.store.etcd import EtcdStore
from ares.adapters.store.memory import MemoryStore, StoreFault
from ares.ports.store import Committed, Compare, Get, Put, Store, StoreUnavailable, Unknown
from tests.contract.store.conftest import SystemClock
from tests.servers import EtcdServer

WAIT_S = 30.0


async def settle(store: Store, key: str) -> bytes | None:
    """What a caller does with Unknown: a write of its own that comes after, and a look at what was there."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                outcome = await store.txn([Compare(key, "version", 0)], [Put(key, b"settled")], [Get(key)])
            except StoreUnavailable:
                await asyncio.sleep(0.05)
                continue
            if isinstance(outcome, Committed):
                return outcome.gets[0].value if outcome.gets and outcome.gets[0] else None


@pytest.mark.parametrize(("kind", "applied"), [("reply_lost", True), ("request_lost", False)])
async def test_memory(clock: SystemClock, kind: str, applied: bool) -> None:
    store = MemoryStore(clock)
    store.faults.next(StoreFault(kind))  # pyright: ignore[reportArgumentType]
    assert isinstance(await store.txn([], [Put("/a", b"mine")]), Unknown)
    assert await settle(store, "/a") == (b"mine" if applied else None)
    await store.close()


async def test_etcd_that_stops_answering(tmp_path: Path, clock: SystemClock) -> None:
    """The server is frozen past the deadline: every transaction of the batch is unknown, none is sent twice."""
    with EtcdServer(tmp_path) as server:
        store = await EtcdStore.open([server.endpoint], clock, txn_s=0.5)
        assert isinstance(await store.txn([], [Put("/before", b"1")]), Committed)
        server.pause()
        outcomes = await asyncio.gather(*(store.txn([], [Put(f"/k/{n}", b"mine")]) for n in range(10)))
        assert all(isinstance(outcome, Unknown) for outcome in outcomes)
        # Nobody can be reached now, and that is certain: nothing is sent.
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await store.txn([], [Put("/never", b"1")])
        server.resume()
        settled = [await settle(store, f"/k/{n}") for n in range(10)]
        # One request carried all of them: all or none, and never twice.
        assert set(settled) in ({b"mine"}, {None})
        versions = {kv.version for kv in (await store.range("/k/")).kvs}
        assert versions == {1}
        assert await store.get("/never") is None
        await store.close()


async def test_etcd_that_is_killed_under_load(tmp_path: Path, clock: SystemClock) -> None:
    """Acknowledged writes are there after kill -9; unknown ones are there once or not at all."""
    with EtcdServer(tmp_path) as server:
        store = await EtcdStore.open([server.endpoint], clock, txn_s=2.0)
        acknowledged: set[str] = set()
        unsure: set[str] = set()
        refused: set[str] = set()
        enough = asyncio.Event()

        async def writer(number: int) -> None:
            for step in range(100_000):
                key = f"/k/{number}/{step}"
                try:
                    outcome = await store.txn([Compare(key, "version", 0)], [Put(key, b"")])
                except StoreUnavailable:
                    refused.add(key)
                    return
                (acknowledged if isinstance(outcome, Committed) else unsure).add(key)
                if len(acknowledged) > 500:
                    enough.set()

        writers = asyncio.gather(*(writer(number) for number in range(50)))
        async with asyncio.timeout(WAIT_S):
            await enough.wait()
        server.kill()
        await writers
        await asyncio.to_thread(server.start)
        found = {kv.key: kv.version for kv in (await store.range("/k/")).kvs}
        assert acknowledged <= found.keys() <= acknowledged | unsure
        assert refused.isdisjoint(found)
        assert set(found.values()) == {1}
        await store.close()
