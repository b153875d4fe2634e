"""Offsets, overlaps, gaps and paths of the log files."""

import errno
import os
from pathlib import Path

import pytest

from ares.adapters.logs.files import FileLogs

JOB = "0123456789abcdef"


@pytest.fixture
def logs(tmp_path: Path) -> FileLogs:
    return FileLogs(tmp_path / "logs")


def test_appends_in_order_and_reads_back_any_slice(logs: FileLogs) -> None:
    assert logs.append("acme", JOB, 1, 0, 0, b"hello ") == 6
    assert logs.append("acme", JOB, 1, 0, 6, b"world") == 11
    assert logs.read("acme", JOB, 1, 0, 0, 100) == b"hello world"
    assert logs.read("acme", JOB, 1, 0, 6, 3) == b"wor"
    assert logs.read("acme", JOB, 1, 0, 11, 3) == b""
    assert logs.size("acme", JOB, 1, 0) == 11


@pytest.mark.parametrize(
    ("offset", "data", "kept"),
    [
        (0, b"abc", b"abcdef"),  # a full repeat
        (3, b"def", b"abcdef"),  # a repeat of the end
        (4, b"efgh", b"abcdefgh"),  # an overlap
        (0, b"XXXXXXgh", b"abcdefgh"),  # what was kept is never rewritten
        (6, b"", b"abcdef"),
        (7, b"zzz", b"abcdef"),  # a gap
    ],
)
def test_repeats_overlaps_and_gaps(logs: FileLogs, offset: int, data: bytes, kept: bytes) -> None:
    logs.append("acme", JOB, 1, 0, 0, b"abcdef")
    assert logs.append("acme", JOB, 1, 0, offset, data) == len(kept)
    assert logs.read("acme", JOB, 1, 0, 0, 100) == kept


def test_survives_a_new_process(tmp_path: Path) -> None:
    FileLogs(tmp_path).append("acme", JOB, 1, 0, 0, b"kept")
    assert FileLogs(tmp_path).append("acme", JOB, 1, 0, 4, b" on") == 7


def test_attempts_ranks_and_tenants_are_separate(logs: FileLogs) -> None:
    for attempt, rank in [(1, 0), (2, 0), (2, 10), (2, 3)]:
        logs.append("acme", JOB, attempt, rank, 0, f"{attempt}.{rank}".encode())
    assert logs.ranks("acme", JOB, 2) == (0, 3, 10)
    assert logs.ranks("acme", JOB, 3) == ()
    assert logs.ranks("other", JOB, 2) == ()
    assert logs.read("acme", JOB, 2, 10, 0, 10) == b"2.10"
    assert logs.size("other", JOB, 1, 0) == 0


def test_delete_removes_one_job_and_may_be_repeated(logs: FileLogs) -> None:
    neighbour = JOB[:-1] + "0"
    logs.append("acme", JOB, 1, 0, 0, b"x")
    logs.append("acme", neighbour, 1, 0, 0, b"y")
    logs.delete("acme", JOB)
    logs.delete("acme", JOB)
    assert logs.size("acme", JOB, 1, 0) == 0
    assert logs.size("acme", neighbour, 1, 0) == 1


def test_reading_creates_nothing(tmp_path: Path, logs: FileLogs) -> None:
    logs.read("acme", JOB, 1, 0, 0, 10)
    logs.size("acme", JOB, 1, 0)
    logs.ranks("acme", JOB, 1)
    assert list((tmp_path / "logs").iterdir()) == []


@pytest.mark.parametrize("bad", ["", "..", ".", "a/b", "/etc", "a\0b", "a\n", "a" * 81, "..%2f", "Ä", "-x", "_x"])
def test_only_identifiers_name_a_file(logs: FileLogs, bad: str) -> None:
    for tenant, job in [(bad, JOB), ("acme", bad)]:
        with pytest.raises(ValueError, match="not an identifier"):
            logs.append(tenant, job, 1, 0, 0, b"x")
        with pytest.raises(ValueError, match="not an identifier"):
            logs.read(tenant, job, 1, 0, 0, 1)
        with pytest.raises(ValueError, match="not an identifier"):
            logs.delete(tenant, job)


def test_bad_numbers_are_refused(logs: FileLogs) -> None:
    for attempt, rank, offset in [(-1, 0, 0), (0, -1, 0), (10**10, 0, 0), (0, 0, -1)]:
        with pytest.raises(ValueError, match=r"negative|out of range"):
            logs.append("acme", JOB, attempt, rank, offset, b"x")


def test_links_are_not_followed(tmp_path: Path, logs: FileLogs) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    logs.append("acme", JOB, 1, 0, 0, b"x")
    folder = tmp_path / "logs" / "acme" / JOB[:2] / JOB
    os.symlink(secret, folder / "2-0.log")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        logs.read("acme", JOB, 2, 0, 0, 100)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        logs.append("acme", JOB, 2, 0, 6, b"overwritten")
    os.symlink(tmp_path, tmp_path / "logs" / "linked")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        logs.append("linked", JOB, 1, 0, 0, b"x")
    assert secret.read_bytes() == b"secret"


def test_files_are_private_and_descriptors_are_closed(tmp_path: Path, logs: FileLogs) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for n in range(50):
        logs.append("acme", JOB, 1, 0, n, b"x")
        logs.read("acme", JOB, 1, 0, 0, 100)
        logs.size("acme", JOB, 9, 9)
    assert len(os.listdir("/proc/self/fd")) == before
    file = tmp_path / "logs" / "acme" / JOB[:2] / JOB / "1-0.log"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_output_of_a_time_begins_at_its_minute(logs: FileLogs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "logs" / "acme" / JOB[-2:] / JOB / "1-0.log"

    def at(second: float, offset: int, data: bytes) -> None:
        monkeypatch.setattr("time.time", lambda: second)
        logs.append("acme", JOB, 1, 0, offset, data)
        found = next((tmp_path / "logs").rglob("1-0.log"), file)
        os.utime(found, (second, second))

    at(1000.0, 0, b"first ")
    at(1010.0, 6, b"same minute ")
    assert not list((tmp_path / "logs").rglob("*.times")), "a short job writes no marks"
    at(1200.0, 18, b"later ")
    at(4800.0, 24, b"last")
    since = {second: logs.offset_since("acme", JOB, 1, 0, second) for second in (0.0, 1100.0, 1200.0, 3000.0, 4800.0)}
    assert since == {0.0: 0, 1100.0: 0, 1200.0: 18, 3000.0: 18, 4800.0: 24}
    assert logs.offset_since("acme", JOB, 1, 0, 5000.0) == 28, "nothing was written since"
    assert logs.offset_since("acme", JOB, 2, 0, 0.0) == 0
    assert logs.ranks("acme", JOB, 1) == (0,)
    logs.delete("acme", JOB)
    assert not list((tmp_path / "logs").rglob("*.times"))


def test_stderr_is_told_apart_in_order_and_once(logs: FileLogs, tmp_path: Path) -> None:
    logs.append("acme", JOB, 1, 0, 0, b"out err ", stderr=((4, 8),))
    # A piece that is repeated and goes on: only what is new counts.
    logs.append("acme", JOB, 1, 0, 4, b"err out err", stderr=((4, 8), (12, 15)))
    # What lies outside the piece is not believed.
    logs.append("acme", JOB, 1, 0, 15, b" end", stderr=((0, 3), (15, 16), (18, 900)))
    assert logs.read("acme", JOB, 1, 0, 0, 100) == b"out err out err end"
    assert logs.stderr("acme", JOB, 1, 0, 0, 100) == ((4, 8), (12, 15), (15, 16), (18, 19))
    assert logs.stderr("acme", JOB, 1, 0, 6, 13) == ((6, 8), (12, 13))
    assert logs.stderr("acme", JOB, 1, 0, 8, 12) == ()
    assert logs.ranks("acme", JOB, 1) == (0,)
    logs.delete("acme", JOB)
    assert not list((tmp_path / "logs").rglob("*.err"))


def test_a_record_that_a_full_disk_cut_off_shifts_no_other(
    logs: FileLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.append("acme", JOB, 1, 0, 0, b"out err ", stderr=((4, 8),))
    with monkeypatch.context() as full:
        room, genuine = 5, os.pwrite

        def pwrite(fd: int, data: memoryview, at: int) -> int:
            nonlocal room
            if not os.readlink(f"/proc/self/fd/{fd}").endswith(".err"):
                return genuine(fd, data, at)
            if not room:
                raise OSError(errno.ENOSPC, "No space left on device")
            room -= (written := genuine(fd, data[:room], at))
            return written

        full.setattr(os, "pwrite", pwrite)
        full.setattr(os, "write", lambda fd, data: pwrite(fd, data, os.fstat(fd).st_size))
        logs.append("acme", JOB, 1, 0, 8, b"out err ", stderr=((12, 16),))
    logs.append("acme", JOB, 1, 0, 16, b"out err ", stderr=((20, 24),))
    (index,) = (tmp_path / "logs").rglob("*.err")
    assert index.stat().st_size == 32
    # For one of them there was no room; its bytes are kept.
    assert logs.stderr("acme", JOB, 1, 0, 0, 100) == ((4, 8), (20, 24))
    assert logs.read("acme", JOB, 1, 0, 0, 100) == b"out err " * 3


def test_ranges_of_an_agent_that_lies_stay_in_order_and_apart(logs: FileLogs) -> None:
    ranges = ((12, 16), (0, 4), (2, 2), (14, 20), (24, 18), (40, 2**70), (0, 32))
    logs.append("acme", JOB, 1, 0, 0, b"out err " * 4, stderr=ranges)
    assert logs.stderr("acme", JOB, 1, 0, 0, 100) == ((12, 16), (16, 20), (20, 32))
    assert logs.stderr("acme", JOB, 1, 0, 0, 12) == ()
    assert logs.stderr("acme", JOB, 1, 0, 18, 22) == ((18, 20), (20, 22))


def test_a_log_of_an_earlier_version_is_all_stdout(logs: FileLogs) -> None:
    logs.append("acme", JOB, 1, 0, 0, b"whatever it was")
    assert logs.stderr("acme", JOB, 1, 0, 0, 100) == ()
    assert logs.stderr("acme", JOB, 7, 0, 0, 100) == ()


def test_the_index_of_stderr_is_bounded(logs: FileLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.adapters.logs.files._RANGES_MAX", 10)
    for n in range(30):
        logs.append("acme", JOB, 1, 0, 2 * n, b"oe", stderr=((2 * n + 1, 2 * n + 2),))
    (index,) = (tmp_path / "logs").rglob("*.err")
    assert index.stat().st_size == 160
    assert len(logs.stderr("acme", JOB, 1, 0, 0, 100)) == 10
    assert logs.size("acme", JOB, 1, 0) == 60
