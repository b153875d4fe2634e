"""The bound on waiting: held by every profile that has one, and broken by schedulers that were broken on purpose."""

import sys
from collections.abc import Callable
from functools import cache

import pytest
from msgspec.structs import replace

from ares.api.decisions import Promise
from ares.check.replay.rules import ReplayVerdict, rules_of
from ares.core.queue import kept_turns
from ares.core.queue.factors import FACTORS
from ares.core.schedule.actions.backfill import BackfillPass
from ares.core.schedule.trial import Trial
from ares.model.profile import Weight
from ares.sim.traces.policies import POLICIES, ReplayPolicy, policy
from tests.unit.check.replay.made import judged, some
from tests.unit.sim.traces.heavy import crowded, heavy
from tests.unit.sim.traces.made import job, trace

BOUNDED = ("default", "easy@predicted", "easy-sjbf@predicted", "aggressive@predicted")
ENDLESS = ("greedy", "edf", "deadline", "sjf", "sjf-backfill", "f1", "f1-backfill", "fair-share")


@cache
def _crowded(name: str) -> ReplayVerdict:
    return judged(crowded(2), _held(name))


def _held(name: str) -> ReplayPolicy:
    """With room held by the longest that is known, so that promises have a bound."""
    by = policy(name)
    return replace(by, profile=replace(by.profile, backfill=replace(by.profile.backfill, hold="longest")))


def test_every_policy_has_a_bound_or_says_that_it_has_none() -> None:
    found = {name for name, one in POLICIES.items() if not one.oracle and _endless(one)}
    assert found == set(ENDLESS)


def _endless(one: ReplayPolicy) -> bool:
    return any("no bound on waiting" in why for why in rules_of(one.profile).not_judged)


@pytest.mark.parametrize("name", BOUNDED)
def test_waits_are_within_their_bound(name: str) -> None:
    found = _crowded(name)
    assert not found.broken, "\n".join(found.words())
    assert found.bounded > 3
    # Overruns are the point: the bound is about what comes after them.
    assert found.slipped > 3 or name == "aggressive@predicted"


@pytest.mark.parametrize("name", ["default", "deadline@predicted", "fair-share@predicted"])
def test_so_are_those_of_one_that_needs_every_node(name: str) -> None:
    found = judged(heavy(0, 150), policy(name))
    assert not found.broken, "\n".join(found.words())
    assert found.bounded


def test_gpus_shares_and_gangs_are_within_theirs() -> None:
    found = judged(some(2), POLICIES["default"])
    assert not found.broken, "\n".join(found.words())
    assert found.bounded > 3


# ---- seeded bugs


def _the_nearest_room(patch: pytest.MonkeyPatch) -> None:
    """A promise that slipped goes wherever room is thought to come free first, and what was kept for it is lost."""

    def nowhere(_trial: Trial, _told: Promise, _runs_s: float) -> None:
        return None

    patch.setattr(sys.modules[BackfillPass.__module__], "in_its_room", nowhere)


def _from_its_new_start(patch: pytest.MonkeyPatch) -> None:
    """The room opens again to others when a promise slips."""

    def held_from(_self: BackfillPass, start: float, _told: Promise | None) -> float:
        return start

    patch.setattr(BackfillPass, "_held_from", held_from)


@pytest.mark.parametrize("bug", [_the_nearest_room, _from_its_new_start], ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", ["default", "easy-sjbf@predicted"])
def test_room_that_is_not_kept_is_found(
    name: str, bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    found = judged(crowded(2), _held(name))
    assert any("all that were in its room before" in one for one in found.violations), "\n".join(found.words())


def test_a_turn_that_is_lost_to_who_holds_less_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before turns were kept, the tenant that held least at the moment came first, and a promise was worth nothing."""
    monkeypatch.setattr(kept_turns, "_PROMISING", frozenset[str]())
    found = judged(crowded(2), policy("default"))
    assert any("lost its turn to" in one for one in found.violations), "\n".join(found.words())


def test_an_order_in_which_waiting_counts_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of an account that holds nothing come first, however late they come."""

    def nothing(*_: object) -> float:
        return 0.0

    monkeypatch.setitem(FACTORS, "age", nothing)
    day = 86_400.0
    busy = [job(0, 9 * day, 2, tenant="a", expected_runtime_s=9 * day)]
    waits = [job(1 + n, day, 3, tenant="a", expected_runtime_s=day) for n in range(3)]
    young = [job(n * day, day, 3, tenant=f"t{n}", expected_runtime_s=day) for n in range(1, 12)]
    found = judged(trace(*busy, *waits, *young), policy("default@exact"))
    assert any("comes first, " in one for one in found.violations), "\n".join(found.words())


def test_an_order_in_which_width_counts_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide job that has waited for a day does not come after a narrow one that is an hour younger, whatever its
    tenant holds: the checker has that from widths and times alone."""
    hour = 3600.0
    busy = [job(0, length * hour, 8, tenant="a", expected_runtime_s=length * hour) for length in (24, 48)]
    first = job(1, 48 * hour, 8, tenant="p", expected_runtime_s=48 * hour)
    wide = job(2, hour, 8, tenant="a", expected_runtime_s=hour)
    narrow = job(hour, 24 * hour, 3, tenant="n", expected_runtime_s=24 * hour)
    made = trace(*busy, first, wide, narrow, cpus=16)
    kept = judged(made, policy("default@exact"))
    assert (kept.broken, kept.bounded) == (0, 3), "\n".join(kept.words())

    def nothing(*_: object) -> float:
        return 0.0

    monkeypatch.setitem(FACTORS, "size", nothing)
    found = judged(made, policy("default@exact"))
    assert any("job j4 comes first, 3598 s younger" in one for one in found.violations), "\n".join(found.words())


def test_in_the_order_of_the_default_profile_nobody_comes_first_for_ever() -> None:
    order = POLICIES["default"].profile.order
    rules = rules_of(POLICIES["default"].profile)
    assert rules.turn_s == pytest.approx(6 * 3600 * 1.3)
    assert (rules.width_s, rules.ageing_s) == (12 * 3600.0, 6 * 3600.0)
    assert (rules.level_s, rules.deadline_s) == (6 * 3600.0, pytest.approx(0.8 * 6 * 3600))
    plain = replace(order, primary=(Weight(name="priority", weight=1.0), Weight(name="age", weight=1.0)))
    assert rules_of(replace(POLICIES["default"].profile, order=plain)).turn_s == 0.0
