"""Tailing an attempt's output."""

import errno
import os
from pathlib import Path

import pytest

from ares.agent.files.spool import CHUNK_BYTES_MAX, WINDOW_BYTES, OutputPace, Tail
from ares.model.link import STDERR_RANGES_MAX
from ares.ports.executor import STDERR_INDEX, STDERR_RECORD, STDERR_UNKNOWN
from tests.clocks import ManualClock

CAP = 4 * WINDOW_BYTES


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def drain(tail: Tail) -> bytes:
    """Everything the window lets through, checked for gaps."""
    got, at = b"", None
    while (piece := tail.chunk()) is not None:
        assert at is None or piece[0] == at
        assert 0 < len(piece[1]) <= CHUNK_BYTES_MAX
        at = piece[0] + len(piece[1])
        got += piece[1]
    return got


def test_a_silent_attempt_is_settled_at_once(log: Path) -> None:
    for make in (False, True):
        if make:
            log.touch()
        tail = Tail(str(log), CAP)
        assert not tail.poll()
        tail.finish()
        assert tail.drained
        assert tail.settled


def test_the_window_holds_back_what_is_not_acknowledged(log: Path) -> None:
    log.write_bytes(bytes(range(256)) * (3 * WINDOW_BYTES // 256))
    tail = Tail(str(log), CAP)
    assert tail.poll()
    assert len(drain(tail)) == WINDOW_BYTES
    tail.acked(1000)
    assert len(drain(tail)) == 1000
    tail.finish()
    assert not tail.drained
    tail.acked(WINDOW_BYTES + 1000)
    drain(tail)
    tail.acked(2 * WINDOW_BYTES + 1000)
    drain(tail)
    assert tail.drained
    assert not tail.settled
    tail.acked(3 * WINDOW_BYTES)
    assert tail.settled
    tail.close()


def test_a_new_session_repeats_what_was_not_acknowledged(log: Path) -> None:
    log.write_bytes(b"0123456789")
    tail = Tail(str(log), CAP)
    tail.poll()
    drain(tail)
    tail.acked(4)
    tail.rewind()
    assert drain(tail) == b"456789"
    tail.close()


def test_a_replica_that_has_nothing_gets_everything(log: Path) -> None:
    log.write_bytes(b"0123456789")
    tail = Tail(str(log), CAP)
    tail.poll()
    drain(tail)
    tail.acked(10)
    tail.acked(0)
    assert drain(tail) == b"0123456789"
    tail.close()


def test_beyond_the_cap_the_disk_stays_bounded_and_the_reader_is_told(log: Path) -> None:
    tail = Tail(str(log), 100)
    with log.open("ab") as writer:
        for _ in range(50):
            writer.write(b"x" * 40)
            writer.flush()
            tail.poll()
            assert log.stat().st_size <= 100
    tail.finish()
    got = drain(tail)
    note = b"\n[ares: output beyond 100 bytes was dropped]\n[ares: 1,900 bytes of it in all]\n"
    assert got == b"x" * 100 + note
    tail.acked(len(got))
    assert tail.settled
    tail.close()


def test_a_job_that_cuts_or_replaces_its_log_harms_nobody(log: Path, tmp_path: Path) -> None:
    log.write_bytes(b"x" * 1000)
    tail = Tail(str(log), CAP)
    tail.poll()
    log.write_bytes(b"")
    assert tail.chunk() is None
    tail.finish()
    assert tail.drained
    tail.close()
    (tmp_path / "secret").write_bytes(b"secret")
    log.unlink()
    log.symlink_to(tmp_path / "secret")
    other = Tail(str(log), CAP)
    assert not other.poll()


@pytest.mark.parametrize(("call", "kept"), [("ftruncate", 100), ("pread", 0)])
def test_a_failing_disk_ends_the_output_with_a_note_and_nothing_else(
    log: Path, monkeypatch: pytest.MonkeyPatch, call: str, kept: int
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log.write_bytes(b"x" * 200)
    tail = Tail(str(log), 100)
    monkeypatch.setattr(os, call, broken)
    assert tail.poll()
    note = f"\n[ares: output beyond {kept} bytes is lost: Input/output error]\n".encode()
    assert drain(tail) == b"x" * kept + note
    tail.finish()
    assert tail.drained
    tail.acked(kept + len(note))
    assert tail.settled
    tail.close()


async def test_what_comes_too_fast_is_dropped_and_counted_where_it_is_missing(log: Path) -> None:
    """N46: two seconds' worth at once, then as much as time allows; a program that calms down is heard again."""
    clock = ManualClock()
    tail = Tail(str(log), 100_000, OutputPace(clock, 100))
    with open(log, "ab") as writer:  # noqa: ASYNC230 - a file of a few bytes
        for size, after_s in ((500, 0.0), (300, 1.0), (50, 1.0)):
            await clock.advance(after_s)
            writer.write(b"x" * size)
            writer.flush()
            tail.poll()
    tail.finish()
    note = "\n[ares: {} bytes of output were dropped: too many at once]\n"
    assert drain(tail).decode() == "x" * 200 + note.format(300) + "x" * 100 + note.format(200) + "x" * 50
    tail.close()


def test_what_the_other_side_cannot_keep_rests_and_goes_out_again(log: Path) -> None:
    log.write_bytes(b"0123456789")
    tail = Tail(str(log), CAP)
    tail.poll()
    assert tail.chunk() == (0, b"0123456789", ())
    tail.finish()
    assert tail.drained
    tail.rest(4, 100.0)
    # Of what is under way more may come back.
    tail.rest(4, 100.1)
    assert tail.chunk() is None
    assert not tail.poll()
    assert not tail.drained
    assert not tail.wake(100.4, 60.0)
    assert tail.wake(100.5, 60.0)
    assert tail.chunk() == (4, b"456789", ())
    assert tail.drained
    tail.acked(10)
    assert tail.settled
    assert tail.lost == 0


def test_pauses_grow_to_a_bound_and_after_the_end_patience_does_not_last_for_ever(log: Path) -> None:
    log.write_bytes(b"0123456789")
    tail = Tail(str(log), CAP)
    tail.poll()
    now, pauses = 100.0, list[float]()
    for _ in range(8):
        assert tail.chunk() == (0, b"0123456789", ())
        tail.rest(0, now)
        began = now
        while not tail.wake(now, 60.0):
            now += 0.5
        pauses.append(now - began)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]
    tail.finish()
    assert tail.chunk() == (0, b"0123456789", ())
    tail.rest(3, now)
    ended = now
    while not tail.lost:
        now += 0.5
        if tail.wake(now, 60.0) and not tail.lost:
            assert tail.chunk() is not None
            tail.rest(3, now)
    assert 60.0 <= now - ended <= 61.0
    assert tail.lost == 7
    assert tail.drained
    assert tail.settled


def test_a_log_that_has_shrunk_asks_whether_all_is_kept(log: Path) -> None:
    log.write_bytes(b"0123456789")
    tail = Tail(str(log), CAP)
    tail.poll()
    assert tail.chunk() == (0, b"0123456789", ())
    tail.finish()
    tail.rest(10, 100.0)
    assert not tail.drained
    assert tail.wake(101.0, 60.0)
    assert tail.poll()
    assert tail.chunk() == (10, b"", ())
    assert tail.drained


# ---- stderr


def index(log: Path, *records: tuple[int, int]) -> None:
    Path(f"{log}{STDERR_INDEX}").write_bytes(b"".join(STDERR_RECORD.pack(*record) for record in records))


def test_pieces_say_what_was_written_to_stderr(log: Path) -> None:
    log.write_bytes(b"out err out err ")
    index(log, (4, 4), (12, 4))
    tail = Tail(str(log), CAP)
    assert tail.poll()
    assert tail.chunk() == (0, b"out err out err ", ((4, 8), (12, 16)))
    log.write_bytes(b"out err out err err more")
    # The last record has grown.
    index(log, (4, 4), (12, 8))
    tail.poll()
    assert tail.chunk() == (16, b"err more", ((16, 20),))
    tail.rewind()
    assert tail.chunk() == (0, b"out err out err err more", ((4, 8), (12, 20)))
    tail.acked(18)
    tail.rewind()
    assert tail.chunk() == (18, b"r more", ((18, 20),))
    # The control plane has lost what it had.
    tail.acked(3)
    assert tail.chunk() == (3, b" err out err err more", ((4, 8), (12, 20)))
    tail.close()


def test_bytes_wait_until_it_is_known_which_they_are(log: Path) -> None:
    """The executor announces a write, writes, and says where it was: what is read in between is no stdout."""
    log.write_bytes(b"out ")
    index(log, (4, STDERR_UNKNOWN))
    tail = Tail(str(log), CAP)
    tail.poll()
    assert tail.chunk() == (0, b"out ", ())
    log.write_bytes(b"out more err")
    assert tail.poll()
    assert tail.chunk() is None
    index(log, (9, 3))
    tail.poll()
    assert tail.chunk() == (4, b"more err", ((9, 12),))
    tail.close()


def test_an_announced_write_that_never_came_holds_nothing_back_at_the_end(log: Path) -> None:
    log.write_bytes(b"out more")
    index(log, (4, STDERR_UNKNOWN))
    tail = Tail(str(log), CAP)
    tail.poll()
    assert drain(tail) == b"out "
    tail.finish()
    assert drain(tail) == b"more"
    assert tail.drained


def test_output_that_was_dropped_leaves_no_ranges(log: Path) -> None:
    clock = ManualClock()
    log.write_bytes(b"e" * 100)
    index(log, (0, 100))
    tail = Tail(str(log), 100_000, OutputPace(clock, 100))
    tail.poll()
    log.write_bytes(b"e" * 1000)
    index(log, (0, 1000))
    tail.poll()
    size = log.stat().st_size
    piece = tail.chunk()
    assert piece is not None
    assert size < 1000
    # The line that says so is no part of stderr.
    assert piece[2] == ((0, piece[1].index(b"\n[ares")),)
    tail.close()


def test_an_index_of_the_jobs_own_making_does_no_harm(log: Path) -> None:
    log.write_bytes(b"out")
    path = Path(f"{log}{STDERR_INDEX}")
    for spoiled in (b"\xff" * 15, b"\xff" * 48, b"\x00" * 160, os.urandom(1600)):
        path.write_bytes(spoiled)
        tail = Tail(str(log), CAP)
        tail.poll()
        tail.finish()
        assert drain(tail) == b"out"
        tail.close()
    path.unlink()
    path.symlink_to("/etc/passwd")
    tail = Tail(str(log), CAP)
    tail.poll()
    assert tail.chunk() == (0, b"out", ())
    tail.close()


def test_records_that_go_to_and_fro_hold_nothing_back(log: Path) -> None:
    """A log that is never sent to its end would keep the report of the attempt's end for ever."""
    log.write_bytes(b"output")
    index(log, *((number % 2, 2**40) for number in range(2 * STDERR_RANGES_MAX + 4)))
    tail = Tail(str(log), CAP)
    tail.poll()
    tail.finish()
    assert tail.chunk() == (0, b"output", ((0, 6),))
    assert tail.drained
    tail.close()


def test_stderr_stays_stderr_after_the_job_cut_its_log(log: Path) -> None:
    log.write_bytes(b"out err ")
    index(log, (4, 4))
    tail = Tail(str(log), CAP)
    tail.poll()
    assert tail.chunk() == (0, b"out err ", ((4, 8),))
    log.write_bytes(b"o err err out")
    index(log, (4, 4), (2, 8))
    tail.poll()
    assert tail.chunk() == (8, b"r out", ((8, 10),))
    tail.close()


def test_a_piece_has_no_more_ranges_than_a_message(log: Path) -> None:
    count = STDERR_RANGES_MAX + 10
    log.write_bytes(b"oe" * count)
    index(log, *((2 * n + 1, 1) for n in range(count)))
    tail = Tail(str(log), CAP)
    tail.poll()
    first, second = tail.chunk(), tail.chunk()
    assert first is not None
    assert second is not None
    assert (len(first[2]), len(second[2])) == (STDERR_RANGES_MAX, 10)
    assert first[1] + second[1] == b"oe" * count
    tail.close()
