"""What is paid by: the tenant's own runs, never another's, and never less than what they mostly took."""

from ares.core.forecast.predictor import Predictor
from ares.model.job import JobSpec

SPEC = JobSpec(command=("x",), name="train")


def test_other_tenants_runs_price_nothing() -> None:
    predictor = Predictor()
    for _ in range(50):
        predictor.learn(SPEC, "other/default/eve", 36_000.0, None)
    assert predictor.estimate(SPEC, "new/default/ada") is not None
    assert predictor.own_high(SPEC, "new/default/ada") == 0.0


def test_of_short_and_long_runs_the_long_ones_are_paid_by() -> None:
    predictor = Predictor()
    for n in range(20):
        predictor.learn(SPEC, "acme/default/ada", 3600.0 if n % 4 == 0 else 1.0, None)
    assert predictor.own_high(SPEC, "acme/default/ada") == 3600.0
    assert predictor.own_high(JobSpec(command=("x",), name="train", time_limit_s=60.0), "acme/default/ada") <= 60.0
