"""The embedded store with a fault at every system call that writes: kill -9, a full disk, a failing disk."""

import asyncio
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ares.adapters.clocks import SystemClock
from ares.adapters.store.sqlite import SqliteStore
from ares.core import keys
from ares.ports.store import Committed, Put
from tests.chaos.disk.inject import SYNC_CALLS, Errno, Injection, Point, Traced, points_of, table, trace
from tests.chaos.disk.many import Few, each, sample, unless_held
from tests.chaos.disk.store_child import LEASE_S, applied, expected
from tests.platform import say

Count = Callable[[str, object], None]
SOME = Few(kills=5, errors=5)


class Story(NamedTuple):
    """A run of the store. `before`: how the store was made that it begins with, if it does not make it itself."""

    mode: str
    before: str = ""


STORIES = {"first start": Story("open"), "writing": Story("run"), "writing again": Story("run", before="open")}


def begin(story: Story, root: Path) -> None:
    root.mkdir()
    if story.before:
        done = trace(command(root, story.before), root, os.environ)
        assert done.code == 0, done


def command(root: Path, mode: str) -> list[str]:
    return [sys.executable, "-m", "tests.chaos.disk.store_child", str(root / "store.db"), mode]


def record(story: Story, directory: Path) -> list[Point]:
    recordings: list[Traced] = []
    for number in range(2):
        root = directory / f"recording-{number}"
        begin(story, root)
        recordings.append(trace(command(root, story.mode), root, os.environ))
        assert recordings[-1].code == 0, recordings[-1]
    return points_of([recording.calls for recording in recordings])


def told(run: Traced) -> dict[str, list[int]]:
    """What the program was told, by answer: numbers of transactions, or of leases."""
    answers: dict[str, list[int]] = {}
    for line in run.out.splitlines():
        word, *rest = line.split()
        answers.setdefault(word, []).append(int(rest[0]) if rest and rest[0].isdecimal() else 0)
    return answers


async def judge(path: Path, answers: dict[str, list[int]]) -> None:
    """Nothing acknowledged is lost, nothing refused is there, all of it is whole, and it goes on."""
    store = await SqliteStore.open(str(path), SystemClock())
    try:
        # A commit that is not whole in the log begins a new epoch.
        others = ("/leased/", keys.EPOCH)
        kvs = {kv.key: kv for kv in (await store.range("/")).kvs if not kv.key.startswith(others)}
        there = applied(kvs)
        assert set(answers.get("ok", ())) <= set(there), f"lost: {answers}, {there}"
        assert not set(answers.get("refused", ())) & set(there), f"refused and there: {answers}, {there}"
        assert {key: (kv.value, kv.version) for key, kv in kvs.items()} == expected(there)
        assert len({kv.mod_revision for key, kv in kvs.items() if key.endswith("/pair")}) == len(there)
        assert await store.revision() >= max((kv.mod_revision for kv in kvs.values()), default=0)
        leased = [int(kv.key.removeprefix("/leased/")) for kv in (await store.range("/leased/")).kvs]
        assert set(answers.get("leased", ())) <= set(leased)
        assert not set(answers.get("revoked", ())) & set(leased)
        for number in leased:
            assert await store.keep_alive(number) == LEASE_S, f"a key of lease {number}, which is gone"
        assert isinstance(await store.txn([], [Put("/after", b"1")]), Committed)
    finally:
        await store.close()


def strike(story: Story, root: Path, injection: Injection) -> Traced:
    begin(story, root)
    run = trace(command(root, story.mode), root, os.environ, injection)
    assert "Traceback" not in run.err, f"{injection}: {run.err}"
    try:
        unless_held(lambda: asyncio.run(judge(root / "store.db", told(run))))
    except AssertionError as error:
        raise AssertionError(f"{injection}: {error}\n{run.out}") from error
    shutil.rmtree(root)
    return run


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("few", [SOME, pytest.param(None, marks=pytest.mark.soak)], ids=["some", "all"])
def test_kill_9_at_every_call(tmp_path: Path, seed: int, few: Few | None, record_property: Count) -> None:
    hit: Counter[str] = Counter()
    for name, story in sample(list(STORIES.items()), None if few is None else 1, seed):
        (tmp_path / name).mkdir()
        points = record(story, tmp_path / name)
        chosen = sample(points, None if few is None else few.kills, seed)

        def kill(number: int, point: Point, story: Story = story, name: str = name) -> bool:
            return strike(story, tmp_path / name / f"kill-{number}", Injection(point)).killed

        killed = each(chosen, kill)
        hit.update(point.call for point, did in zip(chosen, killed, strict=True) if did)
        say(f"{name}: {len(points)} points ({table(points)}), {sum(killed)} of {len(chosen)} killed")
        assert sum(killed) > 0.9 * len(chosen)
    say(f"store: killed at {sum(hit.values())} points: {dict(sorted(hit.items()))}")
    record_property("cases", sum(hit.values()))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("few", [SOME, pytest.param(None, marks=pytest.mark.soak)], ids=["some", "all"])
def test_full_and_failing_disk_at_every_call(
    tmp_path: Path, seed: int, few: Few | None, record_property: Count
) -> None:
    hit: Counter[str] = Counter()
    for name, story in sample(list(STORIES.items()), None if few is None else 1, seed):
        (tmp_path / name).mkdir()
        points = record(story, tmp_path / name)
        faults = [
            Injection(point, error, lasting)
            for point in points
            for error in ("ENOSPC", "EIO")
            for lasting in (False, True)
        ]
        chosen = sample(faults, None if few is None else few.errors, seed)

        def fail(number: int, injection: Injection, story: Story = story, name: str = name) -> bool:
            run = strike(story, tmp_path / name / f"error-{number}", injection)
            stops_after_a_failed_sync(run, injection)
            return bool(run.injected)

        done = each(chosen, fail)
        hit.update(str(one.error) for one, did in zip(chosen, done, strict=True) if did)
        say(f"{name}: {len(faults)} faults at {len(points)} points, {sum(done)} of {len(chosen)} happened")
    say(f"store: {dict(hit)}")
    assert hit
    record_property("cases", sum(hit.values()))


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_mark_that_does_not_reach_the_disk_keeps_the_store_shut(tmp_path: Path, story: Story, error: Errno) -> None:
    run = strike(story, tmp_path / "store", Injection(Point("fsync", 1, "store.db.mark"), error))
    assert run.injected == 1, run
    assert run.out.startswith("not-open"), run.out


def stops_after_a_failed_sync(run: Traced, injection: Injection) -> None:
    """The kernel may have dropped what it could not write: asked again, it says all is well."""
    point = injection.point
    # A store that did not open has promised nothing. SQLite syncs a new journal's directory, and goes on without.
    if not run.injected or point.call not in SYNC_CALLS or not run.out.startswith("open") or point.path == ".":
        return
    again = [call for call in run.after_fault() if call.path == point.path]
    assert not again, f"{injection}: tried again\n{run.out}"
    said = run.out.splitlines()
    first = next((n for n, line in enumerate(said) if line.startswith(("unknown", "broken", "not-open"))), len(said))
    assert not [line for line in said[first:] if line.startswith("ok")], f"{injection}: went on\n{run.out}"
