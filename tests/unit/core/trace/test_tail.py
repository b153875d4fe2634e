"""Which traces are sent on: all that went wrong, and by its id one in some of the others."""

import pytest
from msgspec.structs import replace

from ares.core.trace.tail import TailReason, TailRules, worth_telling
from ares.model.state import JobState

NONE = TailRules(percent=0.0, slow_s=60.0)
FINE = JobState(
    id="j", tenant="t", name="n", phase="SUCCEEDED", attempt=1, submitted_at=100.0, first_started_at=110.0,
    ended_at=120.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (FINE, None),
        (replace(FINE, phase="FAILED"), "failed"),
        (replace(FINE, phase="UNKNOWN"), "failed"),
        (replace(FINE, phase="CANCELLED"), None),
        (replace(FINE, attempt=2), "retried"),
        (replace(FINE, retry_of="other"), "retried"),
        (replace(FINE, attempt=2, preemptions=1), "preempted"),
        (replace(FINE, attempt=3, preemptions=1), "retried"),
        (replace(FINE, deadline_at=119.0), "late"),
        (replace(FINE, deadline_at=120.0), None),
        (replace(FINE, first_started_at=160.0), "slow"),
        (replace(FINE, first_started_at=159.0), None),
        (replace(FINE, phase="CANCELLED", first_started_at=None, ended_at=160.0), "slow"),
    ],
)
def test_what_went_wrong_is_told(state: JobState, reason: TailReason | None) -> None:
    assert worth_telling(state, NONE) == reason


def test_of_the_others_as_many_as_asked_for_and_always_the_same() -> None:
    states = [replace(FINE, id=f"j{number}") for number in range(4000)]
    taken = [state.id for state in states if worth_telling(state, TailRules(percent=5.0)) == "sampled"]
    assert 140 <= len(taken) <= 260
    assert taken == [state.id for state in states if worth_telling(state, TailRules(percent=5.0)) == "sampled"]
    more = {state.id for state in states if worth_telling(state, TailRules(percent=50.0)) == "sampled"}
    assert set(taken) < more
    assert all(worth_telling(state, TailRules(percent=100.0)) == "sampled" for state in states)
