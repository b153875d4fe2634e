"""When a shadow profile is judged, and what follows from a verdict."""

import pytest
from msgspec.structs import replace

from ares.core.shadow import JOBS_MIN, chance_of, due, sentence, step_after
from ares.model.profile import Profile, ShadowFigures, ShadowJudgement, ShadowRecord

FIGURES = ShadowFigures(
    bounded_slowdown=2.0, mean_wait_s=60.0, mean_jct_s=90.0, p95_wait_s=70.0, p999_wait_s=80.0, longest_wait_s=7200.0
)
FOUND = ShadowJudgement(
    at=2.0, version=3, jobs=250, others=4, since=0.0, until=86_400.0, base=FIGURES,
    shadow=replace(FIGURES, longest_wait_s=3600.0), verdict="better", gain=0.25, chance=0.025, low=0.1, high=0.4,
    blocks=8, of="eighths",
)  # fmt: skip
HELD = ShadowRecord(profile=Profile())


def test_all_looks_together_may_be_wrong_as_often_as_one_of_twenty() -> None:
    assert sum(map(chance_of, range(1, 10_000))) <= 0.05


@pytest.mark.parametrize(
    ("record", "fresh", "expected"),
    [
        (HELD, JOBS_MIN - 1, False),
        (HELD, JOBS_MIN, True),
        # As many again as at the last look.
        (replace(HELD, judgement=FOUND, looks=1), 249, False),
        (replace(HELD, judgement=FOUND, looks=1), 250, True),
        # What was found before it was promoted says nothing about what came after.
        (replace(HELD, judgement=FOUND, looks=0, phase="promoted"), JOBS_MIN, True),
        (replace(HELD, phase="reverted"), 10_000, False),
        (replace(HELD, phase="superseded"), 10_000, False),
    ],
)
def test_each_look_knows_twice_as_much_as_the_one_before(record: ShadowRecord, fresh: int, expected: bool) -> None:
    assert due(record, fresh) is expected


@pytest.mark.parametrize(
    ("phase", "promotes", "verdict", "step"),
    [
        ("held", "when-better", "better", "promote"),
        ("held", "by-hand", "better", "keep"),
        ("held", "when-better", "no-difference", "keep"),
        ("held", "when-better", "waits-longer", "keep"),
        ("held", "when-better", "worse", "keep"),
        ("promoted", "by-hand", "worse", "revert"),
        ("promoted", "by-hand", "waits-longer", "revert"),
        ("promoted", "when-better", "no-difference", "keep"),
        ("promoted", "when-better", "too-few", "keep"),
        ("promoted", "when-better", "better", "keep"),
    ],
)
def test_what_follows_from_a_verdict(phase: str, promotes: str, verdict: str, step: str) -> None:
    record = replace(HELD, phase=phase, promotes=promotes)
    assert step_after(record, replace(FOUND, verdict=verdict)) == step


def test_a_verdict_is_said_with_its_interval_and_the_longest_wait() -> None:
    assert sentence(FOUND) == (
        "better: gain 25.0 % over 250 jobs of 1.0 days, against version 3; between 10.0 and 40.0 % as far as "
        "8 eighths tell, wrong in 2.5 % of such looks; longest wait 2.00 -> 1.00 h"
    )
    assert "how sure that is cannot be said yet" in sentence(replace(FOUND, low=None, high=None))
