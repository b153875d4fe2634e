"""Run times by kind: added together, they are what they would be one by one."""

from hypothesis import given
from hypothesis import strategies as st

from ares.core.forecast.histories import RunHistories

KEYS = st.sampled_from((("a", "x"), ("b", "x"), ("c",)))
STEPS = st.lists(st.one_of(st.tuples(KEYS, st.floats(1.0, 100.0)), st.just("news")), max_size=60)


@given(STEPS)
def test_values_that_wait_to_be_added_change_no_answer(steps: list[tuple[tuple[str, ...], float] | str]) -> None:
    late, at_once = RunHistories({}), RunHistories({})
    for step in steps:
        if isinstance(step, str):
            assert late.news() == at_once.news()
            continue
        late.add(*step)
        at_once.add(*step)
        assert at_once.known
    shown = [[(key, tuple(recent.values)) for key, recent in found.known.items()] for found in (late, at_once)]
    assert shown[0] == shown[1]
    assert late.news() == at_once.news()
