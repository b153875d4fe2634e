"""What room is held for: never less than was stated, and the longest that is known where nothing was."""

from typing import Any

from ares.core.forecast.predictor import Predictor
from ares.model.job import JobSpec, Resources
from ares.model.profile import PredictionPolicy

ME = "t/team/me"
HOUR = 3600.0


def job(**said: Any) -> JobSpec:
    return JobSpec(command=("true",), resources=Resources(cpu_milli=1000, memory_mib=1), **said)


def held(predictor: Predictor, spec: JobSpec) -> float:
    found = predictor.estimate(spec, ME)
    assert found is not None
    return found.hold_s


def taught(spec: JobSpec, *runs: float) -> Predictor:
    predictor = Predictor()
    for ran_s in runs:
        predictor.learn(spec, ME, ran_s)
    return predictor


def test_a_stated_run_time_is_never_planned_shorter_by_history() -> None:
    spec = job(name="train", expected_runtime_s=HOUR)
    predictor = taught(spec, *[60.0] * 20)
    found = predictor.estimate(spec, ME)
    assert found is not None
    assert (found.seconds, found.hold_s) == (60.0, HOUR), "the order may go by the median"


def test_runs_of_its_own_name_make_it_longer_and_others_do_not() -> None:
    spec = job(name="train", expected_runtime_s=60.0)
    assert held(taught(job(name="other"), *[HOUR] * 20), spec) == 60.0
    assert held(taught(spec, *[HOUR] * 3), spec) == HOUR


def test_nine_of_ten_like_jobs_stay_within_what_is_held() -> None:
    predictor = taught(job(name="small"), *[10.0, 10.0, 10.0, 500.0] * 4)
    found = predictor.estimate(job(name="small"), ME)
    assert found is not None
    assert (found.seconds, found.hold_s) == (10.0, 500.0)


def test_a_limit_is_held_with_its_grace() -> None:
    spec = job(name="small", time_limit_s=HOUR, grace_s=20.0)
    assert held(taught(spec, *[10.0] * 20), spec) == HOUR + 20.0
    assert held(Predictor(PredictionPolicy(source="stated")), spec) == HOUR + 20.0


def test_who_plans_by_what_is_stated_gets_that() -> None:
    spec = job(expected_runtime_s=60.0, time_limit_s=HOUR)
    assert held(Predictor(PredictionPolicy(source="stated")), spec) == 60.0
    assert held(Predictor(), spec) == HOUR + spec.grace_s


def test_an_overrun_is_planned_for_as_much_again() -> None:
    corrected = Predictor().corrected
    assert corrected(100.0, 100.02, None) <= 101.1
    assert corrected(100.0, 400.0, None) == 700.0
    assert corrected(100.0, 400.0, 500.0) == 500.0
