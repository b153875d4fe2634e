"""Audit chains in files when the disk does not do what it is asked, and when several processes want the same."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ares.adapters.audit.files import FileAudit, FileHeads, read_heads
from ares.adapters.audit.signing import key_file
from ares.core.audit.chain import ChainWriter, Walk
from ares.model.audit import AuditDraft, AuditHead
from ares.ports.audit import AuditUnavailable

DAY_S = 86_400.0


def lines(writer: ChainWriter, count: int) -> list[bytes]:
    return [writer.line(AuditDraft(operation="x", outcome="ALLOW"), 1e9) for _ in range(count)]


def whole(log: FileAudit, chain: str) -> int:
    """How many entries hold."""
    walk = Walk(chain)
    for segment in log.segments(chain):
        for line in log.lines(segment):
            walk.take(line)
    assert walk.broken is None, walk.broken
    return walk.seq


@pytest.mark.parametrize(("call", "code", "full"), [("write", errno.ENOSPC, True), ("fdatasync", errno.EIO, False)])
async def test_nothing_of_a_write_that_failed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, full: bool
) -> None:
    log, writer = FileAudit(tmp_path, "c"), ChainWriter("c")
    await log.open()
    await log.append(1, 1e9, lines(writer, 2))
    place = writer.place
    real = os.write

    def fails(fd: int, *data: bytes) -> int:
        if data:
            # Some of it gets to the disk.
            real(fd, bytes(data[0])[:50])
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        for _ in range(2):
            with pytest.raises(AuditUnavailable) as refused:
                await log.append(3, 1e9, lines(writer, 1))
            assert refused.value.full is full
            writer.back(place)
    await log.append(3, 1e9, lines(writer, 2))
    assert whole(log, "c") == 4
    await log.close()
    again = FileAudit(tmp_path, "c")
    assert await again.open() == 0
    assert whole(again, "c") == 4
    await again.close()


async def test_a_torn_line_is_cut_off_by_the_next_process(tmp_path: Path) -> None:
    log, writer = FileAudit(tmp_path, "c"), ChainWriter("c")
    await log.open()
    await log.append(1, 1e9, lines(writer, 3))
    await log.close()
    (path,) = (tmp_path / "c").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-7])
    again = FileAudit(tmp_path, "c")
    assert await again.open() > 0
    assert whole(again, "c") == 2
    await again.close()


async def test_a_chain_is_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    first, second = FileAudit(tmp_path, "c"), FileAudit(tmp_path, "c")
    await first.open()
    await second.open()
    assert (first.chain, second.chain) == ("c", "c-2")
    await first.close()
    third = FileAudit(tmp_path, "c")
    await third.open()
    assert third.chain == "c"
    await second.close()
    await third.close()


async def test_segments_end_with_the_day_and_with_their_size(tmp_path: Path) -> None:
    log, writer = FileAudit(tmp_path, "c", segment_bytes=1000), ChainWriter("c")
    await log.open()
    for at in (DAY_S * 10, DAY_S * 10 + 1, DAY_S * 11):
        await log.append(writer.seq + 1, at, lines(writer, 1))
    assert [segment.seq for segment in log.segments("c")] == [1, 3]
    await log.append(writer.seq + 1, DAY_S * 11, lines(writer, 8))
    await log.append(writer.seq + 1, DAY_S * 11, lines(writer, 1))
    assert [segment.seq for segment in log.segments("c")] == [1, 3, 12]
    assert whole(log, "c") == 12
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "c").glob("*.jsonl"))
    await log.close()


_MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "free", "room"),
    [
        (1 << 40, 16 * _MIB, True),
        (1 << 40, 16 * _MIB - 1, False),
        # A small disk is no full one.
        (_MIB, _MIB // 20, True),
        (_MIB, _MIB // 20 - 1, False),
        (_MIB, 0, False),
    ],
)
def test_little_room_is_said_before_there_is_none(tmp_path: Path, size: int, free: int, room: bool) -> None:
    disk = cast("os.statvfs_result", SimpleNamespace(f_frsize=1, f_blocks=size, f_bavail=free))
    assert FileAudit(tmp_path, "c", statvfs=lambda _: disk).has_room() is room


def test_a_disk_that_cannot_be_looked_at_has_no_room(tmp_path: Path) -> None:
    assert not FileAudit(tmp_path / "missing", "c").has_room()


async def test_a_directory_that_cannot_be_made_is_said_to_be_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditUnavailable):
        await FileAudit(tmp_path / "file", "c").open()


def test_a_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "audit.key"
    first = key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["audit.key"]
    again = key_file(path)
    assert again.public == first.public
    signature = first.sign(b"text")
    assert again.verify(first.public, b"text", signature)
    assert not again.verify(first.public, b"test", signature)
    assert not again.verify("nonsense", b"text", signature)
    assert not again.verify(first.public, b"text", "nonsense")


def test_heads_are_copied_to_a_file_or_into_a_directory(tmp_path: Path) -> None:
    heads = [AuditHead(chain=chain, seq=seq, hash="0" * 64, at=1.0) for chain, seq in (("a", 1), ("a", 2), ("b", 1))]
    for where in (tmp_path / "heads", tmp_path):
        for head in heads:
            FileHeads(where).keep(head)
        assert read_heads(where) == heads
    assert (tmp_path / "b.heads.jsonl").exists()
