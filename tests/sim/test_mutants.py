"""Seeded bugs are noticed, so that worlds without violations mean something; directed cases do the product no harm.

That every rule notices a planted violation is for `tests/unit/check/invariants/test_rules.py`.
"""

import os
import random

import pytest

from ares.check.federation.judge import TITLES
from ares.check.invariants.judge import RULES
from ares.core.lifecycle import fences
from ares.sim.federation.cases import FEDERATION_CASES
from ares.sim.gate import gate, measure, noticed
from ares.sim.mutants.mutants import MUTANTS, switched_on
from ares.sim.mutants.replays import KEPT, ORDER, REPLAYS
from ares.sim.mutants.replays import judged as judged_replay
from ares.sim.world.cases import CASES
from ares.sim.world.seeds import Range, replay, replay_federation, run
from tests.platform import say

DIRECTED = [name for name, mutant in MUTANTS.items() if mutant.case]
BY_CHANCE = [name for name, mutant in MUTANTS.items() if not mutant.shown_by]
BY_TRACE = [name for name, mutant in MUTANTS.items() if mutant.trace]


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("ARES_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    say(f"ARES_CHAOS_SEED={chosen}")
    return chosen


# ---- directed cases


@pytest.mark.parametrize("case", CASES)
def test_a_directed_case_runs_to_its_end_and_breaks_no_promise(case: str) -> None:
    _, judged = replay(0, case=case)
    assert judged.violations == ()
    # Also a script that waits in vain is a failure: its case would prove nothing.
    assert judged.failures == ()


@pytest.mark.parametrize("case", FEDERATION_CASES)
def test_a_directed_case_of_a_federation_breaks_no_promise(case: str) -> None:
    outcomes = [replay_federation(seed, case=case)[1] for seed in range(3)]
    assert [judged.violations for judged in outcomes] == [()] * 3


@pytest.mark.parametrize("name", DIRECTED)
def test_a_directed_case_shows_its_bugs(name: str) -> None:
    mutant = MUTANTS[name]
    _, judged = replay_federation(0, name, mutant.case) if mutant.federation else replay(0, name, mutant.case)
    assert noticed(judged, mutant), [violation.rule for violation in judged.violations]


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES)
def test_a_directed_case_breaks_no_promise_with_any_seed(case: str) -> None:
    outcomes = list(run(Range(1, 50, case=case)))
    assert [one.seed for one in outcomes if not one.clean] == []
    assert len(outcomes) == 50


# ---- traces


@pytest.mark.parametrize("name", REPLAYS)
def test_a_replay_breaks_no_promise(name: str) -> None:
    assert judged_replay(name) == ()


@pytest.mark.parametrize("name", BY_TRACE)
def test_a_replay_shows_its_bugs(name: str) -> None:
    (found,) = gate([name])
    assert (found.ok, found.case) == (True, MUTANTS[name].trace), found


# ---- the gate


def test_the_canary_is_noticed_at_once() -> None:
    (found,) = gate(["canary"])
    assert (found.ok, found.rule, found.seeds) == (True, "E1", 1)


def test_the_gate_fails_when_a_bug_goes_unnoticed() -> None:
    """A budget that is too small for it stands for worlds that are too weak."""
    (found,) = gate(["preempted-place-given-away"], 1)
    assert (found.ok, found.rule, found.seeds) == (False, "", None)


def test_some_bugs_are_noticed_by_chance_or_by_their_case(seed: int) -> None:
    names = random.Random(seed).sample(list(MUTANTS), 3)
    found = {one.mutant: one.ok for one in gate(names, search=False)}
    assert found == dict.fromkeys(names, True)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", MUTANTS)
def test_every_bug_is_noticed_within_its_seeds(name: str) -> None:
    (found,) = gate([name])
    say(f"{name}: {found.rule or '-'} after {found.seeds or '-'} seeds; {found.case or '-'}: {found.case_rule or '-'}")
    assert found.ok


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_how_many_seeds_bugs_take() -> None:
    for one in measure(BY_CHANCE, ranges=10, budget=500):
        say(f"{one.mutant}: {one.caught} of {one.ranges} ranges, median {one.median}, most {one.most}")
        assert one.caught == one.ranges


# ---- the table


def test_every_mutant_names_rules_and_a_case_that_exist() -> None:
    assert {rule for mutant in MUTANTS.values() for rule in mutant.caught_by} <= {*RULES, *TITLES, ORDER, KEPT}
    assert {mutant.case for mutant in MUTANTS.values() if mutant.case} <= {*CASES, *FEDERATION_CASES}
    assert {mutant.trace for mutant in MUTANTS.values() if mutant.trace} == set(REPLAYS)


def test_a_mutant_is_put_back_whatever_happens() -> None:
    before = fences.granted
    try:
        with switched_on("fence-not-monotonic"):
            assert fences.granted is not before
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert fences.granted is before


def test_no_mutant_is_left_of_the_product() -> None:
    """Entered and left, each changes nothing: a world played after all of them is the one played before."""
    before = replay(5)[1].digest
    for name in MUTANTS:
        with switched_on(name):
            pass
    assert replay(5)[1].digest == before
