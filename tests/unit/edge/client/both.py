"""Runs a call by either client to its value; iterators to a list."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ares.edge.client.aio import AsyncClient
from ares.edge.client.retry import Retry
from ares.edge.client.sync import Client

QUICK = Retry(attempts=4, base_s=0.001, cap_s=0.002)


def drain_async(make: Callable[[AsyncClient], Any], url: str) -> Any:
    async def main() -> Any:
        async with AsyncClient(url, "token", retry=QUICK) as client:
            made = make(client)
            if isinstance(made, AsyncIterator):
                return [item async for item in made]
            return await made

    return asyncio.run(main())


def drain_sync(make: Callable[[Client], Any], url: str) -> Any:
    with Client(url, "token", retry=QUICK) as client:
        made = make(client)
        return list(made) if isinstance(made, Iterator) else made
