"""How long jobs run: from like jobs, nearest kind first; bounded, repeatable, and judged."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.core.forecast import histories as module
from ares.core.forecast.estimate import run_time
from ares.core.forecast.kinds import OTHERS_MIN, kind_of, levels_of
from ares.core.forecast.predictor import Predictor, PredictorData
from ares.model.job import FailureClass, Gang, JobSpec, Resources
from ares.model.profile import PredictionPolicy
from ares.model.state import ExitInfo, JobState, Phase

ME, YOU, OTHER = "alpha/default/me", "alpha/default/you", "beta/default/them"


def job(name: str = "train", cpus: int = 4, **changes: Any) -> JobSpec:
    return JobSpec(command=("x",), name=name, resources=Resources(cpu_milli=1000 * cpus), **changes)


def seconds(predictor: Predictor, spec: JobSpec, account: str = ME, gpu_model: str | None = None) -> float | None:
    found = predictor.estimate(spec, account, gpu_model)
    return None if found is None else found.seconds


# ---- whom it asks


def test_the_nearest_kind_speaks_first() -> None:
    predictor = Predictor()
    assert seconds(predictor, job()) is None
    assert seconds(predictor, job(time_limit_s=900.0)) == 900.0
    predictor.learn(job(name="other"), ME, 50.0)
    assert seconds(predictor, job()) == 50.0, "another name of the same user"
    predictor.learn(job(cpus=8), ME, 100.0)
    assert seconds(predictor, job()) == 100.0, "the name in another shape"
    predictor.learn(job(), ME, 200.0)
    assert seconds(predictor, job()) == 200.0
    found = predictor.estimate(job(), ME)
    assert found is not None
    assert found.basis == "1 run of that name, shape and time limit"


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from([1, 2]), st.sampled_from([None, 60.0]), st.sampled_from([ME, YOU])
        ),
        max_size=30,
    )
)
def test_a_name_without_runs_is_passed_over_and_changes_nothing(runs: list[tuple[str, int, float | None, str]]) -> None:
    """Levels that go by a name are looked at only where the name is known: what is said is as if all were."""
    predictor = Predictor(PredictionPolicy(min_samples=2))
    for name, cpus, limit_s, account in runs:
        predictor.learn(job(name, cpus, time_limit_s=limit_s), account, float(10 * cpus))
    for name in "abcd":
        kind = kind_of(job(name, 1), ME)
        enough = [
            key
            for level, key in levels_of(kind)
            if len(predictor._histories.get(key, ())) >= (OTHERS_MIN if level.others else 2)
        ]
        assert predictor._nearest(kind) == next(iter(enough), "")


def test_others_speak_only_together() -> None:
    predictor = Predictor()
    for _ in range(OTHERS_MIN - 1):
        predictor.learn(job(), YOU, 300.0)
    assert seconds(predictor, job()) is None
    predictor.learn(job(), YOU, 300.0)
    assert seconds(predictor, job()) == 300.0
    assert seconds(predictor, job(), OTHER) == 300.0


def test_never_longer_than_its_limit() -> None:
    predictor = Predictor()
    predictor.learn(job(), ME, 5000.0)
    found = predictor.estimate(job(time_limit_s=600.0), ME)
    assert found is not None
    assert found.low <= found.seconds == 600.0 == found.high


def test_a_gang_is_another_shape() -> None:
    predictor = Predictor()
    predictor.learn(job(), ME, 100.0)
    predictor.learn(job(gang=Gang(ranks=4)), ME, 900.0)
    assert (seconds(predictor, job()), seconds(predictor, job(gang=Gang(ranks=4)))) == (100.0, 900.0)


# ---- what the job says itself


def test_what_a_job_states_counts_until_history_has_proven_nearer() -> None:
    predictor = Predictor()
    spec = job(expected_runtime_s=3600.0)
    for _ in range(5):
        assert seconds(predictor, spec) == 3600.0
        predictor.learn(spec, ME, 60.0)
    predictor.learn(spec, ME, 60.0)
    assert seconds(predictor, spec) == 60.0
    assert seconds(predictor, spec, OTHER) == 3600.0, "whoever else says so may be right"


def test_who_states_it_well_is_believed() -> None:
    predictor, chance = Predictor(), random.Random(1)
    for _ in range(50):
        truth = chance.uniform(10.0, 10_000.0)
        predictor.learn(job(expected_runtime_s=truth), ME, truth)
    assert seconds(predictor, job(expected_runtime_s=77.0)) == 77.0


def test_a_bare_limit_never_wins_over_history() -> None:
    predictor = Predictor()
    predictor.learn(job(time_limit_s=86_400.0), ME, 120.0)
    assert seconds(predictor, job(time_limit_s=86_400.0)) == 120.0
    predictor.policy = PredictionPolicy(source="stated")
    assert seconds(predictor, job(time_limit_s=86_400.0)) == 86_400.0


# ---- GPU models


def test_runs_on_another_model_are_scaled_by_how_the_two_compare() -> None:
    predictor = Predictor()
    for name in ("a", "b", "c"):
        predictor.learn(job(name), ME, 1000.0, "A100")
        predictor.learn(job(name), ME, 400.0, "H100")
    predictor.learn(job("new"), ME, 5000.0, "A100")
    assert seconds(predictor, job("new"), ME, "A100") == 5000.0
    assert seconds(predictor, job("new"), ME, "H100") == pytest.approx(2000.0)


# ---- corrections


@given(st.floats(1.0, 1e5), st.lists(st.floats(0.0, 1e7), min_size=2, max_size=20), st.floats(1.0, 1e6))
@pytest.mark.parametrize("correction", ["limit", "steps"])
def test_a_job_that_goes_on_is_planned_longer_and_longer(
    correction: Any, first: float, runs: list[float], limit: float
) -> None:
    predictor = Predictor(PredictionPolicy(correction=correction))
    ran = sorted(first + more for more in runs)
    for bound in (None, limit):
        planned = [predictor.corrected(first, ran_s, bound) for ran_s in ran]
        assert planned == sorted(planned)
        assert all(plan > ran_s for plan, ran_s in zip(planned, ran, strict=True))
        if bound is not None:
            assert all(plan <= max(bound, ran_s + 1.0) for plan, ran_s in zip(planned, ran, strict=True))


def test_steps_are_those_published() -> None:
    """Always on top of the first estimate: a minute, five, fifteen."""
    predictor = Predictor(PredictionPolicy(correction="steps"))
    planned = [predictor.corrected(100.0, ran, None) for ran in (100.0, 160.0, 400.0, 1000.0)]
    assert planned == [160.0, 400.0, 1000.0, 1900.0]
    assert predictor.corrected(100.0, 400.0, 500.0) == 500.0
    assert Predictor().corrected(100.0, 100.0, 7200.0) == 7200.0, "by default the limit at once"


# ---- memory


def test_kinds_are_bounded_and_the_longest_silent_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KINDS_MAX", 100)
    predictor = Predictor()
    predictor.learn(job("first"), ME, 10.0)
    for number in range(200):
        predictor.learn(job(f"n{number}"), ME, 500.0)
    assert predictor.kinds <= 100
    assert seconds(predictor, job("n199")) == 500.0
    assert seconds(predictor, job("first")) == 500.0, "all it knows is the user's other jobs"


STEP = st.tuples(st.sampled_from(("a", "b")), st.sampled_from((ME, YOU)), st.floats(1.0, 1e5), st.booleans())


@given(st.lists(STEP, max_size=40))
def test_what_is_kept_answers_the_same(steps: list[tuple[str, str, float, bool]]) -> None:
    """Through JSON, in the middle of things; asking changes nothing."""
    one, two = Predictor(), Predictor()
    for name, account, ran_s, states in steps:
        spec = job(name, time_limit_s=1e4, expected_runtime_s=ran_s if states else None)
        assert one.estimate(spec, account) == two.estimate(spec, account) == one.estimate(spec, account)
        one.learn(spec, account, ran_s)
        two.learn(spec, account, ran_s)
        two = Predictor(two.policy, msgspec.json.decode(msgspec.json.encode(two.data), type=PredictorData))
    assert one.data == two.data


# ---- judged by what was said when the job came


def test_a_job_is_judged_by_what_was_said_when_it_came() -> None:
    predictor = Predictor()
    predictor.learn(job(), ME, 100.0)
    said = predictor.met("j1", job(), ME)
    assert said is not None
    assert said.seconds == 100.0
    for _ in range(20):
        predictor.learn(job(), YOU, 9.0)
    before = predictor.accuracy.jobs
    predictor.ended("j1", 150.0)
    predictor.ended("j1", 150.0)
    predictor.ended("never met", 5.0)
    assert predictor.accuracy.jobs == before + 1
    predictor.met("j2", job(), ME)
    predictor.ended("j2", None)
    assert predictor.accuracy.jobs == before + 1, "one that was cancelled tells nothing"


def test_four_of_five_fall_into_the_interval() -> None:
    predictor, chance = Predictor(), random.Random(3)
    for _ in range(3000):
        name = chance.choice("abcdef")
        predictor.learn(job(name, time_limit_s=1e6), ME, chance.lognormvariate(6.0 + ord(name) % 3, 0.8))
    assert predictor.accuracy.within == pytest.approx(0.8, abs=0.03)
    assert predictor.accuracy.median_relative_error is not None
    assert predictor.accuracy.median_relative_error < 1.0


@pytest.mark.parametrize(
    ("phase", "failure", "preemptions", "told"),
    [
        ("SUCCEEDED", None, 0, 90.0),
        ("FAILED", "exit", 0, 90.0),
        ("FAILED", "time-limit", 0, 90.0),
        ("FAILED", "node-lost", 0, None),
        ("FAILED", "staging", 0, None),
        ("CANCELLED", None, 0, None),
        ("SUCCEEDED", None, 1, None),
        ("RUNNING", None, 0, None),
    ],
)
def test_which_ends_tell_something(
    phase: Phase, failure: FailureClass | None, preemptions: int, told: float | None
) -> None:
    state = JobState(
        id="j", tenant="alpha", name="x", phase=phase, exit=ExitInfo(failure=failure), preemptions=preemptions,
        bound_at=10.0, ended_at=None if phase == "RUNNING" else 100.0,
    )  # fmt: skip
    assert run_time(state) == told
