"""The executor: a pool of slots, grown on demand, that attempts run in."""

import asyncio
import fcntl
import hashlib
import marshal
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable
from math import inf
from pathlib import Path
from typing import Final, Literal

import structlog

from ares.adapters.executors import cgroups, leftovers
from ares.adapters.executors.lobby import Lobby
from ares.adapters.executors.process import Answer, SlotProcess, StartRequest
from ares.adapters.executors.terms import SandboxTerms, cell_of, refused, sandbox_of
from ares.model.node import Containment
from ares.ports.executor import CannotStart, Launch, Running, Sandbox

Contain = Literal["best", "none"]

_WARDEN: Final = Path(__file__).parent / "warden"
_HELLO_TIMEOUT_S: Final = 30.0
# A machine under load may refuse a namespace for a moment: it is tried again, or jobs would go without.
_HELLO_AGAIN_S: Final = (0.2, 1.0)
_END_TIMEOUT_S: Final = 10.0
# The pool has no upper bound. While slots become idle all the time, waiting for one is cheaper than opening
# another, so the pool grows slowly; otherwise as fast as this allows.
_OPENING_MAX: Final = 4
_CYCLING_S: Final = 0.02
_SLOW_GROWTH_S: Final = 1.0
_READY_MAX: Final = 8
# Far more starts at once than CPUs make each start dearer. With few, short attempts share warm slots.
_LAUNCHING_MAX: Final = 4 * len(os.sched_getaffinity(0))
# A command without an answer for this long is stuck, perhaps on a dead file server: other starts go on.
_STUCK_S: Final = 0.5
_WARDEN_AGAIN_S: Final = 0.5
# Opening a slot costs as much as a dozen attempts: spare ones are kept this long for the next burst.
_SPARE_S: Final = 60.0
# After this many slots died while opening, waiting attempts are refused instead of tried forever.
_FAILED_OPENINGS_MAX: Final = 8

_log = structlog.get_logger(__name__)


class ExecutorBusy(Exception):
    """Another live agent uses this state directory."""


class LocalExecutor:
    """Runs attempts on this machine (`ports.executor.Executor`)."""

    def __init__(
        self,
        state_dir: Path,
        *,
        contain: Contain = "best",
        limits: bool = True,
        terms: SandboxTerms | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()  # Each look for it costs a system call.
        self._folder = state_dir / "executor"
        self._roll = leftovers.Roll(self._record)
        self._contain: Contain = contain
        self._limits = limits
        self._terms = terms or SandboxTerms()
        self._sandbox = Sandbox()
        self._lock = -1
        self._cgroups: cgroups.Cgroups | None = None
        self._containment: Containment = "none"
        self._warden: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._slots: dict[int, SlotProcess] = {}
        self._lobby = Lobby()
        # Slots that were asked for, and slots that arrived and are not ready yet.
        self._opening: deque[int] = deque()
        self._unready = 0
        self._failed_openings = 0
        self._freed_at = self._asked_at = -inf
        self._look_again: asyncio.TimerHandle | None = None
        self._spare: asyncio.TimerHandle | None = None
        # Commands handed to a slot and not answered yet.
        self._launching = 0
        self._answered_at = -inf
        self._closed = False
        self._restart: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_lock()
        if killed := leftovers.end(self._record):
            _log.info("ended leftovers of an earlier agent", pids=killed)
        name = "ares-" + hashlib.sha256(os.fsencode(self._folder.resolve())).hexdigest()[:12]
        self._cgroups = cgroups.discover(name) if self._limits else None
        if self._cgroups is not None:
            self._cgroups.remove_leftovers()
        try:
            await self._start_patiently()
        except OSError as error:
            # A timeout does not tell what this machine allows.
            if self._contain == "none" or isinstance(error, TimeoutError):
                raise
            self._contain = "none"
            await self._start_patiently()

    def isolation(self) -> tuple[Containment, ...]:
        """How attempts are contained, then how their limits are enforced."""
        return (self._containment, self._cgroups.layout.version if self._cgroups else "none")

    def sandbox(self) -> Sandbox:
        return self._sandbox

    def start(self, launch: Launch) -> Awaitable[Running | CannotStart]:
        answer: Answer = self._loop.create_future()
        if refusal := refused(launch, self._sandbox):
            answer.set_result(CannotStart(refusal))
            return answer
        self._lobby.ask(StartRequest(cell_of(launch, self._terms, self._sandbox), launch, answer))
        self._dispatch()
        return answer

    async def close(self) -> None:
        self._closed = True
        if self._spare is not None:
            self._spare.cancel()
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.gather(self._restart, return_exceptions=True)
        for slot in list(self._slots.values()):
            self._forget(slot)
            slot.close()
        self._refuse_waiting("the executor is shutting down")
        self._drop_control()
        if self._warden is not None:
            await asyncio.to_thread(self._warden.wait, _END_TIMEOUT_S)
        self._record.unlink(missing_ok=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # ---- the warden

    @property
    def _record(self) -> Path:
        return self._folder / "processes.json"

    def _take_lock(self) -> None:
        self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = -1
            raise ExecutorBusy(
                f"another agent is running in {self._folder.parent}; stop it or choose another state directory"
            ) from None

    async def _start_patiently(self) -> None:
        for pause_s in _HELLO_AGAIN_S:
            try:
                return await self._start_warden()
            except OSError as error:
                _log.warning("executor.warden_again", why=str(error) or repr(error))
                await asyncio.sleep(pause_s)
        return await self._start_warden()

    async def _start_warden(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            with theirs:
                self._warden = self._popen_warden(theirs)
            async with asyncio.timeout(_HELLO_TIMEOUT_S):
                await self._loop.sock_sendall(ours, self._terms.orders(str(self._folder)))
                hello = (await self._loop.sock_recv(ours, 4096)).decode().split()
            if not hello:
                raise OSError("the warden ended before it was ready; its error output says why")
            self._write_record(self._warden.pid)
        except BaseException:
            ours.close()
            if self._warden is not None:
                self._warden.kill()
            raise
        self._containment = "pid-namespace" if hello[0] == "pid-namespace" else "none"
        self._sandbox = sandbox_of(self.isolation(), hello[1:], self._terms)
        self._control = ours
        self._loop.add_reader(ours.fileno(), self._control_readable)
        # The first attempts need not wait for a slot.
        for _ in range(min(_READY_MAX, len(os.sched_getaffinity(0)))):
            self._ask_for_slot(ours)

    def _popen_warden(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        python = [sys.executable, "-I", "-S", "-X", "utf8", str(_WARDEN)]
        return subprocess.Popen(
            [*python, str(theirs.fileno()), self._contain, *(self._cgroups.folders() if self._cgroups else ())],
            pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/",
            start_new_session=True,
        )  # fmt: skip

    def _drop_control(self) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None

    def _control_readable(self) -> None:
        assert self._control is not None
        try:
            data, fds, _, _ = socket.recv_fds(self._control, 4096, 1)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._warden_lost()
        elif fds:
            index = self._opening.popleft()
            self._unready += 1
            self._slots[index] = SlotProcess(index, socket.socket(fileno=fds[0]), self)
        else:
            self._opening.popleft()
            self._opening_failed(data.decode(errors="replace"))

    def _warden_lost(self) -> None:
        """The warden died, and its slots end by themselves. Attempts that wait need a new warden."""
        self._drop_control()
        self._opening.clear()
        _log.error("the warden ended; every attempt it held is gone")
        self._opening_failed("the warden ended")
        if not self._closed:
            self._restart = asyncio.create_task(self._start_again())

    async def _start_again(self) -> None:
        while not self._closed:
            try:
                await self._replace_warden()
                return
            except (OSError, subprocess.TimeoutExpired) as error:
                _log.error("the warden could not be started again", why=str(error))
                self._refuse_waiting(f"the warden could not be started again: {error}")
                await asyncio.sleep(_WARDEN_AGAIN_S)

    async def _replace_warden(self) -> None:
        if self._warden is not None:
            try:
                await asyncio.to_thread(self._warden.wait, _END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._warden.kill()
                raise
        await self._start_warden()
        self._dispatch()

    # ---- slots

    def _dispatch(self) -> None:
        if self._launching >= _LAUNCHING_MAX:
            self._give_up_on_stuck()
        while self._launching < _LAUNCHING_MAX and (found := self._lobby.match()):
            slot, asked = found
            weight = self._cgroups.layout.cpu_weight(asked.launch.cpu_milli) if self._cgroups else 0
            if not self._launching:
                self._answered_at = self._loop.time()
            self._launching += 1
            if not slot.launch(asked, weight):
                # The slot died while idle, and its end was not seen yet.
                self.slot_unheard(asked)
                self._forget(slot)
                slot.close()
        while self._control is not None and self._may_open() and self._ask_for_slot(self._control):
            continue

    def _give_up_on_stuck(self) -> None:
        now = self._loop.time()
        if now - self._answered_at >= _STUCK_S:
            self._launching, self._answered_at = 0, now
        elif self._lobby.waiting():
            self._look_soon(_STUCK_S)

    def _may_open(self) -> bool:
        # With as many starts under way as may be, another slot could run nothing: the next answer asks again.
        most = 0 if self._launching >= _LAUNCHING_MAX else _OPENING_MAX
        if len(self._opening) + self._unready >= min(most, self._lobby.missing()):
            return False
        now = self._loop.time()
        cycling = now - self._freed_at < _CYCLING_S and now - self._asked_at < _SLOW_GROWTH_S
        if cycling and not self._lobby.newcomer():
            self._look_soon(_CYCLING_S)
            return False
        return True

    def _look_soon(self, seconds: float) -> None:
        if self._look_again is None:
            self._look_again = self._loop.call_later(seconds, self._looked)

    def _looked(self) -> None:
        self._look_again = None
        if not self._closed:
            self._dispatch()

    def _ask_for_slot(self, control: socket.socket) -> bool:
        """False when the warden cannot be asked now."""
        taken = {*self._slots, *self._opening}
        index = next(i for i in range(len(taken) + 1) if i not in taken)
        try:
            paths = self._cgroups.slot(index) if self._cgroups else {}
        except OSError as error:
            self._opening_failed(f"its control groups cannot be made: {error}")
            return True
        try:
            control.send(marshal.dumps(paths))
        except OSError:
            # The end of a warden shows on its socket.
            self._look_soon(_CYCLING_S)
            return False
        self._opening.append(index)
        self._asked_at = self._loop.time()
        return True

    def slot_ready(self, slot: SlotProcess) -> None:
        self._unready -= 1
        try:
            self._write_record(slot.pid)
        except OSError as error:
            # The next agent ends leftovers by the record. A slot that is not in it must not run anything.
            self._forget(slot)
            slot.close()
            self._opening_failed(f"its process cannot be recorded: {error}")
            self._dispatch()
            return
        self._failed_openings = 0
        self.slot_idle(slot)

    def slot_answered(self, *, over: bool = False) -> None:
        self._launching = max(0, self._launching - 1)
        self._answered_at = self._loop.time()
        if not over:
            self._dispatch()

    def slot_unheard(self, asked: StartRequest) -> None:
        self._launching = max(0, self._launching - 1)
        self._lobby.ask(asked, first=True)

    def slot_idle(self, slot: SlotProcess, *, retire: bool = False) -> None:
        if self._lobby.waiting():
            self._freed_at = self._loop.time()
        if retire:
            self._forget(slot)
            slot.close()
        else:
            slot.idle_since = self._loop.time()
            self._lobby.rest(slot)
        self._dispatch()
        self._watch_spare()

    def _watch_spare(self) -> None:
        if len(self._slots) > _READY_MAX and self._spare is None:
            self._spare = self._loop.call_later(_SPARE_S, self._drop_spare)

    def _drop_spare(self) -> None:
        self._spare = None
        unused_since = self._loop.time() - _SPARE_S
        idle = [] if self._closed else self._lobby.idle()
        for slot in idle[: max(0, len(idle) - _READY_MAX)]:
            if slot.idle_since <= unused_since:
                self._forget(slot)
                slot.close()
        if idle:
            self._watch_spare()

    def slot_gone(self, slot: SlotProcess, why: str) -> None:
        self._forget(slot)
        if not slot.pid:
            self._unready -= 1
            self._opening_failed(why or "it ended at once")
        self._dispatch()

    def _forget(self, slot: SlotProcess) -> None:
        self._slots.pop(slot.index, None)
        self._lobby.leave(slot)

    def _opening_failed(self, why: str) -> None:
        self._failed_openings += 1
        _log.error("a slot could not be opened", why=why)
        if self._failed_openings >= _FAILED_OPENINGS_MAX:
            self._refuse_waiting(f"no process slot could be opened: {why}")

    def _refuse_waiting(self, why: str) -> None:
        for asked in self._lobby.turned_away():
            if not asked.answer.done():
                asked.answer.set_result(CannotStart(why))

    def _write_record(self, new: int) -> None:
        pids = [slot.pid for slot in self._slots.values() if slot.pid]
        self._roll.write([*pids, *([self._warden.pid] if self._warden else [])], new)
