"""Waiting for an event or for time to pass, whichever comes first, by the injected clock."""

import asyncio

from ares.ports.clock import Clock


async def happens(event: asyncio.Event, clock: Clock, within_s: float) -> bool:
    """True as soon as the event is set; False when the time is over first."""
    if event.is_set() or within_s <= 0:
        return event.is_set()
    tasks = (asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(within_s)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    return event.is_set()
