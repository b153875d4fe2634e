"""Budgets and backoff per failure class."""

from typing import Any

import pytest

from ares.core.lifecycle.retry import FLOOR_S, Again, Final, ceiling_s, decide, limit_of
from ares.model.job import FAILURE_CLASSES, FailureClass, JobSpec, RetryPolicy
from ares.model.state import ExitInfo, JobState, Phase


def _spec(**options: Any) -> JobSpec:
    retry = {key: options.pop(key) for key in list(options) if key in RetryPolicy.__struct_fields__}
    return JobSpec(command=("true",), retry=RetryPolicy(**retry), **options)


def _decide(
    spec: JobSpec, failure: FailureClass, used: int = 0, phase: Phase = "STAGING", code: int | None = None
) -> Again | Final:
    state = JobState(id="j", tenant="t", name="x", phase=phase, retries={failure: used} if used else {})
    return decide(spec, state, ExitInfo(code=code, failure=failure), 0.5)


LIMITS: list[tuple[dict[str, Any], dict[FailureClass, int]]] = [
    ({}, {"exit": 3, "signal": 3, "oom": 3, "time-limit": 0, "node-lost": 10, "staging": 2}),
    ({"limit": 0}, {"exit": 0, "signal": 0, "oom": 0, "time-limit": 0, "node-lost": 10, "staging": 2}),
    ({"limit": 7, "class_limits": {"oom": 0, "node-lost": 1, "time-limit": 2}},
     {"exit": 7, "signal": 7, "oom": 0, "time-limit": 2, "node-lost": 1, "staging": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("options", "expected"), LIMITS)
def test_budgets(options: dict[str, Any], expected: dict[FailureClass, int]) -> None:
    spec = _spec(**options)
    assert {failure: limit_of(spec, failure) for failure in FAILURE_CLASSES} == expected
    for failure, limit in expected.items():
        if limit:
            last = _decide(spec, failure, used=limit - 1)
            assert isinstance(last, Again)
            assert (last.used, last.limit) == (limit, limit)
        assert isinstance(_decide(spec, failure, used=limit), Final)


@pytest.mark.parametrize(
    ("failure", "used", "ceiling"),
    [("exit", 0, 2.0), ("exit", 1, 6.0), ("exit", 2, 18.0), ("exit", 3, 40.0), ("exit", 100, 40.0),
     ("node-lost", 0, 0.5), ("node-lost", 2, 4.5), ("node-lost", 9, 10.0), ("staging", 0, 0.5), ("staging", 9, 30.0)],
)  # fmt: skip
def test_the_ceiling_grows_to_its_cap(failure: FailureClass, used: int, ceiling: float) -> None:
    assert ceiling_s(_spec(base_s=2.0, multiplier=3.0, max_s=40.0), failure, used) == ceiling


def test_a_cap_of_the_job_also_caps_classes_with_their_own() -> None:
    assert ceiling_s(_spec(max_s=3.0), "node-lost", 9) == 3.0


@pytest.mark.parametrize(("jitter", "delay"), [(0.0, 0.5), (0.5, 2.25), (0.999, 3.9965)])
def test_jitter_is_full_above_the_floor(jitter: float, delay: float) -> None:
    state = JobState(id="j", tenant="t", name="x", phase="RUNNING", retries={"exit": 1})
    verdict = decide(_spec(base_s=2.0), state, ExitInfo(code=9, failure="exit"), jitter)
    assert isinstance(verdict, Again)
    assert verdict.delay_s == pytest.approx(delay)
    assert verdict.message == f"exit code 9; retry 2 of 3 in {delay:.1f} s"


@pytest.mark.parametrize("failure", [one for one in FAILURE_CLASSES if one not in ("time-limit", "node-lost")])
@pytest.mark.parametrize("jitter", [0.0, 0.3, 0.999])
def test_no_job_is_tried_again_at_once(failure: FailureClass, jitter: float) -> None:
    state = JobState(id="j", tenant="t", name="x", phase="RUNNING")
    verdict = decide(_spec(base_s=0.0, max_s=0.0), state, ExitInfo(code=9, failure=failure), jitter)
    assert isinstance(verdict, Again)
    assert FLOOR_S <= verdict.delay_s <= 2 * FLOOR_S


def test_the_loss_of_a_node_is_not_the_fault_of_the_job() -> None:
    state = JobState(id="j", tenant="t", name="x", phase="RUNNING")
    verdict = decide(_spec(), state, ExitInfo(failure="node-lost"), 0.0)
    assert isinstance(verdict, Again)
    assert verdict.delay_s == 0.0


@pytest.mark.parametrize("code", [3, 4])
def test_final_exit_codes(code: int) -> None:
    verdict = _decide(_spec(final_exit_codes=(3,)), "exit", code=code)
    assert isinstance(verdict, Final if code == 3 else Again)


@pytest.mark.parametrize("options", [{"restart": "never"}, {"effects": "unsafe"}])
@pytest.mark.parametrize("failure", FAILURE_CLASSES)
@pytest.mark.parametrize("phase", ["STAGING", "RUNNING"])
def test_only_what_certainly_did_not_start_is_repeated(
    options: dict[str, Any], failure: FailureClass, phase: Phase
) -> None:
    spec = _spec(class_limits=dict.fromkeys(FAILURE_CLASSES, 9), **options)
    verdict = _decide(spec, failure, phase=phase)
    assert isinstance(verdict, Again) == (failure == "staging" and phase == "STAGING")


def test_what_would_end_in_the_same_way_again_is_not_repeated() -> None:
    state = JobState(id="j", tenant="t", name="x", phase="STAGING")
    verdict = decide(_spec(), state, ExitInfo(failure="staging", message="no such image", lasting=True), 0.5)
    assert isinstance(verdict, Final)
    assert verdict.message == "could not be started: no such image; another attempt would end in the same way"
    assert isinstance(_decide(_spec(), "staging"), Again)


def test_success_is_not_asked_about() -> None:
    with pytest.raises(ValueError, match="succeeded"):
        decide(_spec(), JobState(id="j", tenant="t", name="x"), ExitInfo(code=0), 0.5)
