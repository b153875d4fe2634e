"""Where ranks of an attempt meet: the first rank listens, the others call, and each side proves that it knows the
attempt's key. The key itself is never sent: another job of the machine may listen at the port before the first rank.

Each message is a line of JSON, bounded. Both sides speak at least every second; a side that is not heard for
SILENT_S is frozen or gone.
"""

import asyncio
import contextlib
import errno
import hmac
import json
import os
from collections.abc import Callable
from typing import Any, cast

SPEAK_S = 1.0
SILENT_S = 7.0
# So long a caller that has proved nothing yet may be silent.
_HELLO_S = 2.0
_NONCE_BYTES = 16
# Connections at once, beside those that the gang's size explains.
_SPARE = 64
_LINE_MAX = 1 << 17
_TRY_S = 0.1

Message = dict[str, Any]


def _proof(key: str, side: str, nonces: "tuple[str, str]", said: Message | None = None) -> bytes:
    """What only one that knows the key can say, on this connection alone."""
    text = " ".join((side, *nonces, json.dumps(said, sort_keys=True)))
    return hmac.digest(key.encode(), text.encode(errors="replace"), "sha256").hex().encode()


def _shows(said: Message, proof: bytes) -> bool:
    return hmac.compare_digest(str(said.get("proof", "")).encode(errors="replace"), proof)


def _fresh_nonce() -> str:
    """From the kernel, not from a port as in the agent's loops: the helper is a process of its own, which no simulation
    runs, and a nonce that another could foresee would prove nothing."""
    return os.urandom(_NONCE_BYTES).hex()


def _nonce_of(said: Message) -> str:
    nonce = said.get("nonce")
    if not isinstance(nonce, str) or len(nonce) != 2 * _NONCE_BYTES:
        raise EOFError
    return nonce


class Wire:
    """One connection. `read` raises EOFError when the other side is gone or silent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, within_s: float | None = SILENT_S) -> Message:
        try:
            line = await asyncio.wait_for(self._reader.readline(), within_s)
            said: Any = json.loads(line) if line.endswith(b"\n") else None
        except (TimeoutError, ValueError, RecursionError, OSError):
            said = None
        if not isinstance(said, dict):
            raise EOFError
        return cast("Message", said)

    def say(self, **said: Any) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write(json.dumps(said).encode() + b"\n")

    async def speak(self) -> None:
        while True:
            self.say(alive=True)
            await asyncio.sleep(SPEAK_S)

    async def close(self) -> None:
        """What was said is on its way."""
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()
            await self._writer.wait_closed()


class Hub:
    """The first rank's side. `lost` is told the place of a rank that failed or went away."""

    def __init__(self, key: str, size: int, lost: Callable[[int, str], None]) -> None:
        self._key = key
        self._size = size
        self._lost = lost
        self._server: asyncio.Server | None = None
        self._tasks = set[asyncio.Task[None]]()
        # Of those, the ones that have proved nothing yet, the oldest first. They take no room of the gang's own.
        self._strangers: dict[asyncio.Task[None], None] = {}
        self._members = 0
        self.wires: dict[int, Wire] = {}
        self._calls: dict[int, asyncio.Future[int]] = {}
        self._numbers = 0
        self.ready = set[int]()
        self.changed = asyncio.Event()
        # Said to a rank when it comes, once there is something to say.
        self.greeting: Message | None = None
        self.over = False

    async def open(self, address: str, port: int) -> None:
        """Raises OSError when the port is taken."""
        try:
            self._server = await asyncio.start_server(self._connected, address, port, limit=_LINE_MAX)
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, None) and "getaddrinfo" not in str(error):
                raise
            # The address that others know is not one of this machine's own.
            self._server = await asyncio.start_server(self._connected, None, port, limit=_LINE_MAX)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._strangers) >= self._size + _SPARE:
            # A rank proves itself at once. The oldest is the least likely to be one.
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()
        task = asyncio.ensure_future(self._serve(Wire(reader, writer)))
        self._tasks.add(task)
        self._strangers[task] = None
        task.add_done_callback(self._gone)

    def _gone(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._strangers.pop(task, None)

    async def _serve(self, wire: Wire) -> None:
        try:
            with contextlib.suppress(EOFError, KeyError, ValueError, TypeError, RecursionError):
                said = await self._known(wire)
                await self._member(wire, said)
        finally:
            await wire.close()

    async def _member(self, wire: Wire, said: Message) -> None:
        # Of each rank its own connection, and one for each command that runs there.
        if self._members >= 8 * self._size + _SPARE:
            return
        self._members += 1
        wire.say(welcome=True)
        try:
            await (self._call(wire, said) if "call" in said else self._rank(wire, int(said["place"])))
        finally:
            self._members -= 1

    async def _known(self, wire: Wire) -> Message:
        """What a caller that knows the key asks for. Raises EOFError for any other."""
        nonces = _nonce_of(await wire.read(_HELLO_S)), _fresh_nonce()
        wire.say(nonce=nonces[1], proof=_proof(self._key, "hub", nonces).decode())
        said = await wire.read(_HELLO_S)
        asked = {name: value for name, value in said.items() if name != "proof"}
        if not _shows(said, _proof(self._key, "rank", nonces, asked)):
            raise EOFError
        task = asyncio.current_task()
        if task is not None:
            self._strangers.pop(task, None)
        return asked

    async def _rank(self, wire: Wire, place: int) -> None:
        self.wires[place] = wire
        self.changed.set()
        speaking = asyncio.ensure_future(wire.speak())
        why = "went away, or was not heard of for long"
        try:
            if self.greeting is not None:
                wire.say(**self.greeting)
            while True:
                said = await wire.read()
                if said.get("ready"):
                    self.ready.add(place)
                    self.changed.set()
                if "ran" in said and (answer := self._calls.get(said["ran"])) is not None and not answer.done():
                    answer.set_result(int(said["code"]))
                if "failed" in said:
                    why = str(said["failed"])
                    break
        except EOFError:
            pass
        finally:
            speaking.cancel()
            if self.wires.get(place) is wire:
                del self.wires[place]
                self.ready.discard(place)
            if not self.over:
                self._lost(place, why)

    async def _call(self, wire: Wire, said: Message) -> None:
        """A command for another rank. Its answer is the command's exit code."""
        rank = self.wires.get(int(said["call"]))
        if rank is None:
            wire.say(code=255)
            return
        self._numbers += 1
        number, answer = self._numbers, asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        try:
            rank.say(run=number, command=said["command"])
            wire.say(code=await answer)
        finally:
            del self._calls[number]

    async def greet(self, **greeting: Any) -> None:
        """Said to all ranks, also to those that come later."""
        self.greeting = greeting
        for wire in self.wires.values():
            wire.say(**greeting)

    async def all_ready(self, count: int) -> None:
        while len(self.ready) < count:
            self.changed.clear()
            await self.changed.wait()

    async def close(self, code: int) -> None:
        """The program has ended: every rank is told how."""
        self.over = True
        if self._server is not None:
            self._server.close()
        for wire in list(self.wires.values()):
            wire.say(end=code)
        await asyncio.gather(*(wire.close() for wire in list(self.wires.values())))


async def call_hub(address: str, port: int, key: str, within_s: float, **asked: Any) -> Wire | str:
    """The other ranks' side: calls until the first rank has shown that it knows the key, and has taken what is asked
    for. A text, when that is not so in time: why."""
    until = asyncio.get_running_loop().time() + within_s
    while True:
        why = "no process listens there"
        try:
            # A machine that answers nothing at all would be waited for by the kernel, for minutes.
            calling = asyncio.open_connection(address, port, limit=_LINE_MAX)
            wire = Wire(*await asyncio.wait_for(calling, SILENT_S))
        except OSError:
            pass
        else:
            if await _taken(wire, key, asked):
                return wire
            why = "what listens there does not show that it knows the attempt's key"
            await wire.close()
        if asyncio.get_running_loop().time() >= until:
            return why
        await asyncio.sleep(_TRY_S)


async def _taken(wire: Wire, key: str, asked: Message) -> bool:
    own = _fresh_nonce()
    wire.say(nonce=own)
    try:
        said = await wire.read()
        nonces = own, _nonce_of(said)
        if not _shows(said, _proof(key, "hub", nonces)):
            return False
        wire.say(**asked, proof=_proof(key, "rank", nonces, asked).decode())
        return "welcome" in await wire.read()
    except EOFError:
        return False
