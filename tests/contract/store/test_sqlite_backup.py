"""Backup while a server writes, and restore under a higher epoch."""

import asyncio
from pathlib import Path

import pytest

from ares.adapters.store.epoch import ensure_epoch
from ares.adapters.store.sqlite import SqliteStore, backup, restore
from ares.core.keys import EPOCH
from ares.ports.store import Put, StoreError, StoreUnavailable
from tests.contract.store.conftest import SystemClock
from tests.contract.store.test_sqlite import child, lines


class Dice:
    def uniform(self) -> float:
        return 0.5

    def token(self, n_bytes: int) -> bytes:
        return bytes(n_bytes)


def _bytes(path: str) -> bytes:
    return Path(path).read_bytes()


def _named(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


async def made(path: Path, clock: SystemClock, **values: bytes) -> int:
    store = await SqliteStore.open(str(path), clock)
    epoch = await ensure_epoch(store, Dice())
    await store.txn([], [Put(f"/{key}", value) for key, value in values.items()])
    await store.close()
    return epoch


async def contents(path: Path, clock: SystemClock) -> dict[str, bytes]:
    store = await SqliteStore.open(str(path), clock)
    kvs = (await store.range("/")).kvs
    await store.close()
    return {kv.key: kv.value for kv in kvs if kv.key != EPOCH}


async def test_backup_while_another_process_writes(tmp_path: Path, clock: SystemClock) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    with child("write", path) as process:
        told = await asyncio.to_thread(lines, process, 500)
        made = await asyncio.to_thread(backup, str(path), str(copy))
        found = await contents(copy, clock)
        # The writer was not in its way, nor the other way round: it goes on to what the copy does not have.
        while set(await asyncio.to_thread(lines, process, 500)) <= found.keys():
            pass
    assert made.path == str(copy)
    assert made.keys == len(found)
    assert set(told) <= found.keys()
    # Every transaction wrote a pair.
    assert len(found) % 2 == 0
    assert all(key.endswith("/pair") or f"{key}/pair" in found for key in found)
    assert not _named(tmp_path, "*.part*")


async def test_restore_bumps_the_epoch_and_keeps_the_old_store(tmp_path: Path, clock: SystemClock) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    assert await made(path, clock, a=b"then", b=b"then") == 1
    backup(str(path), str(copy))
    await made(path, clock, a=b"now", c=b"now")
    store = await SqliteStore.open(str(path), clock)
    revision = await store.revision()
    with pytest.raises(StoreUnavailable, match="in use"):
        restore(str(copy), str(path))
    await store.close()

    for number in (1, 2):
        restored = restore(str(copy), str(path))
        assert restored.epoch == number + 1
        assert restored.kept == f"{path}.before-restore-{number}"
        assert restored.revision > revision
        assert await contents(path, clock) == {"/a": b"then", "/b": b"then"}
    assert await contents(Path(f"{path}.before-restore-1"), clock) == {"/a": b"now", "/b": b"then", "/c": b"now"}
    store = await SqliteStore.open(str(path), clock)
    assert await ensure_epoch(store, Dice()) == restored.epoch
    assert await store.revision() == restored.revision
    await store.close()


async def test_two_restores_of_one_backup_never_share_an_epoch(tmp_path: Path, clock: SystemClock) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    await made(path, clock, a=b"1")
    backup(str(path), str(copy))
    epochs = [restore(str(copy), str(path)).epoch for _ in range(3)]
    assert epochs == [2, 3, 4]


async def test_restore_to_a_new_place(tmp_path: Path, clock: SystemClock) -> None:
    path, copy, new = tmp_path / "store.db", tmp_path / "copy.db", tmp_path / "new.db"
    await made(path, clock, a=b"1")
    backup(str(path), str(copy))
    assert restore(str(copy), str(new)).kept == ""
    assert await contents(new, clock) == {"/a": b"1"}


async def test_restore_over_a_damaged_store(tmp_path: Path, clock: SystemClock) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    await made(path, clock, a=b"1")
    backup(str(path), str(copy))
    assert restore(str(copy), str(path)).epoch == 2
    path.write_bytes(b"\0garbage" * 2_000)
    restored = restore(str(copy), str(path))
    # Higher than the epoch of the store that nobody can read any more.
    assert restored.epoch > 3
    assert _bytes(restored.kept) == b"\0garbage" * 2_000
    assert await contents(path, clock) == {"/a": b"1"}


async def test_what_is_no_good_backup_is_refused(tmp_path: Path, clock: SystemClock) -> None:
    path, copy, empty = tmp_path / "store.db", tmp_path / "copy.db", tmp_path / "empty.db"
    await made(path, clock, **{f"k{n}": bytes(500) for n in range(50)})
    before = path.read_bytes()
    backup(str(path), str(copy))
    damaged = bytearray(copy.read_bytes())
    damaged[8_192:12_288] = b"\xff" * 4_096
    copy.write_bytes(damaged)
    empty.touch()
    for source, words in ((copy, "damaged|malformed"), (empty, "empty"), (tmp_path / "none.db", "does not exist")):
        with pytest.raises(StoreError, match=words):
            restore(str(source), str(path))
    with pytest.raises(StoreError, match="does not exist"):
        backup(str(tmp_path / "none.db"), str(copy))
    with pytest.raises(StoreError, match="the store itself"):
        backup(str(path), str(path))
    assert not (tmp_path / "none.db").exists()
    assert path.read_bytes() == before
    assert not _named(tmp_path, "*.restore*")
