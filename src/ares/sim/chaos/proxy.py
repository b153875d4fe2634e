"""A TCP proxy that behaves as a bad network does: silent, slow, lossy, half open or reset, each direction by itself.

It stands between two processes and needs no rights. What user space cannot do: a connection is always accepted by
the kernel before the proxy sees it, so "the network swallows it" looks like a peer that accepts and says nothing.
TCP hides lost, doubled and reordered packets: what a process sees of loss is stalls, and a reset in the end.
"""

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType, TracebackType
from typing import Literal, Self

# As the client sees it: "tx" goes to the target, "rx" comes back from it.
Direction = Literal["tx", "rx"]
DIRECTIONS: tuple[Direction, ...] = ("tx", "rx")
# What becomes of a new connection: carried on, accepted and never answered, or reset at once.
Door = Literal["open", "silent", "closed"]

_CHUNK = 16 * 1024
_PIECES_UNDER_WAY = 64
_RST = struct.pack("ii", 1, 0)
# A lost piece is sent again after this long, then twice as long. After this many losses in a row it is given up.
_RESEND_S = 0.2
_RESENDS_MAX = 5
# How finely a slow direction trickles.
_TRICKLE_S = 0.05


@dataclass(frozen=True)
class ProxyWay:
    """How one direction carries bytes."""

    held: bool = False
    delay_s: float = 0.0
    jitter_s: float = 0.0
    # The part of pieces that is lost and sent again.
    loss: float = 0.0
    # Bytes per second; 0 is as fast as they come.
    rate: int = 0
    # Each connection is reset after some number of bytes up to this one; 0 is never.
    reset_within: int = 0


CLEAR = ProxyWay()


class _Connection:
    """Two sockets and what is between them. Everything runs in the proxy's loop."""

    def __init__(self, near: socket.socket) -> None:
        self.near = near
        self.far: socket.socket | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.until_reset: dict[Direction, int] = {}

    def sockets(self) -> list[socket.socket]:
        return [self.near] if self.far is None else [self.near, self.far]


class Proxy:
    """Carries bytes to `target` ("host:port") until told otherwise. Calls from any thread; each has taken effect on
    return. While a direction is held, connections stay up and what is sent waits, as behind a dead switch: it arrives
    when released, if both ends are still there."""

    def __init__(self, target: str, seed: int = 0) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._random = random.Random(seed)
        self._ways: dict[Direction, ProxyWay] = dict.fromkeys(DIRECTIONS, CLEAR)
        self._door: Door = "open"
        self._connections: set[_Connection] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._loop = asyncio.SelectorEventLoop()
        self._changed = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        # Bytes that came out at the other end, ever.
        self.carried: dict[Direction, int] = dict.fromkeys(DIRECTIONS, 0)
        self._waiting: dict[Direction, bytearray] = {direction: bytearray() for direction in DIRECTIONS}

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._listener.close()

    # ---- faults

    def hold(self, *directions: Direction) -> None:
        """Nothing passes in these directions (in none, when none are named) until released."""
        self._tell(lambda: self._set_held(directions, held=True))

    def release(self, *directions: Direction) -> None:
        self._tell(lambda: self._set_held(directions, held=False))

    def cut(self) -> None:
        """Nothing passes either way, and nothing is closed."""
        self.hold(*DIRECTIONS)

    def carry(self, *, tx: ProxyWay = CLEAR, rx: ProxyWay = CLEAR) -> None:
        """From now on each direction carries bytes like this."""
        self._tell(lambda: self._set_ways({"tx": tx, "rx": rx}))

    def door(self, door: Door) -> None:
        """New connections; those that are up are not touched."""

        def close() -> None:
            self._door = door

        self._tell(close)

    def reset(self) -> None:
        """Every connection ends at once with a reset at both ends."""
        self._tell(self._reset_all)

    def half_open(self) -> None:
        """Drops the target's end of every connection without telling the client, whose bytes vanish."""
        self._tell(self._forget_targets)

    def heal(self) -> None:
        """New connections are carried as if nothing had been; so are those that are still up."""
        self.carry()
        self.door("open")

    @property
    def connections(self) -> int:
        """How many are up now."""
        count: list[int] = []
        self._tell(lambda: count.append(len(self._connections)))
        return count[0]

    def waiting(self, direction: Direction) -> bytes:
        """What was sent since the direction was held: by this a test knows that a message is under way."""
        found: list[bytes] = []
        self._tell(lambda: found.append(bytes(self._waiting[direction])))
        return found[0]

    # ---- in the loop's thread

    def _tell(self, act: Callable[[], None]) -> None:
        if not self._thread.is_alive():
            act()
            return
        done = threading.Event()

        def run() -> None:
            act()
            self._changed.set()
            self._changed = asyncio.Event()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()

    def _set_held(self, directions: tuple[Direction, ...], *, held: bool) -> None:
        self._set_ways({direction: replace(self._ways[direction], held=held) for direction in directions})

    def _set_ways(self, ways: Mapping[Direction, ProxyWay]) -> None:
        self._ways.update(ways)
        for direction in ways:
            self._waiting[direction].clear()
        for connection in self._connections:
            connection.until_reset.clear()

    def _reset_all(self) -> None:
        for connection in tuple(self._connections):
            self._end(connection, abruptly=True)

    def _forget_targets(self) -> None:
        for connection in tuple(self._connections):
            for task in connection.tasks:
                task.cancel()
            if connection.far is not None:
                self._close(connection.far, abruptly=True)
                connection.far = None
            connection.tasks = [self._loop.create_task(self._swallow(connection))]

    def _end(self, connection: _Connection, *, abruptly: bool) -> None:
        self._connections.discard(connection)
        for end in connection.sockets():
            self._close(end, abruptly=abruptly)
        for task in connection.tasks:
            task.cancel()

    def _close(self, end: socket.socket, *, abruptly: bool) -> None:
        if end.fileno() < 0:
            return
        # Before its number is given to another socket.
        self._loop.remove_reader(end)
        self._loop.remove_writer(end)
        if abruptly:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
        end.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        accepting = self._loop.create_task(self._accept())
        self._loop.run_forever()
        tasks = [accepting, *(task for connection in self._connections for task in connection.tasks)]
        for connection in tuple(self._connections):
            self._end(connection, abruptly=False)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _accept(self) -> None:
        while True:
            near, _ = await self._loop.sock_accept(self._listener)
            near.setblocking(False)
            if self._door == "closed":
                self._close(near, abruptly=True)
                continue
            connection = _Connection(near)
            self._connections.add(connection)
            serve = self._carry if self._door == "open" else self._swallow
            connection.tasks.append(self._loop.create_task(serve(connection)))

    async def _swallow(self, connection: _Connection) -> None:
        """Takes what is said and never answers."""
        with contextlib.suppress(OSError):
            while await self._loop.sock_recv(connection.near, _CHUNK):
                pass
        self._end(connection, abruptly=False)

    async def _carry(self, connection: _Connection) -> None:
        try:
            await self._until_through("tx")
            far = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            far.setblocking(False)
            connection.far = far
            await self._loop.sock_connect(far, self._target)
            for end in connection.sockets():
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            self._end(connection, abruptly=True)
            return
        ends: dict[Direction, tuple[socket.socket, socket.socket]] = {
            "tx": (connection.near, far),
            "rx": (far, connection.near),
        }
        pumps = [self._loop.create_task(self._pump(connection, way, *pair)) for way, pair in ends.items()]
        connection.tasks.extend(pumps)
        await asyncio.gather(*pumps, return_exceptions=True)
        self._end(connection, abruptly=False)

    async def _pump(
        self, connection: _Connection, direction: Direction, source: socket.socket, sink: socket.socket
    ) -> None:
        """Reads ahead of what it delivers, so that a delay is a delay and not a bottleneck."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES_UNDER_WAY)
        deliver = self._loop.create_task(self._deliver(connection, direction, pieces, sink))
        connection.tasks.append(deliver)
        due = 0.0
        try:
            while True:
                data = await self._loop.sock_recv(source, _CHUNK)
                if self._ways[direction].held:
                    self._waiting[direction] += data
                due = max(due, self._loop.time() + self._late_s(connection, direction))
                await pieces.put((due, data))
                if not data:
                    break
            await deliver
        except OSError:
            # What breaks on one side breaks on the other, once what came before has been carried.
            await pieces.put((due, b""))
            await deliver
            self._end(connection, abruptly=True)

    def _late_s(self, connection: _Connection, direction: Direction) -> float:
        """How long a piece is under way. Loss is what TCP makes of it: a stall that doubles, then a reset."""
        way = self._ways[direction]
        late = way.delay_s + self._random.uniform(-way.jitter_s, way.jitter_s)
        resends = 0
        while way.loss and self._random.random() < way.loss:
            late += _RESEND_S * 2**resends
            resends += 1
            if resends == _RESENDS_MAX:
                self._loop.call_later(late, lambda: self._end(connection, abruptly=True))
                break
        return max(0.0, late)

    async def _deliver(
        self,
        connection: _Connection,
        direction: Direction,
        pieces: "asyncio.Queue[tuple[float, bytes]]",
        sink: socket.socket,
    ) -> None:
        try:
            while data := await self._next(direction, pieces):
                for part in self._parts(connection, direction, data):
                    await self._until_through(direction)
                    await self._loop.sock_sendall(sink, part)
                    self.carried[direction] += len(part)
                    rate = self._ways[direction].rate
                    await asyncio.sleep(len(part) / rate if rate else 0.0)
                    if connection.until_reset.get(direction, 1) <= 0:
                        self._end(connection, abruptly=True)
                        return
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self._end(connection, abruptly=True)

    async def _next(self, direction: Direction, pieces: "asyncio.Queue[tuple[float, bytes]]") -> bytes:
        """When it has arrived; nothing at the end."""
        due, data = await pieces.get()
        await asyncio.sleep(due - self._loop.time())
        await self._until_through(direction)
        return data

    def _parts(self, connection: _Connection, direction: Direction, data: bytes) -> Iterator[bytes]:
        """Each as much as may go at once, by the way it is carried when its turn comes."""
        at = 0
        while at < len(data):
            way, size = self._ways[direction], len(data) - at
            if way.rate:
                size = min(size, max(1, int(way.rate * _TRICKLE_S)))
            if way.reset_within:
                left = connection.until_reset.setdefault(direction, self._random.randint(1, way.reset_within))
                size = min(size, left)
                connection.until_reset[direction] = left - size
            yield data[at : at + size]
            at += size

    async def _until_through(self, direction: Direction) -> None:
        while self._ways[direction].held:
            await self._changed.wait()


# ---- behaviours by name, for tables of tests and for `ares chaos`


def _half_open(proxy: Proxy) -> None:
    proxy.half_open()


def _silence(proxy: Proxy) -> None:
    """Resets every connection, and leaves new ones without an answer."""
    proxy.door("silent")
    proxy.reset()


def _refuse(proxy: Proxy) -> None:
    proxy.door("closed")
    proxy.reset()


_FAR_AWAY = ProxyWay(delay_s=0.075, jitter_s=0.05)
_LOSSY = ProxyWay(loss=0.5)
_BRITTLE = ProxyWay(reset_within=4096)
_TRICKLE = ProxyWay(rate=400)

BEHAVIOURS: Mapping[str, Callable[[Proxy], None]] = MappingProxyType(
    {
        "blackhole-tx": lambda proxy: proxy.hold("tx"),
        "blackhole-rx": lambda proxy: proxy.hold("rx"),
        "blackhole": Proxy.cut,
        "delay": lambda proxy: proxy.carry(tx=_FAR_AWAY, rx=_FAR_AWAY),
        "loss": lambda proxy: proxy.carry(tx=_LOSSY, rx=_LOSSY),
        "half-open": _half_open,
        "reset": lambda proxy: proxy.carry(tx=_BRITTLE, rx=_BRITTLE),
        "slow": lambda proxy: proxy.carry(tx=_TRICKLE, rx=_TRICKLE),
        "silence": _silence,
        "refuse": _refuse,
    }
)
