"""Who is beaten by whom: against the definition, for any numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ares.sim.tune.search import beaten, best

TABLES = st.integers(1, 4).flatmap(
    lambda aims: st.integers(1, 25).flatmap(lambda count: arrays(np.float64, (count, aims), elements=st.integers(0, 5)))
)


def beats(one: np.ndarray, other: np.ndarray) -> bool:
    return bool((one <= other).all() and (one < other).any())


@given(TABLES)
def test_nobody_on_the_front_is_beaten_and_everybody_else_is(table: np.ndarray) -> None:
    front = np.flatnonzero(~beaten(table))
    assert len(front)
    for at in front:
        assert not any(beats(row, table[at]) for row in table)
    for at in set(range(len(table))) - set(front.tolist()):
        # By somebody on the front, or by an equal that came first.
        assert any(beats(table[one], table[at]) or (table[one] == table[at]).all() for one in front)


@given(TABLES, st.integers(1, 30))
def test_the_best_are_taken_layer_by_layer(table: np.ndarray, count: int) -> None:
    kept = best(table, count)
    assert len(kept) == len(set(kept)) == min(count, len(table))
    for left in set(range(len(table))) - set(kept):
        assert not all(beats(table[left], table[one]) for one in kept)
        assert not any(beats(table[left], table[one]) for one in kept)
