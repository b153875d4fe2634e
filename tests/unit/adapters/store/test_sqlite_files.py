"""Files of an embedded store that are removed, cut or replaced: nobody takes what is left for a store of its own."""

import asyncio
import shutil
from pathlib import Path

import pytest

from ares.adapters.clocks import SystemClock
from ares.adapters.store.sqlite import SqliteStore, backup, mark, restore
from ares.adapters.store.sqlite.seal import Damaged
from ares.ports.store import Committed, Put, StoreBroken, StoreUnavailable

SUFFIXES = ("", "-wal", "-shm", ".mark")
pytestmark = pytest.mark.timeout(60)


async def opened(path: Path) -> SqliteStore:
    return await SqliteStore.open(str(path), SystemClock())


async def put(store: SqliteStore, key: str, value: bytes = b"x") -> None:
    assert isinstance(await store.txn([], [Put(key, value)]), Committed)


def exists(path: Path) -> bool:
    return path.exists()


def remove(path: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink()


async def used(store: SqliteStore) -> None:
    """For as long as it lets itself be used."""
    while True:
        await store.revision()
        await asyncio.sleep(0.05)


async def killed(folder: Path) -> Path:
    """The files of a server that was killed, after it had written something."""
    running, left = folder / "running.db", folder / "store.db"
    store = await opened(running)
    await put(store, "/jobs/a")
    for suffix in SUFFIXES:
        shutil.copy(f"{running}{suffix}", f"{left}{suffix}")
    await store.close()
    return left


async def test_a_second_server_is_refused_also_when_the_lock_file_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await opened(path)
    remove(path, ".lock")
    with pytest.raises(StoreUnavailable, match="is in use by another process: one process owns an embedded store"):
        await opened(path)
    # Nor is the store put back under a server that uses it.
    copy = tmp_path / "copy.db"
    backup(str(path), str(copy))
    with pytest.raises(StoreUnavailable, match="is in use"):
        restore(str(copy), str(path))
    await put(store, "/jobs/a")
    await store.close()
    again = await opened(path)
    assert await again.get("/jobs/a") is not None
    await again.close()


async def test_what_a_killed_server_left_is_taken_up(tmp_path: Path) -> None:
    path = await killed(tmp_path)
    store = await opened(path)
    assert await store.get("/jobs/a") is not None
    await store.close()
    assert mark.read(str(path)) == mark.StoreMark(False, 2)
    await (await opened(path)).close()


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        (("-wal",), "store.db-wal is gone: what was written last"),
        (("-wal", "-shm"), "store.db-wal is gone: what was written last"),
        (("", "-wal", "-shm"), "store.db is gone: it had revision"),
    ],
)
async def test_a_store_whose_files_were_removed_does_not_begin_anew(
    tmp_path: Path, gone: tuple[str, ...], why: str
) -> None:
    path = await killed(tmp_path)
    remove(path, *gone)
    for _ in range(2):
        with pytest.raises(Damaged, match=why) as refused:
            await opened(path)
        assert "ares store restore" in str(refused.value)
        assert exists(path) is ("" not in gone), "nothing is made in the place of what is missing"
    remove(path, ".mark")
    await (await opened(path)).close()


async def test_an_older_store_in_its_place_is_noticed(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    store = await opened(path)
    await put(store, "/jobs/a")
    backup(str(path), str(copy))
    await put(store, "/jobs/b")
    await store.close()
    shutil.copy(copy, path)
    with pytest.raises(Damaged, match="has revision 2 and had 3"):
        await opened(path)
    restore(str(copy), str(path))
    again = await opened(path)
    assert await again.get("/jobs/a") is not None
    await again.close()


@pytest.mark.parametrize("gone", ["", "-wal"])
async def test_a_running_server_notices_and_writes_no_more(tmp_path: Path, gone: str) -> None:
    path = tmp_path / "store.db"
    store = await opened(path)
    await put(store, "/jobs/a")
    remove(path, gone)
    with pytest.raises(StoreBroken) as broken:
        await used(store)
    assert f"store.db{gone} was removed or replaced" in str(broken.value)
    await store.close()
    if gone:
        # What was only in the log was brought into the file first.
        again = await opened(path)
        assert await again.get("/jobs/a") is not None
        await again.close()
