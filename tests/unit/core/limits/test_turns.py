"""Service in turn: a flood of one tenant delays the others by one place a round, however long its queue is."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ares.core.limits import FairTurns


def drain(turns: FairTurns[str], first: str) -> list[str]:
    """Who is served, in order, as each that is served gives its place to the next."""
    served: list[str] = []
    leaving = first
    while turns.waiting:
        ((leaving, following),) = turns.leave(leaving, 0.0)
        served.append(following)
    return served


def test_at_once_up_to_the_limit() -> None:
    turns = FairTurns[str](2, 10, 10)
    assert [turns.enter("a", 0.0) for _ in range(3)] == [True, True, False]
    assert turns.leave("a", 0.0) == []
    assert turns.enter("a", 0.0)


def test_a_flood_is_passed_by_every_other_tenant() -> None:
    """N37: the order of service, not its time, shows it."""
    turns = FairTurns[str](1, 10_000, 10_000)
    turns.enter("flood", 0.0)
    for number in range(1000):
        turns.wait("flood", f"flood-{number}")
    for tenant in ("a", "b", "c"):
        for number in range(2):
            turns.wait(tenant, f"{tenant}-{number}")
    served = drain(turns, "flood")
    assert served[:8] == ["flood-0", "a-0", "b-0", "c-0", "flood-1", "a-1", "b-1", "c-1"]
    assert served[8:] == [f"flood-{number}" for number in range(2, 1000)]


def test_who_is_not_alone_has_a_share() -> None:
    """N37: places stay free for the others, whatever one tenant asks for."""
    turns = FairTurns[str](16, 10_000, 10_000)
    assert all(turns.enter("flood", 0.0) for _ in range(16))
    for number in range(100):
        turns.wait("flood", str(number))
    assert not turns.enter("calm", 0.1)
    turns.wait("calm", "first")
    # The next place is the newcomer's; the flood gets none before it is below its share.
    assert turns.leave("flood", 0.1) == [("calm", "first")]
    assert [turns.leave("flood", 0.2) for _ in range(12)] == [[]] * 11 + [[("flood", "0")]]
    assert all(turns.enter(f"other-{number}", 0.3) for number in range(10))
    assert not turns.enter("flood", 0.4)


def test_who_is_alone_again_has_all_of_it() -> None:
    turns = FairTurns[str](16, 10_000, 10_000)
    turns.enter("calm", 0.0)
    turns.leave("calm", 0.0)
    assert [turns.enter("flood", 0.1) for _ in range(5)] == [True] * 4 + [False]
    for number in range(20):
        turns.wait("flood", str(number))
    assert len(turns.leave("flood", 0.5)) == 1
    assert len(turns.leave("flood", 5.0)) == 13
    assert (turns.served, turns.waiting) == (16, 6)


def test_bounds() -> None:
    turns = FairTurns[str](1, 5, 3)
    turns.enter("flood", 0.0)
    for number in range(3):
        assert turns.full("flood") is None
        turns.wait("flood", str(number))
    assert turns.full("flood") == "tenant"
    assert turns.full("other") is None
    turns.wait("other", "x")
    turns.wait("third", "y")
    assert turns.full("fourth") == "server"


def test_one_that_gave_up_is_passed_over() -> None:
    turns = FairTurns[str](1, 5, 3)
    turns.enter("z", 0.0)
    turns.wait("a", "a-0")
    turns.wait("b", "b-0")
    turns.forget("a", "a-0")
    turns.forget("a", "a-0")
    assert (turns.waiting, drain(turns, "z")) == (1, ["b-0"])
    assert turns.leave("b", 0.0) == []
    assert turns.served == 0


@given(
    places=st.integers(1, 12),
    steps=st.lists(
        st.tuples(st.sampled_from(["come", "come", "leave", "forget"]), st.sampled_from("abc"), st.floats(0.0, 0.7)),
        max_size=200,
    ),
)
def test_no_turn_is_lost(places: int, steps: list[tuple[str, str, float]]) -> None:
    """Never more than there are places, everyone in the order of their own tenant, and nobody waits while there is a
    place that they may have."""
    turns, now, number = FairTurns[str](places, 10**6, 10**6), 0.0, 0
    inside: list[str] = []
    waiting: dict[str, list[str]] = {tenant: [] for tenant in "abc"}
    for what, tenant, pause in steps:
        now += pause
        if what == "come":
            number += 1
            if turns.enter(tenant, now):
                assert not waiting[tenant]
                inside.append(tenant)
            else:
                waiting[tenant].append(f"{tenant}{number}")
                turns.wait(tenant, f"{tenant}{number}")
        elif what == "forget" and waiting[tenant]:
            turns.forget(tenant, waiting[tenant].pop())
        elif what == "leave" and tenant in inside:
            inside.remove(tenant)
            for other, who in turns.leave(tenant, now):
                assert waiting[other].pop(0) == who
                inside.append(other)
            share = max(1, places // 4)
            held = Counter(inside)
            assert len(inside) == places or all(held[name] >= share for name, line in waiting.items() if line)
        assert len(inside) == turns.served <= places
        assert turns.waiting == sum(map(len, waiting.values()))
