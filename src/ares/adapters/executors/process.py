"""A slot as the agent sees it: its socket, and the attempt that runs in it."""

import asyncio
import contextlib
import marshal
import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ares.adapters.executors.entry import opened
from ares.adapters.executors.terms import Cell
from ares.adapters.executors.warden import wire
from ares.ports.executor import CannotStart, Entered, Entry, Finished, Launch

Answer = asyncio.Future["AttemptProcess | CannotStart"]
_ANCILLARY_BYTES = socket.CMSG_SPACE(wire.CREDENTIALS.size)
LOST = Finished(code=None, signal=int(signal.SIGKILL), oom=False, max_rss_mib=0, cpu_s=0.0)


class AttemptProcess:
    """One started attempt (`ports.executor.Running`)."""

    def __init__(self, slot: "SlotProcess", pid: int) -> None:
        self._slot: SlotProcess | None = slot
        self.pid = pid
        self._finished: Finished | None = None
        self._callback: Callable[[Finished], None] | None = None

    def signal(self, signum: int) -> None:
        self._say(b"S" + bytes((signum,)))

    def tell(self, signum: int) -> None:
        self._say(b"T" + bytes((signum,)))

    def kill(self) -> None:
        self._say(b"K")

    def extend(self, deadline: float) -> None:
        self._say(wire.DEADLINE.pack(b"D", deadline))

    async def enter(self, entry: Entry) -> Entered | CannotStart:
        """Opens a session in the attempt (`ports.executor.Enterable`)."""
        return CannotStart("the attempt has ended") if self._slot is None else await opened(entry, self._slot.hand)

    def on_finished(self, callback: Callable[[Finished], None]) -> None:
        self._callback = callback
        if self._finished is not None:
            callback(self._finished)

    def finish(self, finished: Finished) -> None:
        self._slot = None
        self._finished = finished
        if self._callback is not None:
            self._callback(finished)

    def _say(self, message: bytes) -> None:
        if self._slot is not None:
            self._slot.say(message)


class StartRequest(NamedTuple):
    """A start that waits for a slot."""

    cell: Cell
    launch: Launch
    answer: Answer


class SlotPool(Protocol):
    """The owner of slots: each slot reports to it."""

    def slot_ready(self, slot: "SlotProcess") -> None: ...

    def slot_answered(self, *, over: bool = False) -> None:
        """The slot answered a command: its process runs, or never will. `over`: the slot is idle in a moment."""
        ...

    def slot_idle(self, slot: "SlotProcess", *, retire: bool = False) -> None: ...

    def slot_unheard(self, asked: "StartRequest") -> None:
        """The slot ended before it read the command: another slot may run it."""
        ...

    def slot_gone(self, slot: "SlotProcess", why: str) -> None: ...


class SlotProcess:
    """The agent's end of one slot. Runs one attempt at a time."""

    def __init__(self, index: int, sock: socket.socket, pool: SlotPool) -> None:
        sock.setblocking(False)
        self.index = index
        self.pid = 0
        # The tenant and limits it is made for. None until its first attempt.
        self.cell: Cell | None = None
        self.idle_since = 0.0
        self._sock = sock
        self._pool = pool
        self._asked: StartRequest | None = None
        self._unread = False
        self._process: AttemptProcess | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._readable)

    def launch(self, asked: StartRequest, cpu_weight: int) -> bool:
        """False when the slot has ended and never read the command."""
        launch, self.cell = asked.launch, asked.cell
        limits = (
            launch.memory_mib, cpu_weight, launch.cpu_limit_milli,
            launch.file_bytes_max, launch.processes_max, launch.open_files_max,
        )  # fmt: skip
        request = (
            list(launch.argv), dict(launch.env), launch.cwd, launch.log_path, launch.stderr_path, limits,
            launch.deadline, launch.oom_score_adj,
            (launch.pin.node, launch.pin.cpus, launch.pin.required) if launch.pin else None,
            list(launch.folders), asked.cell.cage,
        )  # fmt: skip
        self._asked = asked
        try:
            self._sock.send(b"L" + marshal.dumps(request))
        except (BrokenPipeError, ConnectionResetError):
            self._asked = None
            return False
        except OSError as error:
            self._answered(CannotStart(f"cannot hand the command to its slot: {error.strerror}"))
            self._pool.slot_idle(self, retire=True)
        return True

    def say(self, message: bytes) -> None:
        # The end of the socket handles a slot that has ended, or is so stuck that its buffer is full.
        with contextlib.suppress(OSError):
            self._sock.send(message)

    def hand(self, message: bytes, files: Sequence[int]) -> None:
        """Raises OSError when the slot has ended."""
        socket.send_fds(self._sock, [message], list(files))

    def close(self) -> None:
        """Ends the slot and its attempt."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
        self._answered(CannotStart("the executor is shutting down", uncertain=True))
        self._ended(LOST)

    def _answered(self, outcome: "AttemptProcess | CannotStart", *, over: bool = False) -> None:
        asked, self._asked = self._asked, None
        if asked is None:
            return
        if not asked.answer.done():
            asked.answer.set_result(outcome)
        self._pool.slot_answered(over=over)

    def _ended(self, finished: Finished) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.finish(finished)

    def _readable(self) -> None:
        """Reads one message, or all that a dead slot left: not every event loop calls again after an error."""
        self._read()
        while self._unread and self._sock.fileno() >= 0:
            self._read()

    def _read(self) -> None:
        try:
            data, ancillary, _, _ = self._sock.recvmsg(8192, _ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            # The slot ended with a message of ours unread. Its own messages can still be read, then its end.
            self._unread = True
            return
        except OSError:
            data, ancillary = b"", []
        handler = _HANDLERS.get(data[:1], SlotProcess._lost)
        handler(self, data, wire.CREDENTIALS.unpack(ancillary[0][2])[0] if ancillary else 0)

    def _ready(self, _: bytes, pid: int) -> None:
        self.pid = pid
        self._pool.slot_ready(self)

    def _started(self, _: bytes, pid: int) -> None:
        self._process = AttemptProcess(self, pid)
        self._answered(self._process)

    def _refused(self, data: bytes, _: int) -> None:
        self._answered(CannotStart(data[1:].decode(errors="replace")))
        self._pool.slot_idle(self)

    def _broken(self, data: bytes, pid: int) -> None:
        """The slot ends, and its message says why."""
        if not self.pid:
            self._lost(data, pid)
            return
        self._answered(CannotStart(data[1:].decode(errors="replace")))
        self._ended(LOST)
        self._pool.slot_idle(self, retire=True)

    def _expired(self, _data: bytes, _pid: int) -> None:
        self._answered(CannotStart("its right to run ended before it could start", expired=True))
        self._pool.slot_idle(self)

    def _over(self, data: bytes, _: int) -> None:
        """Start and end in one message. The process is gone already, so it has no process id."""
        self._process = AttemptProcess(self, 0)
        self._answered(self._process, over=True)
        self._finished(data, 0)

    def _finished(self, data: bytes, _: int) -> None:
        _tag, status, oom, crowded, expired, retire, rss_kib, cpu_s = wire.FINISHED.unpack(data)
        code = os.waitstatus_to_exitcode(status)
        self._ended(
            Finished(
                code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                oom=bool(oom),
                max_rss_mib=-(-rss_kib // 1024),
                cpu_s=cpu_s,
                expired=bool(expired),
                crowded=bool(crowded),
            )
        )
        self._pool.slot_idle(self, retire=bool(retire))

    def _lost(self, data: bytes, _: int) -> None:
        """The slot has ended: it was killed, or its warden was."""
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        if self._unread and self._asked is not None:
            # Nothing is sent after a command until its answer, so the unread message is the command.
            asked, self._asked = self._asked, None
            self._pool.slot_unheard(asked)
        self._answered(CannotStart("the slot ended and did not say whether the process had started", uncertain=True))
        self._ended(LOST)
        self._pool.slot_gone(self, data[1:].decode(errors="replace"))


_HANDLERS: dict[bytes, Callable[[SlotProcess, bytes, int], None]] = {
    b"R": SlotProcess._ready,  # pyright: ignore[reportPrivateUsage]
    b"S": SlotProcess._started,  # pyright: ignore[reportPrivateUsage]
    b"E": SlotProcess._refused,  # pyright: ignore[reportPrivateUsage]
    b"B": SlotProcess._broken,  # pyright: ignore[reportPrivateUsage]
    b"X": SlotProcess._expired,  # pyright: ignore[reportPrivateUsage]
    b"F": SlotProcess._finished,  # pyright: ignore[reportPrivateUsage]
    b"Q": SlotProcess._over,  # pyright: ignore[reportPrivateUsage]
}
