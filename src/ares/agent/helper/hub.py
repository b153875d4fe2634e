"""Where ranks of an attempt meet: the first rank listens, the others call, and each side proves that it knows the
attempt's key. The key itself is never sent: another job of the machine may listen at the port before the first rank.

Each message is a line of JSON, bounded. From the proof on, each carries a seal by a key of the connection, over its
side and number: none can be made, changed, repeated or left out on the way. Both sides speak at least every second; a
side that is not heard for SILENT_S is frozen or gone.
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
_TRY_S = 0.05

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
    """One connection. `read` raises EOFError when the other side is gone or silent, or not who it was."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # The connection's key, and the sides' names: that of this one first. None before the proofs.
        self._sealed: tuple[bytes, str, str] | None = None
        self._said = self._heard = 0

    def seal(self, key: str, nonces: "tuple[str, str]", *, hub: bool) -> None:
        """From here on both sides seal what they say."""
        self._sealed = (_proof(key, "wire", nonces), *(("hub", "rank") if hub else ("rank", "hub")))

    def _seal_of(self, side: int, number: int, text: bytes) -> bytes:
        assert self._sealed is not None
        words = f"{self._sealed[side]} {number} ".encode()
        return hmac.digest(self._sealed[0], words + text, "sha256").hex().encode()

    async def read(self, within_s: float | None = SILENT_S) -> Message:
        try:
            line = await asyncio.wait_for(self._reader.readline(), within_s)
            said: Any = json.loads(self._opened(line)) if line.endswith(b"\n") else None
        except (TimeoutError, ValueError, RecursionError, OSError):
            said = None
        if not isinstance(said, dict):
            raise EOFError
        return cast("Message", said)

    def _opened(self, line: bytes) -> bytes:
        """What was said. Raises ValueError when the other side did not say it."""
        if self._sealed is None:
            return line
        seal, _, text = line[:-1].partition(b" ")
        self._heard += 1
        if not hmac.compare_digest(seal, self._seal_of(2, self._heard, text)):
            raise ValueError("a message without its seal")
        return text

    def say(self, **said: Any) -> None:
        text = json.dumps(said).encode()
        if self._sealed is not None:
            self._said += 1
            text = self._seal_of(1, self._said, text) + b" " + text
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write(text + b"\n")

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
    """The first rank's side. `lost` is told the place of a rank that failed or went away; `failed` that of one whose
    program failed, and which is still there."""

    def __init__(
        self,
        key: str,
        size: int,
        lost: Callable[[int, str], None],
        failed: Callable[[int], None] | None = None,
    ) -> None:
        self._key = key
        self._size = size
        self._lost = lost
        self._failed = failed
        self._server: asyncio.Server | None = None
        self._tasks = set[asyncio.Task[None]]()
        # Of those, the ones that have proved nothing yet, the oldest first. They take no room of the gang's own.
        self._strangers: dict[asyncio.Task[None], None] = {}
        self._members = 0
        self.wires: dict[int, Wire] = {}
        # When each rank was last heard.
        self.heard: dict[int, float] = {}
        self._calls: dict[int, asyncio.Future[int]] = {}
        self._numbers = 0
        self.ready = set[int]()
        # Ports that ranks picked for themselves.
        self.ports: dict[int, list[int]] = {}
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
        if self._members >= 8 * self._size + _SPARE:
            return
        self._members += 1
        wire.say(welcome=True)
        try:
            await self._rank(wire, int(said["place"]))
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
        wire.seal(self._key, nonces, hub=True)
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
                self.heard[place] = asyncio.get_running_loop().time()
                if said.get("waits") and self._failed is not None:
                    self._failed(place)
                if said.get("ready"):
                    self.ports[place] = [int(port) for port in said.get("ports", ())]
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

    async def run(self, place: int, command: str) -> int:
        """A command on another rank, once it has come. Its exit code; 255, as ssh has it, where it cannot be run."""
        if not 0 < place < self._size:
            return 255
        while place not in self.wires:
            self.changed.clear()
            await self.changed.wait()
        self._numbers += 1
        number, answer = self._numbers, asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        try:
            self.wires[place].say(run=number, command=command)
            return await answer
        finally:
            del self._calls[number]

    def tell(self, place: int, **said: Any) -> None:
        if (wire := self.wires.get(place)) is not None:
            wire.say(**said)

    async def greet(self, **greeting: Any) -> None:
        """Said to all ranks, also to those that come later."""
        self.greeting = greeting
        for wire in self.wires.values():
            wire.say(**greeting)

    async def all_ready(self, count: int) -> None:
        while len(self.ready) < count:
            self.changed.clear()
            await self.changed.wait()

    async def all_heard(self, since: float) -> bool:
        """Whether every other rank of the gang speaks after that time. One that does not is gone before long."""
        others = range(1, self._size)
        while all(place in self.wires for place in others):
            if all(self.heard.get(place, 0.0) > since for place in others):
                return True
            await asyncio.sleep(_TRY_S)
        return False

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
        wire.seal(key, nonces, hub=False)
        return "welcome" in await wire.read()
    except EOFError:
        return False
