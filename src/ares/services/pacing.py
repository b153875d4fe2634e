"""Long reads in strides: between two of them everybody else's work has its turn.

A stride is a number of rows, not of milliseconds: a simulation takes the same strides every time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

# How the task at hand waits for its next stride. Where a request is served, that is for its tenant's share of the time.
PACE: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("pace", default=None)

# Rows of one stride: such that look at a value, and such that compute or write it out.
LOOKED_AT = 2000
WORKED_ON = 64


async def breathe() -> None:
    """Between two strides."""
    pace = PACE.get()
    await (asyncio.sleep(0) if pace is None else pace())
