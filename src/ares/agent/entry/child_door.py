"""A job's way to submit jobs: a socket in the attempt's directory, which its agent serves.

A job has no credential and needs no network. It connects, and the agent asks the control plane in the attempt's name,
by the node's own link. The door is there for jobs that were submitted with `children`, for the first rank, and for as
long as the attempt has processes. It is opened to processes of this attempt only: by their user, and by the slot that
they live in, for other jobs of the tenant may run here as the same user.
"""

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from ares.agent.attempts.attempt import Attempt
from ares.model.base import Record
from ares.model.job import CHILDREN_MAX
from ares.model.job_session import CHILD_BYTES_MAX, ChildAnswer, ChildCall
from ares.ports.clock import Clock
from ares.ports.executor import Caller, Door
from ares.ports.link import LinkBroken, LinkRefused

_log = structlog.get_logger(__name__)

_LENGTH: Final = struct.Struct("!I")
# Beside the specification, a request has its call's number.
_REQUEST_BYTES_MAX: Final = CHILD_BYTES_MAX + 1024
_TALKING_MAX: Final = 4
_WITHIN_S: Final = 60.0
# Between two connections: a job that connects for ever must not take the agent's time.
_PACE_S: Final = 0.005
_AGAIN_S: Final = (0.1, 0.3, 1.0, 2.0, 4.0)
_STARTED_S: Final = 5.0
_ANCESTORS_MAX: Final = 256

# Asks the control plane. Raises LinkBroken and LinkRefused.
SubmitChild = Callable[[ChildCall], Awaitable[ChildAnswer]]


class ChildWish(Record, frozen=True):
    """What a job asks for. Without a number it is the next call of this attempt."""

    spec: msgspec.Raw
    call: int | None = None
    detached: bool = False


_decode = msgspec.json.Decoder(ChildWish).decode
_encode = msgspec.json.Encoder().encode


class ChildDoor:
    """Open from its creation to `close`."""

    def __init__(self, attempt: Attempt, uid: int | None, door: Door, submit: SubmitChild, clock: Clock) -> None:
        self._attempt = attempt
        self._uid = os.geteuid() if uid is None else uid
        self._submit = submit
        self._clock = clock
        self._made = 0
        # One call after the other: their numbers are the order in which they came.
        self._turn = asyncio.Lock()
        self._talking: set[asyncio.Task[None]] = set()
        self._door = door
        self._serving = asyncio.create_task(self._serve())

    def close(self) -> None:
        for task in (self._serving, *self._talking):
            task.cancel()
        self._door.close()

    async def _serve(self) -> None:
        while True:
            caller = await self._door.caller()
            if len(self._talking) >= _TALKING_MAX:
                caller.close()
            else:
                task = asyncio.create_task(self._talk(caller))
                self._talking.add(task)
                task.add_done_callback(self._talking.discard)
            await self._clock.sleep(_PACE_S)

    async def _talk(self, caller: Caller) -> None:
        try:
            async with asyncio.timeout(_WITHIN_S):
                data = _encode(await self._answer(caller))
                await caller.send(_LENGTH.pack(len(data)) + data)
        except (OSError, TimeoutError, EOFError) as error:
            _log.debug("child.unanswered", job=self._attempt.start.ref.job, why=str(error))
        finally:
            caller.close()

    async def _answer(self, caller: Caller) -> ChildAnswer:
        if not await self._is_ours(caller):
            return _no("forbidden", "this is the way of another attempt", "submit from a process of the job itself")
        (size,) = _LENGTH.unpack(await caller.read(_LENGTH.size))
        if size > _REQUEST_BYTES_MAX:
            return _no("spec-too-large", f"the job takes {size:,} bytes, at most {CHILD_BYTES_MAX:,} are taken")
        try:
            wish = _decode(await caller.read(size))
        except (ValueError, RecursionError) as error:
            return _no("invalid", f"the request cannot be read: {str(error)[:300]}")
        async with self._turn:
            return await self._ask(wish)

    async def _ask(self, wish: ChildWish) -> ChildAnswer:
        call = self._made + 1 if wish.call is None else wish.call
        if not 1 <= call <= CHILDREN_MAX or len(bytes(wish.spec)) > CHILD_BYTES_MAX:
            return _no("invalid", f"calls are numbered from 1 to {CHILDREN_MAX:,}, and this is {call}")
        request = ChildCall(ref=self._attempt.start.ref, call=call, spec=bytes(wish.spec), detached=wish.detached)
        answer = await self._try(request)
        for pause_s in _AGAIN_S:
            # Made or not made: what is not certain is asked again, under the same number.
            if answer.code != "store-unavailable":
                break
            await self._clock.sleep(pause_s)
            answer = await self._try(request)
        if answer.job:
            self._made = max(self._made, call)
        return answer

    async def _try(self, request: ChildCall) -> ChildAnswer:
        if self._attempt.fenced:
            return _no("stale-fence", f"this attempt is to end: {self._attempt.fenced}")
        try:
            return await self._submit(request)
        except LinkRefused as refused:
            return _no("forbidden", str(refused)[:300])
        except LinkBroken as broken:
            return _no("store-unavailable", f"the control plane cannot be reached: {str(broken)[:300]}", _SAME)

    async def _is_ours(self, caller: Caller) -> bool:
        until = self._clock.monotonic() + _STARTED_S
        # A job may be faster than the word that it has started.
        while self._attempt.running is None and self._clock.monotonic() < until:
            await self._clock.sleep(0.01)
        running = self._attempt.running
        return caller.uid == self._uid and running is not None and _is_beside(caller.pid, running.pid)


def _no(code: str, message: str, fix: str = "") -> ChildAnswer:
    return ChildAnswer(code=code, message=message, fix=fix)


_SAME: Final = "make the same call again, with its number: the job may exist, and is not made twice"


def _is_beside(pid: int, main: int) -> bool:
    """Whether the process lives in the slot of the attempt's main process: below the main process's parent."""
    slot = _parent(main)
    for _ in range(_ANCESTORS_MAX):
        if slot <= 1 or pid <= 1:
            return False
        if pid == slot:
            return True
        pid = _parent(pid)
    return False


def _parent(pid: int) -> int:
    """0 when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0
