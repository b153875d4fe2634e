"""Tailing an attempt's output."""

import errno
import os
from pathlib import Path

import pytest

from ares.agent.files.spool import CHUNK_BYTES_MAX, WINDOW_BYTES, OutputPace, Tail
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
    assert tail.chunk() == (0, b"0123456789")
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
    assert tail.chunk() == (4, b"456789")
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
        assert tail.chunk() == (0, b"0123456789")
        tail.rest(0, now)
        began = now
        while not tail.wake(now, 60.0):
            now += 0.5
        pauses.append(now - began)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]
    tail.finish()
    assert tail.chunk() == (0, b"0123456789")
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
    assert tail.chunk() == (0, b"0123456789")
    tail.finish()
    tail.rest(10, 100.0)
    assert not tail.drained
    assert tail.wake(101.0, 60.0)
    assert tail.poll()
    assert tail.chunk() == (10, b"")
    assert tail.drained
