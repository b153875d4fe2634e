"""Long work in strides: between two of them other tasks have their turn.

A stride is a number of rows, not of milliseconds: a simulation takes the same strides every time.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Protocol, TypeVar

from ares.core.steps import Steps
from ares.ports.store import Changes

T = TypeVar("T")

# Rows of one stride: rows that are read, and rows that are computed or written out. About a millisecond: every other
# request may have to wait for a stride.
LOOKED_AT = 500
WORKED_ON = 16
# Changes of the store; a submitted job is about four.
TAKEN_IN = 60


class Pace(Protocol):
    """The pace of a task, by the share of the tenant it works for."""

    async def rest(self) -> None:
        """Waits for the next stride: at least until other tasks had their turn."""
        ...


# The pace of a request, by its tenant's share of the server's time. None outside of requests.
PACE: ContextVar[Pace | None] = ContextVar("pace", default=None)


async def breathe() -> None:
    """Called between two strides."""
    pace = PACE.get()
    await (asyncio.sleep(0) if pace is None else pace.rest())


async def stepped(steps: Steps[T]) -> T:
    """The result of a long computation. Other tasks have their turn after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        await breathe()


async def in_parts(batch: Changes) -> AsyncIterator[Changes]:
    """The changes of a batch, a stride at a time."""
    for number, part in enumerate(parts(batch)):
        if number:
            await breathe()
        yield part


def parts(batch: Changes) -> Iterator[Changes]:
    """A batch in parts. Changes of one revision stay together."""
    changes, first = batch.changes, 0
    while len(changes) - first > TAKEN_IN:
        end = first + TAKEN_IN
        while end < len(changes) and changes[end].kv.mod_revision == changes[end - 1].kv.mod_revision:
            end += 1
        if end == len(changes):
            break
        yield Changes(changes[end - 1].kv.mod_revision, changes[first:end])
        first = end
    yield Changes(batch.revision, changes[first:]) if first else batch
