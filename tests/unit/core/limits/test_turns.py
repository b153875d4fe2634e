"""Service in turn: a flood of one tenant delays the others by one place a round, however long its queue is."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ares.core.limits.turns import Turns


def drain(turns: Turns[str]) -> list[str]:
    """Who is served, in order, as places become free."""
    served: list[str] = []
    while turns.waiting:
        following = turns.leave()
        assert following is not None
        served.append(following)
    return served


def test_at_once_up_to_the_limit() -> None:
    turns = Turns[str](2, 10, 10)
    assert [turns.enter() for _ in range(3)] == [True, True, False]
    assert turns.leave() is None
    assert turns.enter()


def test_a_flood_is_passed_by_every_other_tenant() -> None:
    """N37: the order of service, not its time, shows it."""
    turns = Turns[str](1, 10_000, 10_000)
    turns.enter()
    for number in range(1000):
        turns.wait("flood", f"flood-{number}")
    for tenant in ("a", "b", "c"):
        for number in range(2):
            turns.wait(tenant, f"{tenant}-{number}")
    served = drain(turns)
    assert served[:8] == ["flood-0", "a-0", "b-0", "c-0", "flood-1", "a-1", "b-1", "c-1"]
    assert served[8:] == [f"flood-{number}" for number in range(2, 1000)]


def test_one_that_comes_late_waits_for_one_of_the_flood_only() -> None:
    turns = Turns[str](1, 10_000, 10_000)
    turns.enter()
    for number in range(500):
        turns.wait("flood", f"flood-{number}")
    for _ in range(100):
        turns.leave()
    turns.wait("late", "late")
    assert [turns.leave(), turns.leave()].index("late") <= 1


def test_bounds() -> None:
    turns = Turns[str](1, 5, 3)
    turns.enter()
    for number in range(3):
        assert turns.full("flood") is None
        turns.wait("flood", str(number))
    assert turns.full("flood") == "tenant"
    assert turns.full("other") is None
    turns.wait("other", "x")
    turns.wait("third", "y")
    assert turns.full("fourth") == "server"


def test_one_that_gave_up_is_passed_over() -> None:
    turns = Turns[str](1, 5, 3)
    turns.enter()
    turns.wait("a", "a-0")
    turns.wait("b", "b-0")
    turns.forget("a", "a-0")
    turns.forget("a", "a-0")
    assert (turns.waiting, drain(turns)) == (1, ["b-0"])
    assert turns.leave() is None
    assert turns.served == 0


@given(st.lists(st.tuples(st.sampled_from(["wait", "leave", "forget"]), st.sampled_from("abcde")), max_size=200))
def test_no_turn_is_lost_and_nobody_is_passed_twice(steps: list[tuple[str, str]]) -> None:
    turns, waiting, number = Turns[str](1, 10**6, 10**6), list[tuple[str, str]](), 0
    turns.enter()
    # How often each that waits was passed by each tenant.
    passed: dict[str, Counter[str]] = {}
    for what, tenant in steps:
        if what == "wait":
            number += 1
            ahead = any(t == tenant for t, _ in waiting)
            waiting.append((tenant, f"{tenant}{number}"))
            turns.wait(tenant, f"{tenant}{number}")
            if not ahead:
                passed[f"{tenant}{number}"] = Counter()
        elif what == "forget":
            for found in [entry for entry in waiting if entry[0] == tenant][-1:]:
                waiting.remove(found)
                passed.pop(found[1], None)
                turns.forget(*found)
        elif waiting:
            served = turns.leave()
            assert served is not None
            waiting.remove((served[0], served))
            passed.pop(served, None)
            for name, counts in passed.items():
                counts[served[0]] += 1
                # The first of its tenant's queue sees each other tenant at most once before its own turn.
                assert counts[served[0]] == 1 or served[0] == name[0]
            following = next((name for t, name in waiting if t == served[0]), None)
            if following is not None:
                passed[following] = Counter()
    assert turns.waiting == len(waiting)
