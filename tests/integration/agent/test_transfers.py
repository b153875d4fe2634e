"""The door for bulk bytes with real sockets: a TCP proxy is the link. Judged by bytes that arrived."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator

import pytest

from ares.adapters.clocks import SystemClock
from ares.agent.transfer.transfers import Transfers
from ares.core.transfer.turns import CHUNK_BYTES

MIB = 1 << 20
# Slow enough for any machine: what is measured is the door, not the processor.
LINK = 16 * MIB


@contextlib.asynccontextmanager
async def link() -> AsyncGenerator[tuple[int, Counter[str]]]:
    """A proxy to a sink that counts what arrives, by the tenant that a connection begins with."""
    arrived = Counter[str]()

    async def sink(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tenant = (await reader.readline()).decode().strip()
        while data := await reader.read(CHUNK_BYTES):
            arrived[tenant] += len(data)
        writer.close()

    end = await asyncio.start_server(sink, "127.0.0.1", 0)
    port = end.sockets[0].getsockname()[1]

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, onward = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                onward.write(data)
                await onward.drain()
        onward.close()
        writer.close()

    middle = await asyncio.start_server(proxy, "127.0.0.1", 0)
    try:
        yield middle.sockets[0].getsockname()[1], arrived
    finally:
        middle.close()
        end.close()


async def sends(port: int, transfers: Transfers, tenant: str, *, rests: int = 0) -> None:
    """A job that uploads as fast as it may; with `rests`, it pauses after so many pieces."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{tenant}\n".encode())
    piece, count = bytes(CHUNK_BYTES), 0
    try:
        while True:
            await transfers.take(tenant, "output", CHUNK_BYTES)
            writer.write(piece)
            await writer.drain()
            count += 1
            if rests and count % rests == 0:
                await asyncio.sleep(0.05)
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def sending(port: int, transfers: Transfers, jobs: dict[str, int], **more: int) -> AsyncGenerator[None]:
    tasks = [
        asyncio.create_task(sends(port, transfers, name, **more)) for name, many in jobs.items() for _ in range(many)
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def window(arrived: Counter[str], size: int) -> Counter[str]:
    """What arrives until so many bytes have, after the first half of a second's worth."""
    until_at_least = LINK // 2
    while arrived.total() < until_at_least:
        await asyncio.sleep(0.01)
    before = Counter(arrived)
    while (arrived - before).total() < size:
        await asyncio.sleep(0.01)
    return arrived - before


async def test_a_flood_of_forty_connections_gets_no_more_than_one_with_eight() -> None:
    transfers = Transfers(SystemClock(), LINK)
    async with link() as (port, arrived), sending(port, transfers, {"flood": 40, "calm": 8}):
        found = await window(arrived, 2 * LINK)
    assert found["flood"] == pytest.approx(found["calm"], rel=0.05)


async def test_a_tenant_with_a_rate_leaves_the_rest_to_the_other() -> None:
    transfers = Transfers(SystemClock(), LINK)
    transfers.set_rate("limited", LINK * 0.9 / 4)
    async with link() as (port, arrived), sending(port, transfers, {"limited": 8, "other": 8}):
        found = await window(arrived, 2 * LINK)
    # A burst and a few pieces under way are all that may differ.
    assert found["limited"] / found.total() == pytest.approx(0.25, abs=0.03)
