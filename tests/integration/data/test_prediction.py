"""Prediction on real logs, replayed by the simulator: better than what users ask for, and as sure as it says.

docs/concepts/prediction.md tells of the whole logs; here are their first jobs, where all is still to be learned."""

from dataclasses import replace

import numpy as np
import pytest

from ares.sim.traces.engine import Options, replay
from ares.sim.traces.formats import read
from ares.sim.traces.policies import policy
from ares.sim.traces.starts import Starts
from ares.sim.traces.trace import node
from tests.needs import DATA, data

JOBS = 3000
LOGS = {"KTH-SP2.csv.gz": 100.0, "SDSC-SP2-user-estimate.csv.gz": 128.0}

pytestmark = pytest.mark.skipif(not (DATA / "easy").is_dir(), reason=data("easy"))


def slowdown_and_starts(log: str, name: str) -> tuple[float, float]:
    """Average bounded slowdown, and the share of jobs that had to wait and started within what they were told."""
    whole = read(DATA / "easy" / log, nodes=(node("machine", LOGS[log]),))
    trace, starts = replace(whole, jobs=whole.jobs[:JOBS]), Starts()
    jobs = replay(trace, policy(name), Options(watch=starts)).jobs
    slowdown = (jobs.end - jobs.submit) / np.maximum(jobs.run, 10.0)
    rate = starts.judged().rate
    assert rate is not None
    return float(np.maximum(1.0, slowdown).mean()), rate


def test_like_jobs_runs_shorten_waits_on_kth() -> None:
    by_requests, _ = slowdown_and_starts("KTH-SP2.csv.gz", "easy-sjbf")
    by_runs, rate = slowdown_and_starts("KTH-SP2.csv.gz", "easy-sjbf@predicted")
    assert by_runs < 0.9 * by_requests
    assert 0.75 <= rate <= 0.85


def test_four_of_five_start_when_they_were_told_on_sdsc() -> None:
    _, rate = slowdown_and_starts("SDSC-SP2-user-estimate.csv.gz", "easy@predicted")
    assert 0.75 <= rate <= 0.85
