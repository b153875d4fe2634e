"""Every rule can fail: each case breaks one rule and nothing else, and its near miss breaks none."""

import pytest

from ares.check.invariants.judge import RULES, check
from tests.unit.check.invariants.cases import CASES, Case


def named(case: Case) -> str:
    return f"{case.rule}-{case.name}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_what_is_wrong_is_noticed_by_its_rule_and_by_no_other(case: Case) -> None:
    broken = check(case.make(True)).violations
    # What is wrong with answers makes them fit nowhere, too.
    also = {"linear"} if case.rule in ("E1", "E13", "E16") else set[str]()
    assert {case.rule} == {violation.rule for violation in broken} - also, broken


@pytest.mark.parametrize("case", CASES, ids=named)
def test_what_is_nearly_wrong_is_accepted(case: Case) -> None:
    verdict = check(case.make(False))
    assert verdict.violations == ()


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == set(RULES)
