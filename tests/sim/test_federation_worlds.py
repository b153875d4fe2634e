"""Worlds of a global plane and several clusters keep F1 to F14, and each seeded bug is noticed by the rule named."""

import json

import pytest

from ares.check.federation.judge import TITLES
from ares.sim.gate import noticed
from ares.sim.mutants.mutants import MUTANTS
from ares.sim.world.seeds import replay_federation
from tests.sim.test_worlds import sim

SEEDS = 24
BUGS = [name for name, mutant in MUTANTS.items() if mutant.federation]


def test_no_federation_breaks_a_promise() -> None:
    done = sim("run", "--federation", "--seeds", str(SEEDS), "--workers", "1", "-o", "json")
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["broken"] == []
    assert (found["seeds"], done.returncode) == (SEEDS, 0)
    # Every rule was put to the test, and so was every kind of store.
    assert [rule for rule in TITLES if not found["counts"].get(rule)] == []
    assert found["counts"]["StoreRestored"] > SEEDS


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    rules = (noticed(replay_federation(seed, name)[1], mutant) for seed in range(mutant.seeds))
    assert next((rule for rule in rules if rule), "") == mutant.caught_by[0]


def test_a_federation_is_one_history_whatever_the_process() -> None:
    once, again = (sim("replay", "--federation", "--seed", "5", hashes=hashes) for hashes in ("1", "77"))
    assert once.returncode == again.returncode == 0, once.stderr + again.stderr
    assert once.stdout == again.stdout
    assert once.stdout.splitlines()[-1].endswith("every promise was kept")
    assert "is CONFIRMED" in once.stdout


def test_bugs_of_a_federation_are_none_of_other_worlds() -> None:
    refused = sim("run", "--mutant", "start-on-accept", "--seeds", "1")
    assert refused.returncode == 2
    assert "there is no mutant" in refused.stderr
