"""The file of series shares the disk of the store: it never takes what the store needs."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.adapters.disk import Reserve
from ares.adapters.telemetry.series_file import SeriesFile, encoded
from ares.core.series import SeriesRings

MIB = 1 << 20


def with_free(path: Path, free: int) -> Callable[[int], None]:
    """1 MiB is reserved on a disk of 100 MiB; so many bytes of it are free."""
    return Reserve(path, 1, 0, lambda _: os.statvfs_result((1, 1, 100 * MIB, free, free, 0, 0, 0, 0, 255))).take


def test_room_of_the_store_is_left_alone(tmp_path: Path) -> None:
    path, rings = tmp_path / "series.npz", SeriesRings()
    size = len(encoded(rings))
    SeriesFile(path, with_free(tmp_path, MIB + size - 1)).save(rings)
    assert list(tmp_path.iterdir()) == []
    SeriesFile(path, with_free(tmp_path, MIB + size)).save(rings)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("free", [0, 50 * MIB], ids=["no-room", "a-disk-that-fails"])
def test_what_failed_leaves_the_file_as_it_was_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    path, rings = tmp_path / "series.npz", SeriesRings()
    SeriesFile(path, with_free(tmp_path, 50 * MIB)).save(rings)
    before = path.read_bytes()
    # Of a process that was killed while it wrote.
    (tmp_path / "series.new").write_bytes(bytes(1000))

    def fails(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    SeriesFile(path, with_free(tmp_path, free)).save(rings)
    assert [file.name for file in tmp_path.iterdir()] == ["series.npz"]
    assert path.read_bytes() == before
