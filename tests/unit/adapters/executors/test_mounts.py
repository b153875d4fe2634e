"""Hidden files that come, or are replaced, while a slot is in use."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.adapters.executors.warden import kernel, mounts


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[[mounts.MountRoom], list[str]]:
    """The paths that a slot looks at for its next attempt, seconds later."""
    seen: list[str] = []
    now = [kernel.boottime()]
    monkeypatch.setattr(mounts, "_mask", seen.append)
    monkeypatch.setattr(kernel, "boottime", lambda: now[0])

    def looked(room: mounts.MountRoom) -> list[str]:
        now[0] += 5.0
        seen.clear()
        room.lend(())
        return list(seen)

    return looked


def _settled(folder: Path, seconds_ago: float = 60.0) -> None:
    then = time.time() - seconds_ago
    os.utime(folder, (then, then))


def test_files_are_looked_at_when_their_directory_changed(
    tmp_path: Path, look: Callable[[mounts.MountRoom], list[str]]
) -> None:
    keys, other = tmp_path / "keys", tmp_path / "missing"
    keys.mkdir()
    _settled(keys)
    paths = [str(keys / "a"), str(keys / "b"), str(other / "c")]
    room = mounts.MountRoom(masked=paths)

    assert look(room) == paths
    assert look(room) == []
    # A key that is new, and later replaced.
    (keys / "a").write_text("one")
    _settled(keys, 50.0)
    assert look(room) == paths[:2]
    (keys / "next").write_text("two")
    (keys / "next").rename(keys / "a")
    _settled(keys, 40.0)
    assert look(room) == paths[:2]
    assert look(room) == []
    # A directory that did not exist, and one that took the place of another.
    other.mkdir()
    _settled(other)
    assert look(room) == paths[2:]
    keys.rename(tmp_path / "old")
    keys.mkdir()
    _settled(keys, 40.0)
    assert look(room) == paths[:2]


def test_a_directory_that_changed_just_now_is_looked_at_again(
    tmp_path: Path, look: Callable[[mounts.MountRoom], list[str]]
) -> None:
    """It may change once more within the same tick of its clock."""
    room = mounts.MountRoom(masked=[str(tmp_path / "a")])
    _settled(tmp_path, 0.0)
    assert look(room) == look(room) == [str(tmp_path / "a")]
