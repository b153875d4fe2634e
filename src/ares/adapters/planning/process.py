"""A planner in a process of its own, at the other end of two pipes. It is killed when it does not answer in time.

A frame is its length and its number, then its bytes; the answer has the number of its request. The process writes the
plugin it runs to a page of shared memory, so that the plugin is known even when the process hangs.
"""

import asyncio
import contextlib
import mmap
import os
import struct
from collections.abc import Sequence

import structlog

from ares.ports.planning import PlannerLost

log = structlog.get_logger()

HEAD = struct.Struct("!IQ")
BOARD_BYTES = 4096
# Names the descriptor of the shared page to the process.
BOARD = "ARES_PLANNING_BOARD"
# Names the parent process: the planner ends with it.
PARENT = "ARES_PLANNING_PARENT"
FRAME_BYTES_MAX = 1 << 30
# Generous: a machine under load starts a program slowly.
_START_S = 60.0
# How long to wait for the end of a killed process.
_END_S = 5.0
_READY = 0


class ProcessPlanning:
    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._process: asyncio.subprocess.Process | None = None
        self._numbers = _READY
        self._lock = asyncio.Lock()
        self._board: mmap.mmap | None = None
        self.life = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def open(self) -> None:
        async with self._lock:
            if self._process is not None and self._process.returncode is None:
                return
            await self._end()
            self._process = await self._start()
            self.life += 1
            try:
                await asyncio.wait_for(self._answer(self._process, _READY), _START_S)
            except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                await self._end()
                raise PlannerLost(f"the planning process did not start: {error!r}") from error
            log.info("planning.started", pid=self._process.pid, life=self.life)

    async def ask(self, frame: bytes, within_s: float) -> bytes:
        async with self._lock:
            process = self._process
            if process is None:
                raise PlannerLost("there is no planning process")
            self._numbers += 1
            try:
                return await asyncio.wait_for(self._exchange(process, frame, self._numbers), within_s)
            except TimeoutError:
                plugin = self._entered()
                await self._end()
                why = f"no answer within {within_s:g} s"
                raise PlannerLost(f"{why}, in the plugin {plugin}" if plugin else why, plugin, late=True) from None
            except (OSError, asyncio.IncompleteReadError):
                plugin = self._entered()
                await self._end()
                raise PlannerLost(f"it ended with {process.returncode}", plugin) from None
            except asyncio.CancelledError:
                # The next request would read this one's answer, so it gets a new process.
                await self._end()
                raise

    async def _exchange(self, process: asyncio.subprocess.Process, frame: bytes, number: int) -> bytes:
        assert process.stdin is not None, "it was started with a pipe"
        # One write: each would wake the process.
        process.stdin.write(HEAD.pack(len(frame), number) + frame)
        await process.stdin.drain()
        return await self._answer(process, number)

    async def _answer(self, process: asyncio.subprocess.Process, number: int) -> bytes:
        assert process.stdout is not None, "it was started with a pipe"
        length, answered = HEAD.unpack(await process.stdout.readexactly(HEAD.size))
        if answered != number or length > FRAME_BYTES_MAX:
            raise OSError(f"it answered {answered} with {length} bytes when {number} was asked")
        return await process.stdout.readexactly(length)

    async def _start(self) -> asyncio.subprocess.Process:
        fd = os.memfd_create("ares-planning")
        try:
            os.ftruncate(fd, BOARD_BYTES)
            self._board = mmap.mmap(fd, BOARD_BYTES)
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=(fd,),
                env={**os.environ, BOARD: str(fd), PARENT: str(os.getpid())},
            )
        except OSError as error:
            raise PlannerLost(f"the planning process cannot be started: {error}") from error
        finally:
            os.close(fd)

    def _entered(self) -> str:
        if self._board is None:
            return ""
        return bytes(self._board[:BOARD_BYTES]).split(b"\0", 1)[0].decode(errors="replace")

    async def _end(self) -> None:
        """Kills the process at once."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # Data left in the pipes is not needed. A transport that is not closed would keep them open.
        transport = getattr(process, "_transport", None)
        ended = asyncio.ensure_future(process.wait())
        await asyncio.wait({ended}, timeout=_END_S)
        # The loop may miss the end of a process whose start was cancelled. It is killed all the same.
        ended.cancel()
        if transport is not None:
            transport.close()

    async def close(self) -> None:
        async with self._lock:
            await self._end()
