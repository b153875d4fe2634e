"""The gate: every seeded bug must be noticed, by chance within its seeds and by its directed case at once.

A bug that no checker notices shows that the worlds or the checkers are too weak, not that the product is good.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from statistics import median
from typing import Any

import msgspec

from ares.sim.mutants.mutants import MUTANTS, Mutant, switched_on
from ares.sim.mutants.replays import judged as judged_replay
from ares.sim.world.seeds import JudgedSeed, Range, run

# Seeds that a directed case is played with.
_CASE_SEEDS = 3
# Ranges of seeds that have nothing in common.
_APART = 1_000_000


class Caught(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The result of one mutant. Without a rule, no checker noticed it."""

    mutant: str
    what: str
    # The first rule of those expected that noticed it, and after how many seeds of the swarm.
    rule: str = ""
    seeds: int | None = None
    # Its directed case or its trace, and the rule that noticed it there, with every seed.
    case: str = ""
    case_rule: str = ""

    @property
    def ok(self) -> bool:
        """What chance seldom finds must be found by its case, and what has a case by that in any event."""
        return bool(self.case_rule) if self.case else bool(self.rule)


class Measured(msgspec.Struct, frozen=True, rename="camel"):
    """Seeds to catch a mutant by chance, over several ranges of seeds."""

    mutant: str
    ranges: int
    caught: int
    # None where it was not caught in so many ranges that there is none.
    median: float | None
    most: int | None


def gate(names: Iterable[str] = (), budget: int = 0, *, first: int = 0, search: bool = True) -> Iterator[Caught]:
    """One outcome for each mutant. With a `budget` no more seeds than that, and without `search` only directed cases
    where there are any."""
    for name in names or MUTANTS:
        mutant = MUTANTS[name]
        case_rule = _by_case(name, mutant) if mutant.case else _by_trace(name, mutant) if mutant.trace else ""
        searched = not mutant.trace and (search or not mutant.case)
        rule, seeds = _by_chance(name, mutant, first, budget or mutant.seeds) if searched else ("", None)
        yield Caught(name, mutant.what, rule, seeds, mutant.shown_by, case_rule)


def measure(names: Iterable[str] = (), *, ranges: int = 10, budget: int = 500) -> Iterator[Measured]:
    for name in names or (name for name, mutant in MUTANTS.items() if not mutant.trace):
        found = [_by_chance(name, MUTANTS[name], _APART * (1 + place), budget)[1] for place in range(ranges)]
        caught = sorted(seeds for seeds in found if seeds is not None)
        # What was not caught took longer than all that was.
        middle = median(seeds or float("inf") for seeds in found)
        whole = len(caught) == ranges
        yield Measured(
            name, ranges, len(caught), middle if middle != float("inf") else None, caught[-1] if whole else None
        )


def figures(caught: Caught) -> dict[str, Any]:
    """For programs."""
    return {**msgspec.to_builtins(caught), "ok": caught.ok}


def noticed(judged: JudgedSeed, mutant: Mutant) -> str:
    """The first of the expected rules that was broken."""
    return next((violation.rule for violation in judged.violations if violation.rule in mutant.caught_by), "")


def _by_case(name: str, mutant: Mutant) -> str:
    seeds = Range(0, _CASE_SEEDS, name, 1, case=mutant.case, federation=mutant.federation)
    rules = [noticed(judged, mutant) for judged in run(seeds)]
    return rules[0] if all(rules) else ""


def _by_trace(name: str, mutant: Mutant) -> str:
    with switched_on(name):
        found = judged_replay(mutant.trace)
    return next((rule for rule in found if rule in mutant.caught_by), "")


def _by_chance(name: str, mutant: Mutant, first: int, budget: int) -> tuple[str, int | None]:
    """The rule, and how many seeds it took: those before the first that was noticed are all played."""
    rules: dict[int, str] = {}
    best: int | None = None
    with closing(run(Range(first, budget, name, federation=mutant.federation))) as outcomes:
        for judged in outcomes:
            rules[judged.seed] = noticed(judged, mutant)
            if rules[judged.seed] and (best is None or judged.seed < best):
                best = judged.seed
            if best is not None and sum(seed < best for seed in rules) == best - first:
                break
    return ("", None) if best is None else (rules[best], best - first + 1)
