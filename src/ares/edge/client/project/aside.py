"""Work beside a client's own: in the blocking client at once, in the asynchronous one without holding up its loop."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
# Requests under way at once: while the server writes one, the next is on its way.
_AT_ONCE = 3


class WorkAside:
    """Of the blocking client."""

    @staticmethod
    def run(work: Callable[[], T]) -> T:
        return work()

    @staticmethod
    def together(work: Callable[[], None]) -> None:
        """Several threads do it; the first failure is raised."""
        with ThreadPoolExecutor(_AT_ONCE, "shipping") as pool:
            for turn in [pool.submit(work) for _ in range(_AT_ONCE)]:
                turn.result()


class AsyncWorkAside:
    """Of the asynchronous client."""

    @staticmethod
    async def run(work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    @staticmethod
    async def together(work: Callable[[], Awaitable[None]]) -> None:
        """Several tasks do it; the first failure is raised."""
        turns = [asyncio.ensure_future(work()) for _ in range(_AT_ONCE)]
        try:
            await asyncio.gather(*turns)
        finally:
            for turn in turns:
                turn.cancel()
