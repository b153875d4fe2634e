"""Classes of service, run times by GPU model, latest starts, and whether a deadline was met."""

from typing import Any

import pytest
from msgspec.structs import replace

from ares.core.admit.admission import dated, unknown
from ares.core.forecast.estimate import fastest, runs_by_model, runs_on, stated
from ares.core.lifecycle.deadline import budget_left, decided_at, outcome
from ares.core.queue.drf import Amounts
from ares.core.queue.factors import JobFacts, latest_start
from ares.core.queue.factors.deadline import deadline
from ares.core.queue.shares import Shares
from ares.core.queue.usage import DecayedUsage
from ares.core.schedule.profiles import BadSetting, changed, wrong
from ares.model.job import JobSpec
from ares.model.profile import OrderPolicy, Profile, Sla
from ares.model.state import JobState, Phase

HOUR = 3600.0
SLAS = {"gold": Sla(end_within_s=HOUR), "both": Sla(start_within_s=60.0, end_within_s=HOUR)}
SHARES = Shares(Amounts(0, 0, 0), {}, DecayedUsage(1.0), 0.0)


def _spec(**said: Any) -> JobSpec:
    return JobSpec(command=("true",), **said)


# ---- classes of service


def test_a_class_gives_times_from_submission_and_overrides_those_of_an_earlier_one() -> None:
    first = dated(_spec(sla="both"), SLAS, 1000.0)
    assert (first.start_by_at, first.deadline_at) == (1060.0, 1000.0 + HOUR)
    # Tried again later, with what was stored.
    assert dated(first, SLAS, 5000.0).deadline_at == 5000.0 + HOUR
    assert dated(replace(first, sla="gold"), SLAS, 0.0).start_by_at is None
    own = _spec(deadline_at=7.0)
    assert dated(own, SLAS, 0.0) is own


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({}, None),
        ({"sla": "gold"}, None),
        ({"sla": "silver"}, "sla-unknown"),
        ({"sla": "gold", "deadline_at": 5.0}, "sla-and-deadline"),
        ({"sla": "gold", "start_by_at": 5.0}, "sla-and-deadline"),
    ],
)
def test_who_may_name_a_class(said: dict[str, Any], code: str | None) -> None:
    no = unknown(_spec(**said), SLAS)
    assert (None if no is None else no.code) == code


def test_without_any_class_that_is_said() -> None:
    no = unknown(_spec(sla="gold"), {})
    assert no is not None
    assert "defines none" in no.message


def test_classes_are_set_by_name() -> None:
    made = changed(Profile(), {"slas.gold.end_within_s": "3600", "slas.gold.start_within_s": "60"})
    assert made.slas == {"gold": Sla(start_within_s=60.0, end_within_s=HOUR)}
    assert changed(made, {"slas.gold.start_within_s": ""}).slas == {"gold": Sla(end_within_s=HOUR)}
    assert changed(made, {"slas.gold": ""}).slas == {}
    assert "asks for nothing" in wrong(changed(made, {"slas.silver.end_within_s": ""}))
    for key in ("slas.gold", "slas.gold.within", "slas.gold.end_within_s"):
        with pytest.raises(BadSetting):
            changed(Profile(), {key: "soon"})


# ---- whether it was met


def _state(phase: Phase, **said: Any) -> JobState:
    return JobState(id="j", tenant="t", name="n", phase=phase, **said)


@pytest.mark.parametrize(
    ("phase", "said", "met"),
    [
        ("SUCCEEDED", {"ended_at": 10.0}, None),
        ("SUCCEEDED", {"deadline_at": 10.0, "ended_at": 10.0}, "met"),
        ("SUCCEEDED", {"deadline_at": 10.0, "ended_at": 10.1}, "missed"),
        ("FAILED", {"deadline_at": 10.0, "ended_at": 5.0}, "missed"),
        ("UNKNOWN", {"deadline_at": 10.0}, "missed"),
        ("CANCELLED", {"deadline_at": 10.0, "ended_at": 50.0}, None),
        ("RUNNING", {"deadline_at": 10.0}, None),
        ("PENDING", {"start_by_at": 10.0}, None),
        ("RUNNING", {"start_by_at": 10.0, "first_started_at": 10.0}, "met"),
        ("PENDING", {"start_by_at": 10.0, "first_started_at": 9.0}, "met"),
        ("RUNNING", {"start_by_at": 10.0, "first_started_at": 10.5}, "missed"),
        ("FAILED", {"start_by_at": 10.0}, "missed"),
        ("CANCELLED", {"start_by_at": 10.0}, None),
        ("CANCELLED", {"start_by_at": 10.0, "first_started_at": 9.0}, "met"),
        # Both: decided when both are, or one is missed.
        ("RUNNING", {"start_by_at": 10.0, "first_started_at": 9.0, "deadline_at": 20.0}, None),
        ("RUNNING", {"start_by_at": 10.0, "first_started_at": 11.0, "deadline_at": 20.0}, "missed"),
        ("SUCCEEDED", {"start_by_at": 10.0, "first_started_at": 9.0, "deadline_at": 20.0, "ended_at": 15.0}, "met"),
        ("SUCCEEDED", {"start_by_at": 10.0, "first_started_at": 9.0, "deadline_at": 20.0, "ended_at": 25.0}, "missed"),
    ],
)
def test_outcomes(phase: Phase, said: dict[str, Any], met: str | None) -> None:
    assert outcome(_state(phase, **said)) == met


# ---- how long, and how late at the latest


def test_models_are_matched_by_words_the_most_exact_first() -> None:
    runs = runs_by_model(_spec(expected_runtimes_s={"A100": 10.0, "A100 80GB": 7.0, "V100": 20.0}))
    found = [runs_on(runs, name) for name in ("NVIDIA A100-SXM4-80GB", "A100-40GB", "Tesla V100", "T4")]
    assert found == [7.0, 10.0, 20.0, 20.0]
    assert fastest(runs) == 7.0


def test_on_other_models_it_runs_as_long_as_it_says_of_itself_and_never_beyond_its_limit() -> None:
    spec = _spec(expected_runtimes_s={"A100": 10.0, "V100": 50.0}, expected_runtime_s=30.0, time_limit_s=40.0)
    runs = runs_by_model(spec)
    assert [runs_on(runs, model) for model in ("A100", "V100", "T4")] == [10.0, 40.0, 30.0]
    for model, seconds in (("A100", 10.0), ("V100", 40.0), ("T4", 30.0), (None, 30.0)):
        found = stated(spec, model)
        assert found is not None
        assert found.seconds == seconds


@pytest.mark.parametrize(
    ("said", "runs_s", "start"),
    [
        ({}, 5.0, None),
        ({"deadline_at": 100.0}, float("inf"), 100.0),
        ({"deadline_at": 100.0, "time_limit_s": 60.0}, float("inf"), 40.0),
        # What is known of its kind says more than a limit, and less than the job itself.
        ({"deadline_at": 100.0, "time_limit_s": 60.0}, 20.0, 80.0),
        ({"deadline_at": 100.0, "expected_runtime_s": 30.0}, 20.0, 70.0),
        ({"deadline_at": 100.0, "expected_runtimes_s": {"A100": 10.0, "V100": 20.0}}, 20.0, 90.0),
        ({"start_by_at": 50.0}, 20.0, 50.0),
        ({"start_by_at": 50.0, "deadline_at": 60.0}, 20.0, 40.0),
    ],
)
def test_the_latest_start(said: dict[str, Any], runs_s: float, start: float | None) -> None:
    assert latest_start(_spec(**said), runs_s) == start


def test_slack_counts_from_the_horizon_and_no_more_once_it_is_gone() -> None:
    order = OrderPolicy(horizon_s=100.0)
    values = [
        deadline(JobFacts(2, 0.0, start, "t/d/n"), SHARES, order, 1000.0)
        for start in (None, 1200.0, 1100.0, 1050.0, 1000.0, 5.0)
    ]
    assert values == [0.0, 0.0, 0.0, 0.5, 1.0, 0.0]


# ---- targets and error budgets


@pytest.mark.parametrize(
    ("met", "missed", "target", "left"),
    [(0, 0, 95.0, None), (20, 0, 95.0, 100.0), (19, 1, 95.0, 0.0), (411, 3, 95.0, 85.51), (9, 1, 95.0, -100.0),
     (5, 0, 100.0, 0.0), (5, 1, 100.0, -100.0)],
)  # fmt: skip
def test_what_is_left_of_an_error_budget(met: int, missed: int, target: float, left: float | None) -> None:
    assert budget_left(met, missed, target) == left


def test_when_a_deadline_was_decided() -> None:
    base = JobState(id="j", tenant="t", name="n", submitted_at=1.0)
    starts = replace(base, start_by_at=10.0, first_started_at=5.0, phase="RUNNING")
    assert decided_at(starts) == 5.0
    ends = replace(base, deadline_at=10.0, first_started_at=5.0, phase="RUNNING")
    assert decided_at(ends) is None
    assert decided_at(replace(ends, phase="SUCCEEDED", ended_at=9.0)) == 9.0
    assert decided_at(replace(ends, phase="CANCELLED", ended_at=9.0)) is None
