"""Array indices: whatever is written down comes back, and nothing else gets through."""

from hypothesis import given
from hypothesis import strategies as st

from ares.core.admit.arrays import INDEX_MAX, indices
from ares.core.refusal import Refusal
from ares.model.job import ARRAY_TASKS_MAX

RANGES = st.builds(
    lambda first, count, step: range(first, first + count * step, step),
    st.integers(0, 5000),
    st.integers(1, 30),
    st.integers(1, 50),
)


def _written(span: range) -> str:
    plain = f"{span[0]}-{span[-1]}" if span.step == 1 else f"{span[0]}-{span[-1]}:{span.step}"
    return str(span[0]) if len(span) == 1 else plain


@given(st.lists(RANGES, min_size=1, max_size=6))
def test_ranges_come_back_in_order_or_are_refused_for_repeats(spans: list[range]) -> None:
    expected = [index for span in spans for index in span]
    found = indices(",".join(_written(span) for span in spans))
    if len(set(expected)) == len(expected):
        assert found == tuple(expected)
    else:
        assert isinstance(found, Refusal)


@given(st.text(alphabet="0123456789,:-", max_size=60))
def test_any_text_is_refused_or_within_the_bounds(text: str) -> None:
    found = indices(text)
    if isinstance(found, Refusal):
        assert found.message
    else:
        assert 1 <= len(found) == len(set(found)) <= ARRAY_TASKS_MAX
        assert min(found) >= 0
        assert max(found) <= INDEX_MAX
