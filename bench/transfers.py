"""(transfer) Bulk bytes of several tenants over one link, a TCP proxy of a fixed rate, against the bare proxy."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

from ares.adapters.clocks import SystemClock
from ares.agent.transfer.transfers import Transfers
from ares.core.transfer.turns import CHUNK_BYTES
from bench.report import Row, judged
from bench.scale import Scale

_MIB = 1 << 20
LINK = 32 * _MIB
USED_TARGET, USED_GOAL, FAIR_TARGET = 0.7, 0.85, 0.05
# Of a proxy that carries the bytes of all connections in turn.
_STEP_S = 0.005
_CONNECTIONS = {"flood": 32, "steady": 4, "stop-and-go": 4}


class Proxy:
    """The link: so many bytes per second of all connections together, and no more than a burst of 50 ms."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._left, self._at = 0.0, time.monotonic()
        self._lock = asyncio.Lock()
        self.arrived = Counter[str]()
        self._carrying = set[asyncio.Task[None]]()

    async def drained(self) -> None:
        """What is under way passes at once."""
        self._rate = 1e15
        await asyncio.gather(*self._carrying)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carrying = asyncio.current_task()
        assert carrying is not None
        self._carrying.add(carrying)
        tenant = (await reader.readline()).decode().strip()
        while data := await reader.read(CHUNK_BYTES // 4):
            await self._pass(len(data))
            self.arrived[tenant] += len(data)
        writer.close()

    async def _pass(self, size: int) -> None:
        async with self._lock:
            while True:
                now = time.monotonic()
                self._left, self._at = min(self._rate * 0.05, self._left + (now - self._at) * self._rate), now
                if self._left > 0:
                    self._left -= size
                    return
                await asyncio.sleep(_STEP_S)


async def rows(scale: Scale, folder: Path) -> list[Row]:
    seconds = 5.0 if scale.jobs > 1000 else 2.0
    bare = await _measured(None, seconds)
    link = sum(bare.values()) / seconds
    # The door is told what the link really gives.
    ours = await _measured(Transfers(SystemClock(), link), seconds)
    used = sum(ours.values()) / seconds
    ratio = used / link
    parts = [ours["flood"], ours["steady"]]
    apart = max(parts) / min(parts) - 1.0
    without = max(bare["flood"], bare["steady"]) / max(1, min(bare["flood"], bare["steady"]))
    return [
        Row(
            "transfer", "three tenants over one link", f"{used / _MIB:,.1f} MiB/s", used,
            f"the proxy without the door: {link / _MIB:,.1f} MiB/s", ratio, f"≥ {USED_TARGET:g}, goal {USED_GOAL:g}",
            judged(ratio >= USED_TARGET), note=f"{seconds:g} s, {sum(_CONNECTIONS.values())} connections",
        ),
        Row(
            "transfer", "a flood of 32 connections beside 4 steady ones", f"{apart:.1%} apart", apart,
            f"without the door {without:,.1f} times as much", None, f"≤ {FAIR_TARGET:.0%}",
            judged(apart <= FAIR_TARGET), note=f"a third tenant stops and goes: {ours['stop-and-go'] / _MIB:,.0f} MiB",
        ),
    ]  # fmt: skip


async def _measured(transfers: Transfers | None, seconds: float) -> Counter[str]:
    """Bytes that arrived in that time, by tenant, after a second of the same."""
    proxy = Proxy(LINK)
    server = await asyncio.start_server(proxy.carry, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with _sending(port, transfers):
        await asyncio.sleep(1.0)
        before, began = Counter(proxy.arrived), time.monotonic()
        await asyncio.sleep(seconds)
        took, found = time.monotonic() - began, proxy.arrived - before
    server.close()
    await proxy.drained()
    return Counter({tenant: round(size * seconds / took) for tenant, size in found.items()})


@contextlib.asynccontextmanager
async def _sending(port: int, transfers: Transfers | None) -> AsyncGenerator[None]:
    tasks = [
        asyncio.create_task(_send(port, transfers, tenant, rests=tenant == "stop-and-go"))
        for tenant, many in _CONNECTIONS.items()
        for _ in range(many)
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(port: int, transfers: Transfers | None, tenant: str, *, rests: bool) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{tenant}\n".encode())
    piece, count = bytes(CHUNK_BYTES), 0
    try:
        while True:
            if transfers is not None:
                await transfers.take(tenant, "output", CHUNK_BYTES)
            writer.write(piece)
            await writer.drain()
            count += 1
            if rests and count % 8 == 0:
                await asyncio.sleep(0.2)
    finally:
        writer.close()
