"""Decisions on disk: found after a restart, bounded, whole or not there, and never in the way."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.adapters.decisions import FileDecisions


class Dropped:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, count: int) -> None:
        self.count += count


def log(folder: Path, **limits: int) -> tuple[FileDecisions, Dropped]:
    dropped = Dropped()
    return FileDecisions(folder, dropped, **limits), dropped


def text(body: str) -> Callable[[], bytes]:
    return body.encode


def segments(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def test_found_by_both_names_after_a_restart_the_newest_first(tmp_path: Path) -> None:
    one, _ = log(tmp_path)
    one.append("d1", "job-a", text("first"))
    one.append("d1", "job-b", text("other"))
    one.append("d2", "job-a", text("second"))
    one.close()
    two, _ = log(tmp_path)
    assert await two.find("job-a") == b"second"
    assert await two.find("d1") == b"other"
    assert await two.find("d2") == b"second"
    assert await two.find("job") is None
    two.append("d3", "job-a", text("third"))
    two.close()
    assert await two.find("job-a") == b"third"


@pytest.mark.parametrize("cut", [1, 9, 20])
async def test_a_torn_tail_costs_the_last_record_only(tmp_path: Path, cut: int) -> None:
    one, _ = log(tmp_path)
    one.append("d1", "job-a", text("whole"))
    one.append("d2", "job-b", text("torn"))
    one.close()
    (segment,) = segments(tmp_path)
    segment.write_bytes(segment.read_bytes()[:-cut])
    two, _ = log(tmp_path)
    two.append("d3", "job-c", text("after"))
    two.close()
    assert await two.find("job-a") == b"whole"
    assert await two.find("job-b") is None
    assert await two.find("job-c") == b"after"


async def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    one, _ = log(tmp_path)
    one.append("d1", "job-a", text("whole"))
    one.append("d2", "job-b", text("changed"))
    one.close()
    (segment,) = segments(tmp_path)
    data = bytearray(segment.read_bytes())
    data[-3] ^= 0xFF
    segment.write_bytes(data)
    assert await one.find("job-a") == b"whole"
    assert await one.find("job-b") is None


async def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    one, dropped = log(tmp_path, total_bytes=4000, segment_bytes=1000)
    bodies = [bytes((n * 7 + i * 31) % 251 for i in range(300)) for n in range(40)]
    for n, body in enumerate(bodies):
        one.append(f"d{n}", f"job-{n}", lambda body=body: body)
    one.close()
    assert sum(path.stat().st_size for path in segments(tmp_path)) <= 4000
    assert await one.find("job-0") is None
    assert await one.find("job-39") == bodies[39]
    assert dropped.count == 0


async def test_where_nothing_can_be_written_decisions_are_dropped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    one, dropped = log(tmp_path / "taken")
    for n in range(5):
        one.append(f"d{n}", "job-a", text("x"))
    one.close()
    assert dropped.count == 5
    assert await one.find("job-a") is None


async def test_a_slow_disk_holds_nobody_up(tmp_path: Path) -> None:
    one, dropped = log(tmp_path)
    disk = threading.Event()

    def stuck() -> bytes:
        disk.wait()
        return b"late"

    one.append("d0", "job-a", stuck)
    for n in range(5000):
        one.append(f"d{n}", "job-b", text("x"))
    assert dropped.count > 0
    disk.set()
    one.close()
    assert await one.find("job-a") == b"late"


async def test_a_body_that_cannot_be_made_costs_itself_only(tmp_path: Path) -> None:
    one, dropped = log(tmp_path)

    def broken() -> bytes:
        raise TypeError("no")

    one.append("d1", "job-a", broken)
    one.append("d2", "job-b", text("fine"))
    one.close()
    assert (dropped.count, await one.find("job-b")) == (1, b"fine")
