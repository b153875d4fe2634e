"""Many writes of one caller: in parts that overlap, and settled as a whole."""

import asyncio
from collections.abc import Sequence

import pytest

from ares.control.state.commit import PART, overlapped


def test_parts_overlap_in_order_and_only_a_few_at_once() -> None:
    under_way, most = 0, 0

    async def write(part: Sequence[int]) -> Sequence[int]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return part

    numbers = list(range(8 * PART + 1))
    found = asyncio.run(overlapped(write, numbers))
    assert [number for part in found for number in part] == numbers
    assert [len(part) for part in found] == [PART] * 8 + [1]
    assert 1 < most < 8


def test_nothing_is_under_way_when_a_failure_is_told() -> None:
    ended: list[int] = []

    async def write(part: Sequence[int]) -> None:
        if part[0] == 0:
            raise OSError("refused")
        await asyncio.sleep(0)
        ended.append(part[0])

    with pytest.raises(OSError, match="refused"):
        asyncio.run(overlapped(write, list(range(4 * PART))))
    assert ended == [PART, 2 * PART, 3 * PART]
