"""A replica beside a newer version that writes what this one would spoil: it ends, and does not start again."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from ares.adapters.clocks import SystemClock
from ares.adapters.store.open import open_store
from ares.core import keys
from ares.core.store_format import FORMAT, StoreFormat
from ares.ports.store import Put
from tests.platform import Platform, StoreKind, eventually

Build = Callable[[StoreKind], Platform]


async def raise_format(url: str) -> None:
    """What the first replica of a newer version does before anything else."""
    store = await open_store(url, SystemClock())
    try:
        await store.txn([], [Put(keys.FORMAT, msgspec.json.encode(StoreFormat(format=FORMAT + 1)))])
    finally:
        await store.close()


@pytest.mark.etcd
def test_a_replica_gives_way_to_a_newer_format(build: Build) -> None:
    platform = build("etcd")
    server = platform.server()
    asyncio.run(raise_format(platform.store_url))
    eventually(lambda: not server.alive, "the end of the older replica")
    assert "a newer version of Ares writes to this store" in server.tail()
    server.start()
    eventually(lambda: not server.alive, "the refusal to start")
    assert server.tail().count(f"format {FORMAT + 1}, this version knows {FORMAT}") >= 2
