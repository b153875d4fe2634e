"""Training, offline: the exported arrays say what the trainer's own trees say."""

import subprocess
import sys
from pathlib import Path

import pytest

from ares.check.replay.trace import Trace, TraceJob, node
from ares.model.job import JobSpec, Resources
from ares.sim.learn import CannotTrain, samples_of, score, train

ROOT = Path(__file__).parents[4]
# In a process of its own: what trains is heavy.
COMPARE = """
import random, warnings
warnings.simplefilter("ignore")
import numpy as np
from ares.core.forecast.trees import Forest
import ares.sim.learn as module
from tests.unit.sim.learn.test_train import trace

kept = {}
made = module._regressor
module._regressor = lambda seed, trees: kept.setdefault("one", made(seed, trees))
model = module.train(trace(400), seed=3, trees=8)
samples = module.samples_of(trace(400))
forest = Forest(model)
ours = [forest.log_runtime(row) for row in samples.features.tolist()]
theirs = kept["one"].predict(samples.features)
assert np.allclose(ours, theirs), np.abs(np.array(ours) - theirs).max()
assert len(set(np.round(ours, 3))) > 10, "it learned something"
assert model.held_out.jobs == 120 and model.trained_on == 280
assert model == module.train(trace(400), seed=3, trees=8), "the same again"
print("same")
"""


def trace(count: int) -> Trace:
    """Two users with their own habits, who ask for more than they need."""
    jobs = [
        TraceJob(
            id=str(at), submit=60.0 * at, run_s=float((at * 7919) % 97 + 1) * (40.0 if at % 2 else 1.0),
            spec=JobSpec(command=("x",), resources=Resources(cpu_milli=1000 * (1 + at % 3)), time_limit_s=7200.0),
            tenant=f"u{at % 2}",
        )
        for at in range(count)
    ]  # fmt: skip
    return Trace(name="made", jobs=tuple(jobs), nodes=(node("n", 8.0),))


@pytest.mark.slow
def test_what_is_exported_says_what_was_trained() -> None:
    done = subprocess.run([sys.executable, "-c", COMPARE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "same", done.stderr


def test_a_sample_knows_only_what_had_ended_when_the_job_came() -> None:
    found = samples_of(trace(6))
    # The first job of each user: nothing is known but its limit.
    assert list(found.history[:2]) == [7200.0, 7200.0]
    # Job 0 (1 s) had ended when its user came again; job 1 (2480 s and more) had not.
    assert found.history[2] == 1.0
    assert found.history[3] == 7200.0


def test_too_little_to_learn_from_is_said() -> None:
    with pytest.raises(CannotTrain, match="has 6 jobs; at least 200"):
        train(trace(6))


def test_like_jobs_runs_are_nearer_than_limits_and_four_of_five_lie_within() -> None:
    found = score(trace(1200))
    assert (found.history.jobs, found.stated.jobs) == (1200, 1200)
    assert found.history.mean_absolute_error_s < found.stated.mean_absolute_error_s / 3
    assert found.history.within == pytest.approx(0.8, abs=0.05)
