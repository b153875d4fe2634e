"""What only the embedded store has to withstand: kill -9, a second opener, failing and full disks."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from ares.adapters.store.sqlite import SqliteStore, restore, schema, writer
from ares.adapters.store.sqlite.sql import connect
from ares.ports.store import Committed, Delete, Put, Store, StoreError, StoreUnavailable
from tests.contract.store.conftest import SystemClock
from tests.contract.store.watching import changes_until

ROOT = Path(__file__).parents[3]


@contextmanager
def child(mode: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.contract.store.sqlite_child", mode, str(path)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


@pytest.mark.parametrize("acknowledged", [1, 500, 3_000])
async def test_kill_9_in_the_middle_of_group_commits(tmp_path: Path, clock: SystemClock, acknowledged: int) -> None:
    path = tmp_path / "store.db"
    with child("write", path) as process:
        told = await asyncio.to_thread(lines, process, acknowledged)
        process.kill()
        assert process.stdout is not None
        told += [line.strip() for line in process.stdout if line.endswith("\n")]
    assert len(told) >= acknowledged
    store = await SqliteStore.open(str(path), clock)
    found = {kv.key for kv in (await store.range("/k/")).kvs}
    assert set(told) <= found
    # A transaction is there whole or not at all.
    singles = {key for key in found if not key.endswith("/pair")}
    assert {f"{key}/pair" for key in singles} == found - singles
    revision = max(kv.mod_revision for kv in (await store.range("/k/")).kvs)
    assert await store.revision() == revision
    await store.close()


READER = """
import sqlite3, sys
reader = sqlite3.connect(sys.argv[1], isolation_level=None)
reader.execute("BEGIN")
reader.execute("SELECT count(*) FROM kv").fetchone()
print("reading", flush=True)
sys.stdin.read()
"""


def read_on(path: Path) -> subprocess.Popen[str]:
    """Another program that holds on to a moment of the store."""
    command = [sys.executable, "-c", READER, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


# Held up for five seconds each, the commits would take twice as long.
@pytest.mark.timeout(100)
async def test_somebody_elses_long_read_does_not_hold_up_commits(
    tmp_path: Path, clock: SystemClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log must be emptied, a backup reads for minutes, and nobody waits for it; afterwards the log is emptied."""
    monkeypatch.setattr(writer, "_CHECKPOINT_PAGES", 4)
    monkeypatch.setattr(writer, "_CHECKPOINT_PAGES_MUST", 8)
    path = tmp_path / "store.db"
    store = await SqliteStore.open(str(path), clock)
    await store.txn([], [Put("/k", b"")])
    with read_on(path) as reader:
        assert await asyncio.to_thread(lines, reader, 1) == ["reading"]
        for number in range(40):
            outcome = await store.txn([], [Put("/k", bytes(30_000 + number))])
            assert isinstance(outcome, Committed)
        grown = (path.parent / "store.db-wal").stat().st_size
        reader.communicate()
    for _ in range(3):
        await store.txn([], [Put("/k", bytes(30_000))])
    assert (path.parent / "store.db-wal").stat().st_size == grown, "the log was not begun anew"
    await store.close()


async def test_a_second_opener_is_refused(tmp_path: Path, clock: SystemClock) -> None:
    path = tmp_path / "store.db"
    with child("hold", path) as process:
        assert await asyncio.to_thread(lines, process, 1) == ["open"]
        with pytest.raises(StoreUnavailable, match=f"in use by process {process.pid}"):
            await SqliteStore.open(str(path), clock)
        process.kill()
        process.wait()
        # The lock went with its owner.
        store = await SqliteStore.open(str(path), clock)
    with pytest.raises(StoreUnavailable, match="in use"):
        await SqliteStore.open(str(path), clock)
    await store.close()
    store = await SqliteStore.open(str(path), clock)
    assert await store.revision() == 1
    await store.close()


async def test_a_failing_disk_breaks_the_store_for_good(tmp_path: Path, clock: SystemClock) -> None:
    path = tmp_path / "store.db"
    with child("broken", path) as process:
        output, _ = await asyncio.to_thread(process.communicate, timeout=60)
    told = dict(line.split(" ", 1) for line in output.splitlines() if line.startswith(("unknown", "refused")))
    assert int(told["unknown"]) + int(told["refused"]) == 100
    assert int(told["unknown"]) > 0
    assert output.count("broken") == 5
    assert "went on" not in output
    assert output.count("restart this process") == 5
    store = await SqliteStore.open(str(path), clock)
    assert await store.get("/good") is not None
    await store.close()


@contextmanager
def small_disk(at: Path, mebibytes: int) -> Iterator[Path]:
    at.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(at)]
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a full disk needs a small tmpfs, and only root may mount one. Run this test as root.")
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(
            f"NOT TESTED: a full disk needs a small tmpfs, and this machine refuses to mount one: {done.stderr}"
        )
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


async def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path, clock: SystemClock) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        path = disk / "store.db"
        store = await SqliteStore.open(str(path), clock)
        acknowledged = await fill(store)
        assert acknowledged
        # Refused, but not broken: reading goes on, and so does writing once there is room.
        assert {kv.key for kv in (await store.range("/k/")).kvs} == set(acknowledged)
        (disk / "ballast").unlink()
        assert isinstance(await store.txn([], [Put("/k/after", b"1")]), Committed)
        await store.close()
        store = await SqliteStore.open(str(path), clock)
        assert {kv.key for kv in (await store.range("/k/")).kvs} == {*acknowledged, "/k/after"}
        await store.close()


async def fill(store: SqliteStore) -> list[str]:
    acknowledged: list[str] = []
    (Path(store.path).parent / "ballast").write_bytes(bytes(1_000_000))
    for step in range(1_000):
        batch = [f"/k/{step:04d}/{n}" for n in range(10)]
        outcomes = await asyncio.gather(
            *(store.txn([], [Put(key, bytes(5_000))]) for key in batch), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
        acknowledged += [key for key, outcome in zip(batch, outcomes, strict=True) if isinstance(outcome, Committed)]
        if refused:
            assert all("disk is full" in str(error) for error in refused)
            assert isinstance(refused[0], StoreUnavailable)
            return acknowledged
    raise AssertionError("8 MiB never became full")


async def test_expiry_waits_for_room_on_the_disk(tmp_path: Path, clock: SystemClock) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        store = await SqliteStore.open(str(disk / "store.db"), clock)
        lease = await store.grant_lease(1)
        await store.txn([], [Put("/held", b"", lease=lease)])
        start = await store.revision() + 1
        await fill(store)
        # Ended by the clock, but there is no room to say so.
        async with asyncio.timeout(30):
            while await store.keep_alive(lease):
                await clock.sleep(1.1)
        (disk / "ballast").unlink()
        seen = await changes_until(store, "/held", start, bool)
        assert [(change.kv.key, change.deleted) for change in seen] == [("/held", True)]
        await store.close()


async def test_where_no_store_can_be(tmp_path: Path, clock: SystemClock) -> None:
    with pytest.raises(StoreUnavailable, match="make its folder"):
        await SqliteStore.open(str(tmp_path / "none" / "store.db"), clock)
    store = await SqliteStore.open(str(tmp_path / "store.db"), clock)
    await store.txn([], [Put("/secret", b"1")])
    assert {oct(file.stat().st_mode & 0o777) for file in folder(tmp_path)} == {"0o600"}
    await store.close()


def folder(path: Path) -> list[Path]:
    return list(path.iterdir())


async def test_leases_outlive_a_restart_and_then_end(tmp_path: Path, clock: SystemClock) -> None:
    path = str(tmp_path / "store.db")
    store = await SqliteStore.open(path, clock)
    short, long = await store.grant_lease(1), await store.grant_lease(60)
    await store.txn([], [Put("/short", b"", lease=short), Put("/long", b"", lease=long)])
    await store.close()
    store = await SqliteStore.open(path, clock)
    start = await store.revision() + 1
    assert await store.get("/short") is not None
    assert await store.keep_alive(long) == 60
    seen = await changes_until(store, "/", start, bool)
    assert [(change.kv.key, change.deleted) for change in seen] == [("/short", True)]
    # An id is never used again, so nobody renews a stranger's lease.
    assert await store.grant_lease(60) > long
    await store.close()
    store = await SqliteStore.open(path, clock)
    assert await store.keep_alive(short) == 0
    assert await store.get("/long") is not None
    await store.close()


async def test_versions_and_revisions_go_on_after_a_restart(tmp_path: Path, clock: SystemClock) -> None:
    path = str(tmp_path / "store.db")
    before = 0
    for step in range(1, 4):
        store: Store = await SqliteStore.open(path, clock)
        outcome = await store.txn([], [Put("/a", b"%d" % step), Delete("/none")])
        assert isinstance(outcome, Committed)
        found = await store.get("/a")
        assert found is not None
        assert (found.version, found.mod_revision, found.create_revision) == (step, before + 1 if before else 2, 2)
        before = outcome.revision
        await store.close()


async def test_foreign_newer_and_damaged_files_are_refused(tmp_path: Path, clock: SystemClock) -> None:
    foreign, newer, damaged = tmp_path / "foreign.db", tmp_path / "newer.db", tmp_path / "damaged.db"
    apsw.Connection(str(foreign)).execute("CREATE TABLE t (a)")
    await (await SqliteStore.open(str(newer), clock)).close()
    apsw.Connection(str(newer)).execute("PRAGMA user_version = 99")
    damaged.write_bytes(b"not a database at all, just some text" * 100)
    for path, words in ((foreign, "another program"), (newer, "schema version 99"), (damaged, "cannot be opened")):
        content = path.read_bytes()
        with pytest.raises(StoreError, match=words):
            await SqliteStore.open(str(path), clock)
        assert path.read_bytes() == content
    # What was refused holds no lock.
    with pytest.raises(StoreError, match="another program"):
        await SqliteStore.open(str(foreign), clock)


def log_size(path: Path) -> int:
    log = Path(f"{path}-wal")
    return log.stat().st_size if log.exists() else 0


async def test_a_long_write_ahead_log_is_folded_back(tmp_path: Path, clock: SystemClock) -> None:
    path = tmp_path / "store.db"
    store = await SqliteStore.open(str(path), clock)
    for step in range(30):
        await asyncio.gather(*(store.txn([], [Put(f"/k/{step}/{n}", bytes(100_000))]) for n in range(20)))
    written = 30 * 20 * 100_000
    # Waits for the writer, which folds after it has answered.
    await store.txn([], [Put("/last", b"")])
    assert log_size(path) < written * 0.9
    assert path.stat().st_size > written * 0.5
    await store.close()
    assert log_size(path) == 0


async def test_a_store_from_before_checksums_is_sealed(tmp_path: Path, clock: SystemClock) -> None:
    """Opened, or restored from a backup of that time; then a changed byte is noticed and named."""
    path, old = tmp_path / "store.db", tmp_path / "old.db"
    connection = connect(str(old), create=True)
    connection.execute(schema.MIGRATIONS[0])
    connection.execute("INSERT INTO kv VALUES ('/a', x'3132', 2, 2, 1, 0)")
    connection.execute("INSERT INTO lease VALUES (7, 60.0)")
    connection.execute("UPDATE store SET revision = 2")
    connection.execute(f"PRAGMA user_version = 1; PRAGMA application_id = {0x41726573}")
    connection.close()
    restore(str(old), str(path))
    for one in (old, path):
        store = await SqliteStore.open(str(one), clock)
        found = await store.get("/a")
        assert found is not None
        assert (found.value, found.version) == (b"12", 1)
        assert await store.keep_alive(7) == 60
        assert isinstance(await store.txn([], [Put("/b", b"1"), Delete("/a")]), Committed)
        await store.close()
        data = one.read_bytes()
        one.write_bytes(data.replace(b"/b1", b"/b2"))
        with pytest.raises(StoreError, match=r"record '/b' is damaged: its checksum.*store restore"):
            await SqliteStore.open(str(one), clock)
