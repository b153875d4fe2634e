"""What every place for audit entries must do, whichever it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ares.adapters.audit.files import FileAudit
from ares.adapters.audit.memory import MemoryAudit
from ares.core.audit.chain import ChainWriter, Walk
from ares.model.audit import AuditDraft, AuditStub
from ares.ports.audit import AuditLog

DAY_S = 86_400.0

Make = Callable[[], AuditLog]


@pytest.fixture(params=["files", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Opens the same chain again, as the next process would, each time."""
    kept = MemoryAudit("c1")

    def files() -> AuditLog:
        return FileAudit(tmp_path, "c1")

    return files if request.param == "files" else lambda: kept


def draft(number: int) -> AuditDraft:
    return AuditDraft(operation=f"op{number}", outcome="ALLOW")


async def add(log: AuditLog, writer: ChainWriter, count: int, at: float = 1e9) -> list[bytes]:
    first = writer.seq + 1
    lines = [writer.line(draft(first + n), at) for n in range(count)]
    await log.append(first, at, lines)
    return lines


def read(log: AuditLog, chain: str = "c1") -> list[bytes]:
    return [line for segment in log.segments(chain) for line in log.lines(segment)]


async def test_lines_come_back_as_they_were_written_and_the_next_process_goes_on(make: Make) -> None:
    log, writer = make(), ChainWriter("r")
    assert await log.open() == 0
    written = await add(log, writer, 3) + await add(log, writer, 2)
    await log.close()
    log = make()
    assert await log.open() == 0
    written += await add(log, writer, 2)
    assert read(log) == written
    assert log.chains() == ["c1"] or log.chains() == ("c1",)
    await log.close()


async def test_segments_are_in_order_and_named_by_their_first_entry(make: Make) -> None:
    log, writer = make(), ChainWriter("r")
    await log.open()
    await add(log, writer, 2, at=1e9)
    await log.close()
    log = make()
    await log.open()
    await add(log, writer, 2, at=1e9 + 5.5)
    assert [(segment.seq, segment.at) for segment in log.segments("c1")] == [(1, 1e9), (3, 1e9 + 5.5)]
    assert log.segments("other") == []
    await log.close()


async def test_a_cut_leaves_a_stub_that_the_rest_follows_and_never_takes_the_newest(make: Make) -> None:
    writer, log = ChainWriter("r"), make()
    for _ in range(3):
        log = make()
        await log.open()
        await add(log, writer, 2)
        await log.close()
    log = make()
    await log.open()
    walk = Walk("c1")
    for line in read(log)[:4]:
        walk.take(line)
    stub = AuditStub(chain="c1", seq=walk.seq, hash=walk.hash, at=2e9)
    assert log.stub("c1") is None
    assert await log.cut(stub) == 2
    assert log.stub("c1") == stub
    rest = Walk("c1", stub)
    for line in read(log):
        rest.take(line)
    assert (rest.broken, rest.seq) == (None, 6)
    everything = AuditStub(chain="c1", seq=6, hash=rest.hash, at=2e9)
    assert await log.cut(everything) == 0
    assert len(read(log)) == 2
    await log.close()


async def test_lines_of_a_segment_that_is_gone_are_none(make: Make) -> None:
    log, writer = make(), ChainWriter("r")
    await log.open()
    await add(log, writer, 1)
    (segment,) = log.segments("c1")
    assert list(log.lines(segment._replace(seq=77))) == []
    await log.close()
