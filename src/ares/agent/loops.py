"""Loops that belong together: the first that ends, ends the others."""

import asyncio
from collections.abc import Coroutine


async def first_to_end(*loops: Coroutine[None, None, None]) -> None:
    """Runs the loops together. Raises what the first to end was ended by."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
