"""A history in which all is as it should be is accepted; without one of its parts, or in another order, it is not."""

from itertools import pairwise
from pathlib import Path

import pytest

from ares.check.invariants.history import Commit, Event, encode, read
from ares.check.invariants.judge import RULES, check
from tests.unit.check.invariants.forge import legal


def touched(event: Event) -> set[str]:
    """The jobs whose records a commit writes."""
    if not isinstance(event, Commit):
        return set()
    return {write.key for write in event.writes if write.key.startswith("/state/") and write.value is not None}


LEGAL = legal().close()
STEPS = [place for place, event in enumerate(LEGAL) if touched(event)]


def test_a_legal_history_is_accepted_and_tests_every_rule() -> None:
    verdict = check(LEGAL)
    assert verdict.violations == ()
    assert not [rule for rule in RULES if not verdict.counts[rule]]


def test_what_was_written_to_a_file_is_judged_alike(tmp_path: Path) -> None:
    (tmp_path / "history").write_bytes(encode(LEGAL))
    assert check(read(tmp_path / "history")) == check(LEGAL)


@pytest.mark.parametrize("place", STEPS)
def test_a_commit_that_is_missing_or_comes_twice_is_noticed(place: int) -> None:
    assert check(LEGAL[:place] + LEGAL[place + 1 :]).violations
    assert check(LEGAL[: place + 1] + LEGAL[place:]).violations


def test_two_commits_about_one_job_that_changed_places_are_noticed() -> None:
    swaps = 0
    for first, second in pairwise(STEPS):
        if touched(LEGAL[first]) & touched(LEGAL[second]):
            swaps += 1
            forged = list(LEGAL)
            forged[first], forged[second] = forged[second], forged[first]
            assert check(forged).violations, (LEGAL[first], LEGAL[second])
    assert swaps > 10
