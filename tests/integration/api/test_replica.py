"""A replica that cannot go on ends, so that another process can begin anew."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ares.adapters.store.memory import MemoryStore
from ares.app import connection_file, server, wiring
from ares.app.config import AgentsConfig, Config, HttpConfig, StoreConfig
from ares.ports.clock import Clock
from ares.ports.store import Changes, Compacted, Store, StoreBroken

TIMEOUT_S = 30.0


class Breaks(MemoryStore):
    """Its disk fails when told to, for good."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.breaks = asyncio.Event()

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes | Compacted]:
        stream = aiter(super().watch(prefix, from_revision))
        broken = asyncio.create_task(self.breaks.wait())
        while not broken.done():
            coming = asyncio.ensure_future(anext(stream))
            await asyncio.wait([coming, broken], return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                yield coming.result()
            coming.cancel()
        raise StoreBroken("the store's disk failed")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(
        home=str(tmp_path), http=HttpConfig(port=0), agents=AgentsConfig(port=0), store=StoreConfig(url="memory:")
    )


async def test_a_server_whose_store_broke_for_good_ends_with_an_error(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores: list[Breaks] = []

    async def opened(url: str, clock: Clock) -> Store:
        stores.append(Breaks(clock))
        return stores[0]

    monkeypatch.setattr(wiring, "open_store", opened)
    serving = asyncio.create_task(server._serve(config, asyncio.Event()))
    async with asyncio.timeout(TIMEOUT_S):
        while connection_file.connection(config.home_path) is None:
            await asyncio.sleep(0.01)
        stores[0].breaks.set()
        assert await serving == 1


async def test_a_server_that_is_told_to_stop_ends_well(config: Config) -> None:
    stop = asyncio.Event()
    stop.set()
    async with asyncio.timeout(TIMEOUT_S):
        assert await server._serve(config, stop) == 0
