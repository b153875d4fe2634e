"""Many calls, some at a time."""

import asyncio
from collections.abc import Awaitable, Callable


async def in_turns(calls: list[Callable[[], Awaitable[None]]], at_once: int = 16) -> None:
    """Makes calls, so many at a time. The first failure is raised when all have ended."""
    gate = asyncio.Semaphore(at_once)

    async def made(call: Callable[[], Awaitable[None]]) -> None:
        async with gate:
            await call()

    for result in await asyncio.gather(*(made(call) for call in calls), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
