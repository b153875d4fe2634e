"""`ares store backup` and `ares store restore` with a fault at every system call that writes."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.adapters.clocks import SystemClock
from ares.adapters.store import epoch
from ares.adapters.store.sqlite import SqliteStore, backup, restore
from ares.core import keys
from ares.ports.store import Put
from tests.chaos.disk.inject import Injection, Traced, points_of, table, trace
from tests.chaos.disk.many import each, sample, unless_held
from tests.platform import ares, environment, say

Count = Callable[[str, object], None]
OLD, NEW = b"of the backup", b"of the store"
FEW = [pytest.param(3, id="some"), pytest.param(None, id="all", marks=pytest.mark.soak)]


async def write(path: Path, value: bytes, number: int) -> None:
    store = await SqliteStore.open(str(path), SystemClock())
    await store.txn([], [Put(keys.EPOCH, epoch.encode(number, bytes(16)))])
    for key in range(20):
        await store.txn([], [Put(f"/k/{key}", value * 50)])
    await store.close()


async def read(path: Path) -> tuple[bytes, int]:
    """Which of the two it is, whole, and its epoch."""
    store = await SqliteStore.open(str(path), SystemClock())
    try:
        values = {kv.value for kv in (await store.range("/k/")).kvs}
        kv = await store.get(keys.EPOCH)
    finally:
        await store.close()
    assert kv is not None
    (value,) = values
    return (OLD if value.startswith(OLD) else NEW), epoch.decode(kv.value).epoch


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in epoch 5, and a backup of an earlier time in epoch 4."""
    folder = tmp_path_factory.mktemp("copies") / "made"
    folder.mkdir()
    asyncio.run(write(folder / "old.db", OLD, 4))
    backup(str(folder / "old.db"), str(folder / "copy.db"))
    asyncio.run(write(folder / "store.db", NEW, 5))
    return folder


def run(what: str, root: Path, made: Path, injection: Injection | None) -> Traced:
    shutil.copytree(made, root)
    file = root / ("fresh.db" if what == "backup" else "copy.db")
    command = [*ares("store"), what, str(file), f"--set=store.url=sqlite://{root / 'store.db'}"]
    return trace(command, root, environment(root), injection)


def judge(what: str, root: Path, done: Traced) -> None:
    """Before or after, never between; and once more it works."""
    assert "Traceback" not in done.err, done.err
    value, number = unless_held(lambda: asyncio.run(read(root / "store.db")))
    if what == "backup":
        fresh = root / "fresh.db"
        assert (value, number) == (NEW, 5)
        assert done.code != 0 or fresh.exists()
        if fresh.exists():
            shutil.copy(fresh, root / "looked-at.db")
            assert unless_held(lambda: asyncio.run(read(root / "looked-at.db"))) == (NEW, 5)
        backup(str(root / "store.db"), str(fresh))
        return
    assert (value, number) == (NEW, 5) or (value == OLD and number > 5), (value, number)
    assert done.code != 0 or value == OLD
    unless_held(lambda: restore(str(root / "copy.db"), str(root / "store.db")))
    again = unless_held(lambda: asyncio.run(read(root / "store.db")))
    assert again[0] == OLD
    assert again[1] > number, "an epoch came twice"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("few", FEW)
@pytest.mark.parametrize("what", ["backup", "restore"])
def test_fault_at_every_call(
    tmp_path: Path, made: Path, seed: int, what: str, few: int | None, record_property: Count
) -> None:
    recordings = [run(what, tmp_path / f"recording-{number}", made, None) for number in range(2)]
    for number, recording in enumerate(recordings):
        assert recording.code == 0, recording.err
        judge(what, tmp_path / f"recording-{number}", recording)
    points = points_of([recording.calls for recording in recordings])
    errors = [Injection(point, error) for point in points if point.path for error in ("ENOSPC", "EIO")]
    faults = [Injection(point) for point in points] + errors

    def strike(number: int, injection: Injection) -> bool:
        root = tmp_path / f"{number}"
        done = run(what, root, made, injection)
        try:
            judge(what, root, done)
        except Exception as error:
            raise AssertionError(f"{injection}: {error!r}\n{done.out}\n{done.err}") from error
        shutil.rmtree(root)
        return done.killed or done.injected > 0

    chosen = sample(faults, few, seed)
    struck = each(chosen, strike)
    say(
        f"{what}: {len(points)} points ({table(points)}), {len(faults)} faults, {sum(struck)} of {len(chosen)} happened"
    )
    record_property("cases", len(chosen))
    assert any(struck)
