"""Answers that many viewers share: one look at a time, kept for a moment."""

import asyncio

import pytest

from ares.control.queries.shared_looks import SharedLooks
from tests.clocks import ManualClock


class Counted:
    """A look that waits until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()

    async def look(self) -> int:
        self.begun += 1
        number = self.begun
        await self.go.wait()
        return number


async def test_viewers_of_one_moment_share_one_look() -> None:
    clock, counted = ManualClock(), Counted()
    looks = SharedLooks[str, int](clock, 1.0)
    waiting = [asyncio.create_task(looks.of("a", counted.look)) for _ in range(5)]
    await asyncio.sleep(0)
    counted.go.set()
    assert await asyncio.gather(*waiting) == [1] * 5
    assert await looks.of("a", counted.look) == 1
    assert await looks.of("b", counted.look) == 2, "another key is another look"
    await clock.advance(1.5)
    assert await looks.of("a", counted.look) == 3


async def test_a_viewer_who_leaves_takes_nothing_from_the_others() -> None:
    counted = Counted()
    looks = SharedLooks[str, int](ManualClock(), 1.0)
    first, second = (asyncio.create_task(looks.of("a", counted.look)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    counted.go.set()
    assert await second == 1
    assert first.cancelled()


async def test_a_look_that_failed_is_not_kept() -> None:
    looks = SharedLooks[str, int](ManualClock(), 1.0)

    async def broken() -> int:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await looks.of("a", broken)

    async def whole() -> int:
        return 7

    assert await looks.of("a", whole) == 7
