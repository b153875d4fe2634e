"""Output of loud attempts, on a stream of its own: in order, once, before the report of the end, whatever breaks."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from ares.agent.files.log_shipping import Shipping
from ares.agent.files.spool import Tail
from ares.agent.link.loud_logs import INLINE_BYTES, INLINE_FRAME_BYTES
from ares.agent.link.loud_sender import LoudSender
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.outbox import Key
from ares.agent.link.workload import Workload
from ares.model.link import AttemptRef, Exited, LogAck, LogChunk
from ares.model.state import ExitInfo, Fence
from ares.model.telemetry.log_stream import LogAcks, LogFrame, LogHello, LogMessage
from ares.ports.link import LinkBroken, LinkRefused
from tests.clocks import ManualClock, SeededRng


@dataclass
class Talker:
    path: Path
    job: str
    number: int = 1
    upload: None = None
    final: int | None = None
    writes: bool = True
    wrote: bytes = b""
    tail: Tail = field(init=False)

    def __post_init__(self) -> None:
        self.tail = Tail(str(self.path), 1 << 30)

    @property
    def key(self) -> Key:
        return AttemptRef(job=self.job, tenant="t", fence=Fence(counter=1)), 0

    def says(self, data: bytes) -> None:
        self.wrote += data
        with self.path.open("ab") as file:
            file.write(data)


class Kept:
    """The control plane's logs: takes what follows what it has, tells trouble otherwise."""

    def __init__(self) -> None:
        self.logs: dict[str, bytes] = {}
        self.troubles = 0

    def take(self, chunk: LogChunk) -> LogAck:
        log = self.logs.setdefault(chunk.ref.job, b"")
        if chunk.offset > len(log):
            self.troubles += 1
            return LogAck(ref=chunk.ref, rank=chunk.rank, offset=len(log), trouble="a gap")
        self.logs[chunk.ref.job] = log[: chunk.offset] + chunk.data + log[chunk.offset + len(chunk.data) :]
        return LogAck(ref=chunk.ref, rank=chunk.rank, offset=chunk.offset + len(chunk.data))


class Node:
    """Both ends: an agent's mailbox and its sender, and a control plane that keeps what comes."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.mailbox, self.kept = ManualClock(), Mailbox(), Kept()
        self.mailbox.loud.offered = True
        self.shipping = Shipping(self.mailbox, self.clock, 60.0)
        self.folder = folder
        self.live: dict[Key, Talker] = {}
        self.ended: list[str] = []
        self.lines = 0
        # Frames until the open stream breaks; and whether streams are refused.
        self.breaks_after: int | None = None
        self.refuses = False
        self.on_line = self.in_session = 0

    def talker(self, job: str) -> Talker:
        talker = Talker(self.folder / job, job)
        self.live[talker.key] = talker
        self.mailbox.watch(talker)
        return talker

    def end(self, talker: Talker) -> None:
        talker.tail.finish()
        talker.writes = False
        talker.final = self.mailbox.outbox.number()
        if not talker.tail.drained:
            self.mailbox.output(talker)
        ref, rank = talker.key
        self.mailbox.report(Exited(number=talker.final, ref=ref, rank=rank, exit=ExitInfo(code=0), at=1.0))

    def look(self) -> None:
        for talker in self.live.values():
            self.shipping.look(talker, leaving=False)

    def session_frame(self) -> int:
        """Sends one frame by the session; how many bytes of output it had."""
        frame = self.mailbox.frame()
        messages = () if frame is None else frame.messages
        chunks = [message for message in messages if isinstance(message, LogChunk)]
        for message in messages:
            if isinstance(message, LogChunk):
                self.log_kept(self.kept.take(message))
            elif isinstance(message, Exited):
                job = message.ref.job
                assert self.kept.logs.get(job, b"") == self.live[message.ref, message.rank].wrote, "the end came early"
                self.ended.append(job)
        size = sum(len(chunk.data) for chunk in chunks)
        self.in_session += size
        return size

    # ---- the sender's workload and link

    def fence_expired(self) -> None: ...

    def log_kept(self, ack: LogAck) -> None:
        self.shipping.kept(self.live[ack.ref, ack.rank], ack)

    async def log_line(self) -> "Line":
        self.lines += 1
        return Line(self)


class Line:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._answers: asyncio.Queue[LogAcks | None] = asyncio.Queue()

    async def send(self, message: LogMessage) -> None:
        node = self._node
        if node.refuses:
            raise LinkRefused("not here")
        if isinstance(message, LogHello):
            assert message == LogHello(node="n1", number=7)
            return
        assert isinstance(message, LogFrame)
        if node.breaks_after is not None:
            if node.breaks_after <= 0:
                node.breaks_after = None
                raise LinkBroken("cut")
            node.breaks_after -= 1
        node.on_line += sum(len(chunk.data) for chunk in message.chunks)
        self._answers.put_nowait(LogAcks(acks=tuple(node.kept.take(chunk) for chunk in message.chunks)))
        await asyncio.sleep(0)

    async def acks(self) -> AsyncIterator[LogAcks]:
        while (answer := await self._answers.get()) is not None:
            yield answer

    async def close(self) -> None: ...


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(tmp_path)
    sender = LoudSender(node.mailbox, cast("Workload", node), node.clock, SeededRng())
    task = asyncio.create_task(sender.run(node, LogHello(node="n1", number=7)))
    yield node
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome


async def _until_all_ended(node: Node, jobs: int, **seen: Any) -> None:
    for _ in range(2000):
        if len(node.ended) == jobs:
            return
        node.look()
        node.session_frame()
        await node.clock.advance(0.05)
    raise AssertionError(f"{len(node.ended)} of {jobs} ended: {seen}")


async def test_little_output_stays_with_the_session_and_opens_nothing(node: Node) -> None:
    quiet = node.talker("quiet")
    quiet.says(b"a few words\n" * 1000)
    node.look()
    node.end(quiet)
    await _until_all_ended(node, 1)
    assert node.kept.logs["quiet"] == quiet.wrote
    assert (node.lines, node.on_line) == (0, 0)


async def test_bulk_goes_by_the_other_stream_and_its_end_waits_for_it(node: Node) -> None:
    loud, quiet = node.talker("loud"), node.talker("quiet")
    loud.says(random.Random(1).randbytes(5 << 20))
    quiet.says(b"words\n")
    node.look()
    node.end(loud)
    assert node.session_frame() == len(b"words\n"), "the session carried bulk"
    assert node.ended == [], "the end of an attempt went ahead of its output"
    node.end(quiet)
    await _until_all_ended(node, 2)
    assert node.kept.logs == {"loud": loud.wrote, "quiet": quiet.wrote}
    assert node.on_line == 5 << 20
    assert node.kept.troubles == 0


async def test_an_attempt_that_becomes_loud_waits_for_what_the_session_has_under_way(node: Node) -> None:
    job = node.talker("job")
    job.says(b"x" * 1000)
    node.look()
    frame = node.mailbox.frame()
    assert frame is not None
    job.says(b"y" * (INLINE_BYTES + 1))
    node.look()
    assert node.mailbox.frame() is None
    await node.clock.advance(1)
    assert node.lines == 0, "bytes that the session had not delivered were overtaken"
    (early,) = frame.messages
    assert isinstance(early, LogChunk)
    node.log_kept(node.kept.take(early))
    node.end(job)
    await _until_all_ended(node, 1)
    assert node.kept.logs["job"] == job.wrote
    assert node.kept.troubles == 0


async def test_a_stream_that_is_refused_leaves_all_to_the_session(node: Node) -> None:
    node.refuses = True
    loud = node.talker("loud")
    loud.says(bytes(3 << 20))
    node.look()
    node.end(loud)
    await _until_all_ended(node, 1)
    assert node.kept.logs["loud"] == loud.wrote
    assert (node.lines, node.on_line, node.in_session) == (1, 0, 3 << 20)


async def test_the_stream_is_closed_when_unused_and_opened_again(node: Node) -> None:
    loud = node.talker("loud")
    for lines in (1, 2):
        loud.says(bytes(1 << 20))
        node.look()
        node.session_frame()
        await node.clock.advance(60)
        assert node.lines == lines
        assert loud.key not in node.mailbox.loud
    loud.says(b"a word\n")
    node.look()
    node.end(loud)
    await _until_all_ended(node, 1)
    assert node.kept.logs["loud"] == loud.wrote
    assert node.lines == 2


@pytest.mark.parametrize("seed", range(12))
async def test_nothing_is_lost_doubled_or_out_of_order_whatever_breaks(node: Node, seed: int) -> None:
    chance = random.Random(seed)
    talkers = [node.talker(f"job-{index}") for index in range(4)]
    for _ in range(40):
        talker = chance.choice(talkers)
        talker.says(chance.randbytes(chance.choice((0, 10, 3_000, INLINE_BYTES + 5, 300_000))))
        node.look()
        match chance.randrange(12):
            case 0:
                node.breaks_after = chance.randrange(4)
            case 1:
                # A new session: nothing that was under way counts.
                node.mailbox.rewind()
            case 2:
                node.refuses = chance.random() < 0.2
            case _:
                pass
        assert node.session_frame() <= INLINE_FRAME_BYTES + INLINE_BYTES or not node.mailbox.loud.offered
        await node.clock.advance(chance.choice((0.0, 0.01, 0.3, 40.0)))
    for talker in talkers:
        node.end(talker)
    await _until_all_ended(node, len(talkers), seed=seed)
    assert sorted(node.ended) == sorted(talker.job for talker in talkers)
    assert all(node.kept.logs.get(talker.job, b"") == talker.wrote for talker in talkers)
