"""A disk that hangs, files that cannot be opened: callers get an answer of the store's own kind."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from ares.adapters.store.sqlite import SqliteStore, writer
from ares.adapters.store.sqlite import store as module
from ares.ports.store import Committed, Put, StoreBroken, StoreUnavailable, Unknown
from tests.unit.adapters.store.virtual import VirtualClock


async def test_a_commit_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DEADLINE_S", 0.2)
    hangs, goes_on = threading.Event(), threading.Event()
    commit = writer.SqliteWriter._commit

    def slow(self: writer.SqliteWriter, requests: list[writer.WriteRequest]) -> writer.CommitDelivery:
        hangs.set()
        goes_on.wait(30)
        return commit(self, requests)

    store = await SqliteStore.open(str(tmp_path / "store.db"), VirtualClock())
    assert isinstance(await store.txn([], [Put("/good", b"")]), Committed)
    monkeypatch.setattr(writer.SqliteWriter, "_commit", slow)
    under_way = asyncio.create_task(store.txn([], [Put("/hangs", b"")]))
    async with asyncio.timeout(30):
        await asyncio.to_thread(hangs.wait)
        waiting = asyncio.create_task(store.txn([], [Put("/waits", b"")]))
        outcome = await under_way
    assert isinstance(outcome, Unknown)
    assert "restart" in outcome.why
    # Not begun, taken back: that is certain.
    with pytest.raises(StoreUnavailable, match="has not finished a commit"):
        await waiting
    with pytest.raises(StoreBroken, match="has not finished a commit"):
        await store.get("/good")
    # Whoever follows the store learns that there is no more to come.
    with pytest.raises(StoreBroken, match="has not finished a commit"):
        await anext(aiter(store.watch("/", 1_000)))
    goes_on.set()
    await store.close()
    store = await SqliteStore.open(str(tmp_path / "store.db"), VirtualClock())
    assert await store.get("/waits") is None
    await store.close()


async def test_a_bug_in_one_batch_refuses_it_and_nothing_else(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "store.db"), VirtualClock())
    with pytest.raises(StoreUnavailable, match="could not evaluate"):
        await store.txn([], [Put("/a", "not bytes")])  # pyright: ignore[reportArgumentType]
    assert isinstance(await store.txn([], [Put("/b", b"")]), Committed)
    assert [kv.key for kv in (await store.range("/")).kvs] == ["/b"]
    await store.close()


async def test_running_out_of_open_files_is_an_answer_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await SqliteStore.open(str(tmp_path / "store.db"), VirtualClock())

    def no_more(path: str) -> None:
        raise apsw.CantOpenError(f"unable to open {path}")

    with monkeypatch.context() as patched:
        patched.setattr(module, "open_reader", no_more)
        with pytest.raises(StoreUnavailable, match="cannot be opened for reading"):
            await store.get("/a")
        with pytest.raises(StoreUnavailable, match="cannot be opened for reading"):
            await store.range("/")
    assert await store.get("/a") is None
    await store.close()
