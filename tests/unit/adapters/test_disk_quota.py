"""What is reserved on a disk is never touched by what jobs leave behind, and no tenant takes all of the rest."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ares.adapters.blobs.files import FileBlobs
from ares.adapters.decisions import FileDecisions
from ares.adapters.disk import DiskShares, Reserve, TenantRoom
from ares.adapters.logs.files import FileLogs
from ares.model.link import AttemptRef
from ares.model.state import Fence
from tests.platform import eventually

MIB = 1 << 20
JOB = "0123456789abcdef"
REF = AttemptRef(job=JOB, tenant="acme", fence=Fence(epoch=1, counter=1))
SHA = "0" * 64


class Disk:
    """A disk of 100 GiB."""

    def __init__(self) -> None:
        self.free_mib = 50 * 1024
        self.total_mib = 100 * 1024
        self.files_free, self.files = 1_000_000, 6_000_000

    def statvfs(self, _: Path) -> os.statvfs_result:
        shown = SimpleNamespace(
            f_frsize=4096, f_bavail=self.free_mib * 256, f_blocks=self.total_mib * 256,
            f_favail=self.files_free, f_files=self.files,
        )  # fmt: skip
        return cast("os.statvfs_result", shown)


@pytest.fixture
def disk() -> Disk:
    return Disk()


def _reserve(disk: Disk, mib: int = 1024, files: int = 10_000) -> Reserve:
    return Reserve(Path("/"), mib, files, disk.statvfs)


def test_bytes_and_files_are_reserved(disk: Disk) -> None:
    reserve = _reserve(disk)
    assert reserve.short() == ""
    disk.free_mib = 1025
    reserve.take(MIB)
    with pytest.raises(OSError, match="1,025 MiB are left"):
        reserve.take(2 * MIB)
    # It is short of what was wanted, until there is room for that.
    assert "1,025 MiB are left" in reserve.short()
    disk.free_mib = 1026
    assert reserve.short() == ""
    disk.free_mib = 1023
    assert "1,024 MiB are reserved" in reserve.short()
    disk.free_mib, disk.files_free = 5000, 10_000
    assert "10,000 files can be made" in reserve.short()
    # Where the file system counts no files, only bytes are looked at.
    disk.files = 0
    assert reserve.short() == ""


def test_the_reserve_of_a_small_disk_is_a_tenth_of_it(disk: Disk) -> None:
    disk.total_mib, disk.free_mib = 1000, 101
    assert _reserve(disk).short() == ""
    disk.free_mib = 99
    assert "100 MiB are reserved" in _reserve(disk).short()


def _files(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


async def test_logs_outputs_and_decisions_stop_at_the_reserve(tmp_path: Path, disk: Disk) -> None:
    room = TenantRoom(_reserve(disk))
    dropped = list[int]()
    logs, blobs = FileLogs(tmp_path / "logs", room), FileBlobs(tmp_path / "outputs", room)
    decisions = FileDecisions(tmp_path / "decisions", dropped.append, room=room)
    assert logs.append("acme", JOB, 1, 0, 0, b"one\n") == 4
    disk.free_mib = 1024
    before = _files(tmp_path)
    with pytest.raises(OSError, match="reserved for the store"):
        logs.append("acme", JOB, 1, 0, 4, b"two\n")
    with pytest.raises(OSError, match="reserved for the store"):
        logs.append("acme", JOB, 2, 0, 0, b"two\n")
    with pytest.raises(OSError, match="reserved for the store"):
        await blobs.append(REF, SHA, 0, b"data")
    decisions.append("d", JOB, lambda: b"why")
    decisions.close()
    assert dropped == [1]
    # Nothing was made, not even a folder.
    assert _files(tmp_path) == before
    # A line of Ares' own is always written, and what is kept is told.
    assert logs.append("acme", JOB, 1, 0, 4, b"", note=False) == 4
    assert logs.append("acme", JOB, 1, 0, 4, b"[ares]\n", note=True) == 11
    disk.free_mib = 2048
    assert logs.append("acme", JOB, 1, 0, 11, b"three\n") == 17
    assert await blobs.append(REF, SHA, 0, b"data") == 4


class _Still(DiskShares):
    """Without walks beside the test: what is written while one goes on would count twice."""

    def _keep_counting(self) -> None:
        return


def _shares(root: Path, **limits: int) -> DiskShares:
    return _Still(root, limits.get("mib_max", 1), limits.get("files_max", 100))


async def test_a_tenant_holds_only_so_much_and_others_go_on(tmp_path: Path, disk: Disk) -> None:
    logs = FileLogs(tmp_path / "logs", TenantRoom(_reserve(disk), _shares(tmp_path / "logs")))
    assert logs.append("acme", JOB, 1, 0, 0, bytes(MIB - 10)) == MIB - 10
    with pytest.raises(OSError, match=r"tenant acme holds [01] MiB of 1 MiB") as refused:
        logs.append("acme", JOB, 1, 0, MIB - 10, b"x" * 11)
    assert refused.value.errno == errno.EDQUOT
    assert logs.append("other", JOB, 1, 0, 0, b"mine") == 4
    # What is removed may be used again.
    logs.delete("acme", JOB)
    assert logs.append("acme", JOB, 1, 0, 0, bytes(MIB)) == MIB
    blobs = FileBlobs(tmp_path / "outputs", TenantRoom(_reserve(disk), _shares(tmp_path / "outputs")))
    assert await blobs.append(REF, SHA, 0, bytes(MIB)) == MIB
    with pytest.raises(OSError, match="tenant acme holds 1 MiB of 1 MiB"):
        await blobs.append(REF, SHA, MIB, b"x")
    await blobs.keep_only("acme", JOB, None)
    assert await blobs.append(REF, SHA, 0, b"x") == 1


def test_files_of_a_tenant_are_counted_too(tmp_path: Path, disk: Disk) -> None:
    logs = FileLogs(tmp_path, TenantRoom(_reserve(disk), _shares(tmp_path, files_max=3)))
    for rank in range(3):
        logs.append("acme", JOB, 1, rank, 0, b"x")
    with pytest.raises(OSError, match="holds 3 files"):
        logs.append("acme", JOB, 1, 3, 0, b"x")


def test_what_is_there_already_counts(tmp_path: Path, disk: Disk) -> None:
    FileLogs(tmp_path).append("acme", JOB, 1, 0, 0, bytes(MIB))
    shares: Any = DiskShares(tmp_path, 1, 100)
    eventually(lambda: shares._used.get("acme"), "the first walk", 30.0)
    with pytest.raises(OSError, match="tenant acme holds 1 MiB"):
        FileLogs(tmp_path, TenantRoom(_reserve(disk), shares)).append("acme", JOB, 2, 0, 0, b"x")


def test_no_tenant_holds_more_than_half_of_a_disk(tmp_path: Path, disk: Disk) -> None:
    disk.total_mib, disk.free_mib = 4, 4
    logs = FileLogs(tmp_path, TenantRoom(_reserve(disk), _shares(tmp_path, mib_max=1000)))
    logs.append("acme", JOB, 1, 0, 0, bytes(2 * MIB))
    with pytest.raises(OSError, match="of 2 MiB that it may"):
        logs.append("acme", JOB, 1, 0, 2 * MIB, b"x")
