"""A session on its node: windows, rings, input that is applied once, and when it ends."""

import asyncio

import pytest

from ares.agent.entry.job_session import JobSession
from ares.model.job_session import (
    RING_BYTES,
    WINDOW_BYTES,
    SessionDetach,
    SessionExit,
    SessionFrame,
    SessionInput,
    SessionOutput,
    SessionSpec,
    SessionTaken,
)
from ares.model.link import AttemptRef
from ares.model.state import Fence
from ares.ports.executor import OutputStream
from tests.clocks import ManualClock

REF = AttemptRef(job="j", tenant="t", fence=Fence(epoch=1, counter=1))


class Command:
    """Stands in for the executor's end."""

    def __init__(self) -> None:
        self.output: asyncio.Queue[bytes] = asyncio.Queue()
        self.typed = b""
        self.ended = False
        self.hung_up = False
        self.read_bytes = 0

    async def read(self) -> tuple[OutputStream, bytes]:
        data = await self.output.get()
        self.read_bytes += len(data)
        return "out", data

    async def write(self, data: bytes) -> None:
        self.typed += data

    def end_input(self) -> None:
        self.ended = True

    def resize(self, rows: int, cols: int) -> None: ...

    async def exit_code(self) -> int | None:
        return 3

    def hang_up(self) -> None:
        self.hung_up = True


class Client:
    def __init__(self) -> None:
        self.frames: list[SessionFrame] = []
        self.dropped: str | None = None

    async def say(self, frame: SessionFrame) -> None:
        self.frames.append(frame)

    def drop(self, why: str) -> None:
        self.dropped = why

    @property
    def text(self) -> bytes:
        return b"".join(frame.data for frame in self.frames if isinstance(frame, SessionOutput))


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def session(command: Command, clock: ManualClock, *, tty: bool = True, idle_s: float = 0.0) -> JobSession:
    return JobSession("0123456789abcdef", REF, SessionSpec(command=("sh",), tty=tty, idle_s=idle_s), command, clock)


async def test_client_that_comes_back_gets_what_it_missed_and_types_once(clock: ManualClock) -> None:
    command = Command()
    one = session(command, clock)
    first, second = Client(), Client()
    one.attach(0, first.say, first.drop)
    command.output.put_nowait(b"hello ")
    one.take(SessionInput(offset=0, data=b"ls\n"))
    await settle()
    assert first.text == b"hello "
    one.detach()
    command.output.put_nowait(b"world")
    await settle()
    one.attach(6, second.say, second.drop)
    # It does not know that its line arrived, and sends it again with more.
    one.take(SessionInput(offset=0, data=b"ls\n"))
    one.take(SessionInput(offset=3, data=b"pwd\n"))
    one.take(SessionInput(offset=100, data=b"after a gap"))
    await settle()
    assert second.text == b"world"
    assert command.typed == b"ls\npwd\n"
    assert SessionTaken(offset=7) in second.frames
    one.close("")


async def test_command_waits_for_a_client_that_does_not_read(clock: ManualClock) -> None:
    command = Command()
    one = session(command, clock, tty=False)
    client = Client()
    one.attach(0, client.say, client.drop)
    for _ in range(100):
        command.output.put_nowait(b"x" * 32 * 1024)
    await settle()
    assert command.read_bytes == WINDOW_BYTES
    one.take(SessionTaken(offset=WINDOW_BYTES // 2))
    await settle()
    assert command.read_bytes == WINDOW_BYTES * 3 // 2
    # It says no more than there is.
    one.take(SessionTaken(offset=10**12))
    await settle()
    assert command.read_bytes == WINDOW_BYTES * 5 // 2
    one.close("")


async def test_terminal_without_a_client_goes_on_and_keeps_the_newest(clock: ManualClock) -> None:
    command = Command()
    one = session(command, clock)
    for number in range(100):
        command.output.put_nowait(bytes([number]) * 32 * 1024)
    await settle()
    await settle()
    assert command.read_bytes == 100 * 32 * 1024
    client = Client()
    one.attach(0, client.say, client.drop)
    await settle()
    assert len(client.text) == RING_BYTES
    assert client.text.endswith(bytes([99]) * 32 * 1024)
    assert isinstance(client.frames[0], SessionOutput)
    assert client.frames[0].offset == 100 * 32 * 1024 - RING_BYTES
    one.close("")


async def test_newer_client_takes_the_place_of_the_older(clock: ManualClock) -> None:
    one = session(Command(), clock)
    first, second = Client(), Client()
    one.attach(0, first.say, first.drop)
    one.attach(0, second.say, second.drop)
    assert first.dropped == "another client attached to the session"
    assert second.dropped is None
    one.close("")


async def test_end_comes_after_the_output_and_is_kept_until_it_arrived(clock: ManualClock) -> None:
    command = Command()
    one = session(command, clock)
    command.output.put_nowait(b"bye")
    command.output.put_nowait(b"")
    await settle()
    assert one.over
    assert one.overdue() == ""
    client = Client()
    one.attach(0, client.say, client.drop)
    await settle()
    assert client.frames == [SessionOutput(offset=0, data=b"bye"), SessionExit(code=3)]
    one.take(SessionDetach())
    assert one.overdue()
    one.close("")


async def test_flood_of_input_ends_the_client_and_not_the_node(clock: ManualClock) -> None:
    class Stuck(Command):
        async def write(self, data: bytes) -> None:
            await asyncio.Event().wait()

    one = session(Stuck(), clock)
    client = Client()
    one.attach(0, client.say, client.drop)
    for number in range(100):
        one.take(SessionInput(offset=number * 32 * 1024, data=b"x" * 32 * 1024))
    assert client.dropped is not None
    assert str(WINDOW_BYTES) in client.dropped
    one.close("")


async def test_input_in_crumbs_and_its_end_again_and_again_take_little_room(clock: ManualClock) -> None:
    class Counting(Command):
        writes = 0

        async def write(self, data: bytes) -> None:
            self.writes += 1
            await super().write(data)

    command = Counting()
    one = session(command, clock, tty=False)
    client = Client()
    one.attach(0, client.say, client.drop)
    for number in range(3000):
        one.take(SessionInput(offset=number, data=b"x"))
    for _ in range(3000):
        one.take(SessionInput(offset=3000, end=True))
    one.take(SessionInput(offset=3000, data=b"after the end"))
    await settle()
    assert command.writes == 1
    assert (command.typed, command.ended, client.dropped) == (b"x" * 3000, True, None)
    assert client.frames[-1] == SessionTaken(offset=3000)
    one.close("")


async def test_session_ends_when_its_client_stays_away_or_nothing_happens(clock: ManualClock) -> None:
    away = session(Command(), clock)
    assert away.overdue() == ""
    await clock.advance(61)
    assert "no client" in away.overdue()
    away.close("")
    idle = session(Command(), clock, idle_s=10)
    client = Client()
    idle.attach(0, client.say, client.drop)
    await clock.advance(9)
    idle.take(SessionInput(offset=0, data=b"x"))
    await clock.advance(9)
    assert idle.overdue() == ""
    await clock.advance(2)
    assert "nothing was typed" in idle.overdue()
    idle.close("")
