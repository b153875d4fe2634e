"""Credentials of connected nodes are looked at again and again: of a thousand nodes, never of all in one go."""

from collections import Counter

import pytest

from ares.edge.grpc.agents import until_turn_s

EVERY_S, SLICES = 2.0, 20


@pytest.mark.parametrize("now", [0.0, 12_345.678])
def test_nodes_have_their_turns_at_different_times(now: float) -> None:
    due = [until_turn_s(f"node-{number:04}", EVERY_S, now) for number in range(1000)]
    assert all(0.0 < wait_s <= EVERY_S for wait_s in due)
    slices = Counter(int(wait_s * SLICES / EVERY_S) for wait_s in due)
    assert max(slices.values()) < 3 * 1000 / SLICES


def test_a_turn_comes_once_in_a_period() -> None:
    first_s = until_turn_s("n1", EVERY_S, 100.0)
    assert until_turn_s("n1", EVERY_S, 100.0 + first_s + 0.001) == pytest.approx(EVERY_S - 0.001)
