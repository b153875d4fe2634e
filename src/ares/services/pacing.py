"""Long reads in strides: between two of them everybody else's work has its turn.

A stride is a number of rows, not of milliseconds: a simulation takes the same strides every time.
"""

import asyncio
from contextvars import ContextVar
from typing import Protocol

# Rows of one stride: such that are looked at, and such that are computed or written out.
LOOKED_AT = 2000
WORKED_ON = 64


class Pace(Protocol):
    """For whom the task at hand works."""

    async def rest(self) -> None:
        """Waits for the next stride: at least until others had their turn."""
        ...


# Where a request is served, its tenant's share of the server's time; nowhere else anything.
PACE: ContextVar[Pace | None] = ContextVar("pace", default=None)


async def breathe() -> None:
    """Between two strides."""
    pace = PACE.get()
    await (asyncio.sleep(0) if pace is None else pace.rest())
