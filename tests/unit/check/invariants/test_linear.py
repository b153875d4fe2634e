"""Calls that overlap: every legal order is accepted, stale reads and lost updates are found."""

import random

import msgspec
import pytest

from ares.check.invariants import linearizability
from ares.check.invariants.history import Answered, Asked, Commit, Event
from ares.check.invariants.linearizability import TimedOperation, misplaced
from tests.unit.check.invariants.cases import CASES
from tests.unit.check.invariants.forge import Forge, legal
from tests.unit.check.invariants.register import history

SEEDS = range(40)


def calls_of(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Commit)]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happened_in_some_order_is_accepted(seed: int) -> None:
    events = history(random.Random(seed))
    assert linearizability.check(events) == ()
    assert linearizability.check(calls_of(events)) == ()


def shown(events: list[Event]) -> list[tuple[int, Answered]]:
    return [(n, one) for n, one in enumerate(events) if isinstance(one, Answered) and one.phase and one.seq > 1]


def stale(events: list[Event], chance: random.Random) -> tuple[list[Event], bool]:
    """One read is shown a state that was over before it asked: with the commits that is always wrong. Without, it is
    when somebody was shown a newer one before that."""
    asked = {one.op: n for n, one in enumerate(events) if isinstance(one, Asked)}
    commits = [n for n, one in enumerate(events) if isinstance(one, Commit)]
    fit = [(n, one, sum(place < asked[one.op] for place in commits)) for n, one in shown(events)]
    place, answer, known = chance.choice([one for one in fit if one[2] > 1])
    old = chance.randrange(1, known)
    state = msgspec.json.decode(events[commits[old - 1]].writes[0].value)  # type: ignore[union-attr]
    spoilt = msgspec.structs.replace(answer, seq=old, phase=state["phase"])
    told = any(n < asked[answer.op] and one.seq > old for n, one in shown(events))
    return [*events[:place], spoilt, *events[place + 1 :]], told


def test_every_stale_read_is_found() -> None:
    found = by_calls = known = 0
    for seed in SEEDS:
        chance = random.Random(seed)
        events, told = stale(history(chance), chance)
        found += bool(linearizability.check(events))
        by_calls += bool(linearizability.check(calls_of(events)))
        known += told
    assert found == len(SEEDS)
    # Without the store's log a stale read is one that contradicts another answer.
    assert len(SEEDS) // 2 < known <= by_calls


def test_a_lost_update_is_found() -> None:
    """A cancel is acknowledged, and the job goes on."""
    found = tried = 0
    for seed in range(200):
        events = history(random.Random(seed), calls=60)
        ends = [n for n, one in enumerate(events) if isinstance(one, Answered) and one.phase == "CANCELLED"]
        if not ends:
            continue
        commit = next(n for n, one in enumerate(events) if isinstance(one, Commit) and "CANCELLED" in str(one))
        # Everybody who saw it is told that it still runs.
        forged = [
            msgspec.structs.replace(one, phase="RUNNING", seq=one.seq - 1)
            if isinstance(one, Answered) and one.phase == "CANCELLED" and n != ends[0] and n > ends[0]
            else one
            for n, one in enumerate(events)
        ]
        if forged == events:
            continue
        tried += 1
        found += bool(linearizability.check(forged)) and bool(
            linearizability.check(forged[:commit] + forged[commit + 1 :])
        )
    assert found == tried > 20


def test_a_read_of_what_is_not_committed_yet_is_found() -> None:
    forge = Forge()
    forge.submit("j1")
    forge.get("j1", phase="STAGING", seq=2)
    forge.bind("j1", "n1")
    (violation,) = linearizability.check(forge.close(quiet=False))
    assert (violation.rule, violation.job) == ("linear", "j1")


def test_an_unknown_cancel_may_land_later_or_never() -> None:
    forge = Forge()
    forge.submit("j1")
    forge.answer(forge.ask("cancel", job="j1"), "unknown")
    forge.get("j1", "c2")
    calls = calls_of(forge.events)
    assert linearizability.check(calls) == ()
    forge.get("j1", "c2", phase="CANCELLED", seq=2)
    assert linearizability.check(calls_of(forge.events)) == ()
    forge.get("j1", "c2", phase="RUNNING", seq=3)
    assert len(linearizability.check(calls_of(forge.events))) == 1


def test_a_restore_takes_states_back() -> None:
    forge = Forge()
    forge.submit("j1")
    then = forge.moment()
    forge.bind("j1", "n1")
    forge.get("j1")
    forge.restore(then)
    forge.get("j1")
    assert linearizability.check(forge.close(quiet=False)) == ()
    forge.get("j1", phase="STAGING", seq=2)
    assert len(linearizability.check(forge.events)) == 1


def test_legal_histories_are_accepted() -> None:
    assert linearizability.check(legal().close()) == ()
    assert [case.name for case in CASES if linearizability.check(case.make(False))] == []


def test_the_search_goes_back_where_the_first_order_was_wrong() -> None:
    """Two writes overlap; only one of their orders explains the reads."""

    def step(now: int, what: tuple[str, int]) -> int | None:
        verb, value = what
        return value if verb == "write" else now if now == value else None

    writes = [TimedOperation(0, 10, ("write", 1)), TimedOperation(1, 9, ("write", 2))]
    assert misplaced([*writes, TimedOperation(11, 12, ("read", 1))], 0, step) is None
    assert misplaced([*writes, TimedOperation(11, 12, ("read", 2))], 0, step) is None
    wrong = TimedOperation(13, 14, ("read", 2))
    assert misplaced([*writes, TimedOperation(11, 12, ("read", 1)), wrong], 0, step) == wrong
    assert misplaced([TimedOperation(0, None, ("write", 5)), TimedOperation(1, 2, ("read", 0))], 0, step) is None
    assert misplaced([TimedOperation(0, None, ("write", 5)), TimedOperation(1, 2, ("read", 5))], 0, step) is None
