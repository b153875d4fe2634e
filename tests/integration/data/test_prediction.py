"""Prediction on real logs, replayed by the simulator: better than what users ask for, and as sure as it says.

docs/concepts/prediction.md tells of the whole logs; here are their first jobs, where all is still to be learned."""

import csv
import gzip
from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as put

from ares.check.replay.trace import node
from ares.model.profile import PredictionPolicy
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.formats import read
from ares.sim.traces.policies import policy
from ares.sim.traces.starts import StartsWatch
from tests.integration.data.beginnings import differing, first, read_once
from tests.needs import DATA, data

JOBS = 3000
LOGS = {"KTH-SP2.csv.gz": 100.0, "SDSC-SP2-user-estimate.csv.gz": 128.0}

pytestmark = pytest.mark.skipif(not (DATA / "easy").is_dir(), reason=data("easy"))


def slowdown_and_starts(log: str, name: str) -> tuple[float, float]:
    """Average bounded slowdown, and the share of jobs that had to wait and started within what they were told."""
    whole = read(DATA / "easy" / log, nodes=(node("machine", LOGS[log]),))
    trace, starts = replace(whole, jobs=whole.jobs[:JOBS]), StartsWatch()
    jobs = replay(trace, policy(name), ReplayOptions(watch=starts)).jobs
    slowdown = (jobs.end - jobs.submit) / np.maximum(jobs.run, 10.0)
    rate = starts.judged().rate
    assert rate is not None
    return float(np.maximum(1.0, slowdown).mean()), rate


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [2000, pytest.param(None, marks=pytest.mark.soak, id="all")])
def test_every_job_starts_as_published_where_estimates_are_corrected(count: int | None) -> None:
    """EASY, the shortest first, by the predictions given with the log: the user's last two runs, in Tsafrir's steps."""
    path = DATA / "easy" / "KTH-SP2.csv.gz"
    with gzip.open(path, "rt") as lines:
        rows = list(csv.DictReader(lines))
    whole, by = read_once(path), policy("easy-sjbf")
    jobs = tuple(
        put(job, spec=put(job.spec, expected_runtime_s=float(row["tsafrir_prediction"])))
        for job, row in zip(whole.jobs, rows, strict=True)
    )
    # As it was published: a promise that slips is made anew, and its room is open to whoever ends before the new start.
    filling = put(by.profile.backfill, drain=False)
    prediction = PredictionPolicy(source="stated", correction="steps")
    by = put(by, profile=put(by.profile, backfill=filling, prediction=prediction))
    found = replay(first(replace(whole, jobs=jobs), count), by, ReplayOptions(event_order="reference")).jobs
    published = np.array([float(row["wait_easy_sjbf_tsafrir"]) for row in rows])
    assert differing(whole, found.first_start - found.submit, published) == []


def test_like_jobs_runs_shorten_waits_on_kth() -> None:
    by_requests, _ = slowdown_and_starts("KTH-SP2.csv.gz", "easy-sjbf")
    by_runs, rate = slowdown_and_starts("KTH-SP2.csv.gz", "easy-sjbf@predicted")
    # Order and holds go by what like jobs took, with the guard.
    assert by_runs < 0.9 * by_requests
    assert 0.75 <= rate <= 0.85


def test_four_of_five_start_when_they_were_told_on_sdsc() -> None:
    _, rate = slowdown_and_starts("SDSC-SP2-user-estimate.csv.gz", "easy@predicted")
    assert 0.75 <= rate <= 0.85
