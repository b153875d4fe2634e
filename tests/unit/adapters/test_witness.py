"""Whether a server decides by an embedded store, seen from outside: never "nobody" when there may be one."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ares.adapters import witness
from ares.adapters.witness import DecidingLock, LockWitness
from ares.model.link import StoreLock


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "ares.db")


@pytest.fixture
def server(store: str) -> Iterator[DecidingLock]:
    made = DecidingLock(store, 20.0)
    yield made
    made.close()


def told(server: DecidingLock) -> StoreLock:
    assert server.told is not None
    return server.told


async def test_held_from_the_first_decision_to_the_end_of_the_process(server: DecidingLock) -> None:
    server.begin()
    assert not await LockWitness().free(told(server))
    server.close()
    assert await LockWitness().free(told(server))


async def test_free_while_the_next_server_only_reads_and_not_once_it_decides(store: str, server: DecidingLock) -> None:
    server.begin()
    server.close()
    following = DecidingLock(store, 20.0)
    assert await LockWitness().free(told(server))
    following.begin()
    assert not await LockWitness().free(told(server))
    assert not await LockWitness().free(told(following))
    following.close()
    # What the first server told proves nothing about those after it.
    assert not await LockWitness().free(told(server))
    assert await LockWitness().free(told(following))


async def test_a_server_that_died_before_it_decided_changes_nothing(store: str, server: DecidingLock) -> None:
    server.begin()
    server.close()
    DecidingLock(store, 20.0).close()
    assert await LockWitness().free(told(server))


async def test_a_server_that_cannot_make_a_lock_takes_the_old_one_away(
    store: str, server: DecidingLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.begin()
    server.close()
    monkeypatch.setattr(witness, "_KERNEL", Path("/nowhere"))
    following = DecidingLock(store, 20.0)
    monkeypatch.undo()
    assert following.told is None
    following.begin()
    assert not await LockWitness().free(told(server))


@pytest.mark.parametrize(
    "other", [{"kernel": "another"}, {"device": 1}, {"inode": 1}, {"path": "/nowhere/ares.db"}], ids=str
)
async def test_another_file_or_machine_proves_nothing(server: DecidingLock, other: dict[str, object]) -> None:
    server.begin()
    server.close()
    assert not await LockWitness().free(msgspec.structs.replace(told(server), **other))
