import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ares.edge.rest.api import ApiSettings
from ares.edge.rest.direct import Direct
from ares.edge.rpc.server import RpcServer, RpcSettings
from ares.model.access import Role
from tests.integration.api.world import World, open_world
from tests.rpc import RpcClient


@dataclass
class RpcWorld:
    api: World
    server: RpcServer

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    async def without_streams(self) -> None:
        """Waits until no stream is counted."""
        async with self.api.client("admin") as admin:
            while "ares_streams_open 0" not in (await admin.get("/metrics")).text:
                await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def client(self, role: Role = "submitter", tenant: str = "acme") -> AsyncGenerator[RpcClient]:
        async with self.client_with(await self.api.token(role, tenant)) as client:
            yield client

    @contextlib.asynccontextmanager
    async def client_with(self, token: str | None) -> AsyncGenerator[RpcClient]:
        client = RpcClient(self.address, token)
        async with client.channel:
            yield client


@contextlib.asynccontextmanager
async def open_rpc(
    folder: Path, api: ApiSettings = ApiSettings(), settings: RpcSettings = RpcSettings("127.0.0.1", 0)
) -> AsyncGenerator[RpcWorld]:
    async with open_world(folder, api) as world:
        server = RpcServer(Direct(world.app), replace(settings, host="127.0.0.1", port=0), world.services.telemetry)
        await server.start()
        try:
            yield RpcWorld(world, server)
        finally:
            # As the program does it: streams end first, and say why.
            await world.server.stop()
            await server.stop(0.2)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RpcWorld]:
    async with open_rpc(tmp_path) as made:
        yield made
