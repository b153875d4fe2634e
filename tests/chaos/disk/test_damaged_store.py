"""Stores whose files were damaged while nobody looked: refused in words, or proven to be what was written."""

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ares.adapters.clocks import SystemClock
from ares.adapters.store import epoch
from ares.adapters.store.sqlite import SqliteStore, backup, restore, writer
from ares.core import keys
from ares.ports.store import Committed, Put, StoreError
from tests.chaos.disk import spoil
from tests.chaos.disk.spoil import Spoilt
from tests.chaos.disk.store_child import applied, expected, lease, one
from tests.platform import say

Count = Callable[[str, object], None]
TRANSACTIONS = 30
FRAME = spoil.PAGE + 24
LOG_HEADER = 32
CHECKPOINT_PAGES = 90
SOME, ALL = 10, pytest.param(1_000, marks=pytest.mark.soak)


@pytest.fixture
def memory() -> Iterator[Path]:
    """Syncing a thousand files on a real disk proves nothing more."""
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as directory:
        yield Path(directory)


async def write(path: Path) -> SqliteStore:
    store = await SqliteStore.open(str(path), SystemClock())
    await store.txn([], [Put(keys.EPOCH, epoch.encode(1, b"0123456789abcdef"))])
    for number in range(1, TRANSACTIONS + 1):
        await one(store, number)
        if number == TRANSACTIONS // 2:
            await lease(store, end=False)
    return store


async def make_closed(path: Path) -> None:
    await (await write(path)).close()


async def make_running(path: Path) -> None:
    """As a killed server leaves it: some of it in the file, the rest in the log, behind which is an older one."""
    usual, writer._CHECKPOINT_PAGES = writer._CHECKPOINT_PAGES, CHECKPOINT_PAGES  # pyright: ignore[reportPrivateUsage]
    store = await write(path.with_name("running.db"))
    writer._CHECKPOINT_PAGES = usual  # pyright: ignore[reportPrivateUsage]
    for suffix in ("", "-wal"):
        shutil.copy(f"{store.path}{suffix}", f"{path}{suffix}")
    await store.close()
    for left in path.parent.glob("running.db*"):
        left.unlink()


async def contents(path: Path) -> tuple[list[int], int]:
    """The transactions found, of which nothing is missing, and the epoch."""
    store = await SqliteStore.open(str(path), SystemClock())
    try:
        kvs = {kv.key: kv for kv in (await store.range("/")).kvs}
        assert await store.revision() >= max((kv.mod_revision for kv in kvs.values()), default=0)
        own = {key: (kv.value, kv.version) for key, kv in kvs.items() if not key.startswith(("/leased/", keys.EPOCH))}
        numbers = applied(own)
        assert own == expected(numbers)
        assert isinstance(await store.txn([], [Put("/after", b"1")]), Committed)
        return numbers, epoch.decode(kvs[keys.EPOCH].value).epoch if keys.EPOCH in kvs else 0
    finally:
        await store.close()


def open_spoilt(path: Path) -> tuple[str, int]:
    """How it ended in a word, and the epoch."""
    try:
        numbers, number = asyncio.run(contents(path))
    except StoreError as error:
        text = str(error)
        assert str(path) in text, text
        assert "Traceback" not in text
        return "refused", 0
    assert numbers == list(range(1, len(numbers) + 1)), numbers
    return ("whole" if len(numbers) == TRANSACTIONS else "prefix"), number


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for left in folder.iterdir():
        left.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder / "store.db"


def variants(data: bytes, count: int, rng: random.Random, page: int = spoil.PAGE, start: int = 0) -> Iterator[Spoilt]:
    yield from spoil.single_flips(data, count, rng)
    yield from spoil.flips(data, count, rng)
    yield from spoil.cuts(data, count, rng)
    yield from spoil.pages(data, count, rng, page, start)


def prepared(memory: Path, make: Callable[[Path], object]) -> dict[str, bytes]:
    folder = memory / "made"
    folder.mkdir()
    asyncio.run(make(folder / "store.db"))  # pyright: ignore[reportArgumentType]
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [SOME, ALL])
def test_database(memory: Path, seed: int, count: int, record_property: Count) -> None:
    files, seen = prepared(memory, make_closed), Counter[str]()
    folder = memory / "spoilt"
    folder.mkdir()
    for what, data in variants(files["store.db"], count, random.Random(seed)):
        how, _ = open_spoilt(put(folder, {"store.db": data}))
        # Bytes that nobody uses may change. A file of no bytes at all is a store that was never written to.
        assert how in ("refused", "whole") or not data, f"{what}: {how}"
        seen[how] += 1
    say(f"database: {dict(seen)}")
    record_property("cases", seen.total())
    assert seen["refused"] > seen.total() / 2


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [SOME, ALL])
def test_log(memory: Path, seed: int, count: int, record_property: Count) -> None:
    """A shorter log is one after a power failure. Where one can tell that it is not, it is refused."""
    files, seen = prepared(memory, make_running), Counter[str]()
    folder = memory / "spoilt"
    folder.mkdir()
    for what, data in variants(files["store.db-wal"], count, random.Random(seed), FRAME, LOG_HEADER):
        how, number = open_spoilt(put(folder, {**files, "store.db-wal": data}))
        # Whole frames that are gone, or others in their place, look as after a power failure.
        unseen = what.startswith("the page") or (len(data) - LOG_HEADER) % FRAME == 0 or len(data) <= LOG_HEADER
        if how == "prefix" and not (what.startswith(("cut", "the page")) and unseen):
            # What may have been acknowledged is gone: its fences must not come again.
            assert number != 1, f"{what}: {how}"
        seen[f"{how}, new epoch" if number > 1 else how] += 1
    say(f"log: {dict(seen)}")
    record_property("cases", seen.total())
    assert seen["refused"] > seen.total() / 4


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [SOME, ALL])
def test_database_under_a_log(memory: Path, seed: int, count: int, record_property: Count) -> None:
    files, seen = prepared(memory, make_running), Counter[str]()
    folder = memory / "spoilt"
    folder.mkdir()
    for what, data in variants(files["store.db"], count // 2, random.Random(seed)):
        how, _ = open_spoilt(put(folder, {**files, "store.db": data}))
        assert how in ("refused", "whole"), f"{what}: {how}"
        seen[how] += 1
    say(f"database under a log: {dict(seen)}")
    record_property("cases", seen.total())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [SOME, ALL])
def test_backup(memory: Path, seed: int, count: int, record_property: Count) -> None:
    """A damaged backup is not restored, and what it should have replaced stays as it was."""
    files, seen = prepared(memory, make_closed), Counter[str]()
    source = memory / "made" / "store.db"
    copy, folder = memory / "copy.db", memory / "spoilt"
    backup(str(source), str(copy))
    folder.mkdir()
    for what, data in variants(copy.read_bytes(), count, random.Random(seed)):
        path = put(folder, {"store.db": files["store.db"], "copy.db": data})
        try:
            restore(str(folder / "copy.db"), str(path))
        except StoreError:
            assert path.read_bytes() == files["store.db"]
            seen["refused"] += 1
        else:
            how, number = open_spoilt(path)
            assert (how, number) == ("whole", 2), what
            seen["whole"] += 1
    say(f"backup: {dict(seen)}")
    record_property("cases", seen.total())
    assert seen["refused"] > seen.total() / 2
