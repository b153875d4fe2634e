"""How tests are shared out among workers: long ones first, and none lost."""

from hypothesis import given
from hypothesis import strategies as st

from tests.running import spread


def test_each_part_begins_with_its_share_of_the_long_ones() -> None:
    assert spread(list("abcdefghi"), [["d"], ["g", "h"], ["i"]], [], 3) == list("dabghcief")


def test_half_of_the_workers_begin_with_those_that_compute() -> None:
    assert spread(list("abcdefgh"), [["c", "d"], ["e"]], ["g", "h"], 2) == list("cdgahebf")


def test_a_single_worker_begins_with_all_of_them() -> None:
    assert spread(list("abcd"), [["c"]], ["d"], 1) == list("cdab")


@given(st.sets(st.integers()), st.data(), st.integers(1, 6))
def test_none_is_lost_or_doubled(items: set[int], data: st.DataObject, workers: int) -> None:
    long = data.draw(st.lists(st.sampled_from(sorted(items)), unique=True)) if items else []
    working, waiting = long[::2], long[1::2]
    groups = [waiting[at : at + 3] for at in range(0, len(waiting), 3)]
    assert sorted(spread(sorted(items), groups, working, workers)) == sorted(items)
