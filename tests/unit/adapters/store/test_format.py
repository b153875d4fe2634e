"""A store says by which format it is written; whoever knows only an older one keeps away."""

import asyncio

import msgspec
import pytest

from ares.adapters.store.memory import MemoryStore
from ares.adapters.store.open import ensure_format, keep_to_format
from ares.control.state.view import View
from ares.core.keys import FORMAT as KEY
from ares.core.store_format import FORMAT, StoreFormat, decode
from ares.ports.store import Put, StoreBroken, StoreVersionRefused
from tests.clocks import ManualClock


async def written(store: MemoryStore, number: int) -> None:
    await store.txn([], [Put(KEY, msgspec.json.encode(StoreFormat(format=number)))])


@pytest.mark.parametrize("before", [None, FORMAT - 1, FORMAT])
async def test_a_store_of_this_or_an_older_version_is_taken_into_use(before: int | None) -> None:
    store = MemoryStore(ManualClock())
    if before is not None:
        await written(store, before)
    await ensure_format(store)
    await ensure_format(store)
    kv = await store.get(KEY)
    assert kv is not None
    assert (decode(kv.value), kv.version) == (FORMAT, 1 + (before == FORMAT - 1))


async def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is() -> None:
    store = MemoryStore(ManualClock())
    await written(store, FORMAT + 1)
    with pytest.raises(StoreVersionRefused, match=f"format {FORMAT + 1}, this version knows {FORMAT}"):
        await ensure_format(store)
    kv = await store.get(KEY)
    assert kv is not None
    assert decode(kv.value) == FORMAT + 1


async def test_a_replica_ends_when_a_newer_version_begins_to_write() -> None:
    """It follows the store in order: whatever the newer version wrote came later, and was not seen."""
    clock = ManualClock()
    store = MemoryStore(clock)
    view = View(store, clock)
    await view.open()
    following = asyncio.create_task(view.run())
    looking = asyncio.create_task(keep_to_format(store, clock))
    await written(store, FORMAT)
    await clock.advance(20)
    assert not following.done()
    assert not looking.done()
    await written(store, FORMAT + 1)
    await clock.advance(20)
    with pytest.raises(StoreBroken, match="newer version"):
        await following
    with pytest.raises(StoreVersionRefused, match="newer version"):
        await looking
    assert not view.connected
