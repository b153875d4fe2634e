"""Hostile handshakes against a server with TLS: no growth, nobody is counted on, and others are served."""

import asyncio
import contextlib
import os
import random
import ssl
from pathlib import Path

import psutil
import pytest
import uvloop

from ares.core.limits import ServerLimits
from ares.edge.rest.api import ApiSettings
from tests.integration.api.world import World, open_world
from tests.platform import say
from tests.security.fuzz.wires import handshake
from tests.security.pki import Files, on_loopback

HANDSHAKES = int(os.environ.get("ARES_FUZZ_REQUESTS", "2000")) // 10
SEED = int(os.environ.get("ARES_FUZZ_SEED", "6"))
AT_ONCE = 32
GROWTH_MIB = 64


async def _strike(port: int, data: bytes, *, waits: bool) -> None:
    with contextlib.suppress(ConnectionError, TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            async with asyncio.timeout(5.0):
                # Some leave at once, others wait for what comes of it.
                await (reader.read() if waits else writer.drain())
        finally:
            writer.transport.abort()


async def _served(world: World, files: Files) -> bytes:
    context = ssl.create_default_context(cafile=str(files.ca))
    reader, writer = await asyncio.open_connection("localhost", world.server.port, ssl=context)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    said = await asyncio.wait_for(reader.read(), 60.0)
    writer.close()
    return said


async def _attack(folder: Path) -> None:
    files, rng = on_loopback(folder / "pki"), random.Random(SEED)
    settings = ApiSettings(
        tls_cert=files.cert, tls_key=files.key, limits=ServerLimits(head_s=1.0, connections_per_address_max=2 * AT_ONCE)
    )
    async with open_world(folder, settings) as world:
        rss: list[int] = []
        for _ in range(2):
            for _ in range(0, HANDSHAKES // 2, AT_ONCE):
                sent = [(handshake(rng), rng.random() < 0.2) for _ in range(AT_ONCE)]
                await asyncio.gather(*(_strike(world.server.port, data, waits=waits) for data, waits in sent))
            rss.append(psutil.Process().memory_info().rss >> 20)
        say(f"fuzz: {HANDSHAKES:,} handshakes, RSS {rss} MiB")
        assert rss[1] - rss[0] < GROWTH_MIB, rss
        # One that was still counted would take the place of somebody else.
        said = await asyncio.gather(*(_served(world, files) for _ in range(AT_ONCE)))
        assert {answer[:12] for answer in said} == {b"HTTP/1.1 200"}


@pytest.mark.timeout(1800)
def test_hostile_handshakes(tmp_path: Path) -> None:
    """On the product's event loop."""
    assert uvloop.run(_attack(tmp_path)) is None
