"""Whether a server has an embedded store, seen from outside: never "nobody" when there may be one."""

import os
from pathlib import Path

import msgspec
import pytest

from ares.adapters import witness
from ares.adapters.clocks import SystemClock
from ares.adapters.store.sqlite import SqliteStore
from ares.adapters.witness import LockWitness, lock_of
from ares.model.link import StoreLock


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ares.db")


async def _closed_store(path: str) -> StoreLock:
    await (await SqliteStore.open(path, SystemClock())).close()
    lock = lock_of(path, 20.0)
    assert lock is not None
    return lock


async def test_free_when_no_process_has_the_store(path: str) -> None:
    assert await LockWitness().free(await _closed_store(path))


async def test_not_free_while_a_process_has_it_and_free_again_after(path: str) -> None:
    lock = await _closed_store(path)
    store = await SqliteStore.open(path, SystemClock())
    assert not await LockWitness().free(lock)
    await store.close()
    assert await LockWitness().free(lock)


async def test_a_look_does_not_keep_a_server_from_starting(path: str) -> None:
    lock = await _closed_store(path)
    assert await LockWitness().free(lock)
    await (await SqliteStore.open(path, SystemClock())).close()


@pytest.mark.parametrize(
    "other", [{"kernel": "another"}, {"device": 1}, {"inode": 1}, {"path": "/nowhere/ares.db"}], ids=str
)
async def test_another_file_or_machine_proves_nothing(path: str, other: dict[str, object]) -> None:
    lock = await _closed_store(path)
    assert not await LockWitness().free(msgspec.structs.replace(lock, **other))


async def test_a_store_that_was_put_in_its_place_proves_nothing(path: str) -> None:
    lock = await _closed_store(path)
    (other := Path(f"{path}.restored")).write_bytes(b"")
    os.replace(other, path)
    assert not await LockWitness().free(lock)


async def test_where_the_kernel_has_no_name_nothing_is_told(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await _closed_store(path)
    monkeypatch.setattr(witness, "_KERNEL", Path("/nowhere"))
    assert lock_of(path, 20.0) is None
