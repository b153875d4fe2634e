"""Which drafts share a transaction."""

from hypothesis import given
from hypothesis import strategies as st

from ares.control.state.commit import Pack, WriteDraft, packs
from ares.ports.store import TXN_BYTES_MAX, TXN_OPS_MAX, Compare, Put


class Draft(WriteDraft, frozen=True, gc=False):
    name: str | None

    @property
    def subject(self) -> str | None:
        return self.name


def draft(name: str | None, ops: int = 1, size: int = 10) -> Draft:
    puts = tuple(Put(f"/{name}/{number}", bytes(size)) for number in range(ops))
    return Draft(puts, (Compare(f"/{name}", "mod_revision", 1),), name)


def one_by_one(drafts: list[tuple[int, Draft]]) -> list[list[tuple[int, Draft]]]:
    found: list[list[tuple[int, Draft]]] = []
    pack: Pack[Draft] | None = None
    for place, each in drafts:
        if pack is None or not pack.add(each):
            pack = Pack()
            pack.add(each)
            found.append([])
        found[-1].append((place, each))
    return found


def test_nothing_to_write_is_no_transaction() -> None:
    assert packs([]) == []


DRAFTS = st.lists(
    st.builds(
        draft,
        st.sampled_from(("a", "b", "c", "d", "e", None)),
        st.integers(1, TXN_OPS_MAX // 2),
        st.sampled_from((10, TXN_BYTES_MAX // 40)),
    ),
    max_size=8,
)


@given(DRAFTS)
def test_a_wave_is_weighed_at_once_as_its_drafts_one_by_one(drafts: list[Draft]) -> None:
    numbered = list(enumerate(drafts))
    assert packs(numbered) == one_by_one(numbered)
