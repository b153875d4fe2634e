"""Published schedules, job by job: backfilling cases, EASY on two real logs, and orders on the Lublin model."""

import csv
import gzip
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ares.check.replay.trace import Trace, TraceJob, fleet, in_order
from ares.model.job import JobSpec, Resources
from ares.sim.traces.engine import Estimates, EventOrder, ReplayOptions, replay
from ares.sim.traces.formats import read
from ares.sim.traces.policies import policy
from ares.sim.traces.summary import summary
from tests.integration.data.beginnings import differing, first, read_once
from tests.needs import DATA, data

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=data("easy"))


@pytest.mark.parametrize("order", ["instant", "reference"])
@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
def test_backfill_cases_finish_when_they_should(name: str, order: EventOrder) -> None:
    wrong: list[str] = []
    cases = json.loads((DATA / "backfill-cases" / "cases.json").read_text())
    for case in [case for case in cases if name in case["policies"]]:
        jobs, _ = in_order(_case_job(number, job) for number, job in enumerate(case["jobs"]))
        trace = Trace(case["case"], jobs, fleet(1, case["processors"]))
        outcome = replay(trace, policy(name), ReplayOptions(event_order=order))
        for job, end in zip(jobs, outcome.jobs.end, strict=True):
            expected = case["jobs"][int(job.id)]["expected_finish"]
            if end != expected:
                wrong.append(f"{case['case']}: job {job.id} ended at {end}, not {expected}")
    assert wrong == []


def _case_job(number: int, job: dict[str, Any]) -> TraceJob:
    wants = Resources(cpu_milli=1000 * job["procs"], memory_mib=1)
    spec = JobSpec(command=("true",), resources=wants, expected_runtime_s=float(job["est"]))
    return TraceJob(id=str(number), submit=float(job["submit"]), run_s=float(job["actual"]), spec=spec)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("jobs", [2000, pytest.param(None, marks=pytest.mark.soak, id="all")])
@pytest.mark.parametrize(
    ("file", "column", "name", "estimates", "slowdown"),
    [
        ("KTH-SP2", "wait_easy_user_estimate", "easy", "user", 92.5765),
        ("KTH-SP2", "wait_easy_clairvoyant", "easy", "exact", 71.7224),
        ("KTH-SP2", "wait_easy_sjbf_clairvoyant", "easy-sjbf", "exact", 49.8477),
        ("SDSC-SP2-user-estimate", "wait_easy_user_estimate", "easy", "user", 87.8703),
    ],
)
def test_every_job_of_a_published_schedule_starts_when_it_did(
    file: str, column: str, name: str, estimates: Estimates, slowdown: float, jobs: int | None
) -> None:
    path = DATA / "easy" / f"{file}.csv.gz"
    with gzip.open(path, "rt") as lines:
        expected = np.array([float(row[column]) for row in csv.DictReader(lines)])
    trace = read_once(path)
    outcome = replay(first(trace, jobs), policy(name), ReplayOptions(estimates=estimates, event_order="reference"))
    waits = outcome.jobs.first_start - outcome.jobs.submit
    assert differing(trace, waits, expected) == []
    if jobs is None:
        assert round(summary(outcome).bounded_slowdown, 4) == slowdown


# Each run of 1024 jobs begins with this one, of those that take any time.
FIRSTS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)


@pytest.mark.parametrize(
    ("name", "order", "slowdown"),
    [
        ("fcfs", "committed", 7273.77),
        pytest.param("fcfs", "instant", 7273.77, marks=pytest.mark.soak),
        ("sjf", "committed", 277.35),
        ("f1", "committed", 258.37),
        # What comes of letting newcomers pass the one that waits first, by a reference of twenty lines.
        ("sjf", "instant", 47.16),
        pytest.param("f1", "instant", 34.53, marks=pytest.mark.soak),
    ],
)
def test_orders_without_backfill_on_the_lublin_model(name: str, order: EventOrder, slowdown: float) -> None:
    trace = read_once(DATA / "easy" / "lublin_256.swf.gz")
    jobs = [job for job in trace.jobs if job.run_s > 0]
    found = [
        summary(
            replay(
                replace(trace, jobs=tuple(jobs[begin : begin + 1024])),
                policy(name),
                ReplayOptions(estimates="exact", event_order=order),
            )
        ).bounded_slowdown
        for begin in FIRSTS
    ]
    assert round(float(np.mean(found)), 2) == slowdown


def test_the_raw_log_of_kth_is_read_with_what_is_left_out_counted() -> None:
    trace = read(DATA / "easy" / "KTH-SP2-1996-2.1-cln.swf.gz")
    assert (len(trace.jobs), len(trace.nodes), trace.nodes[0].cpu_milli) == (28_475, 1, 100_000)
    assert trace.warnings == ("1 job without processors: left out",)


def test_times_of_the_philly_traces_are_milliseconds() -> None:
    """By what was published: no job of a trace can take less on average than it runs, or than its share of the work."""
    for name, best in (("trace1", 867_705.0), ("trace3", 85_502.0)):
        trace = read(DATA / "muri" / f"{name}.csv.gz")
        runs = np.array([job.run_s for job in trace.jobs])
        assert 0.1 * best < runs.mean() < best
        gpus = np.array([job.spec.resources.gpus * (job.spec.gang.ranks if job.spec.gang else 1) for job in trace.jobs])
        assert gpus.max() == 32
        assert (runs * gpus).sum() / 64 > best


def test_deadlines_and_pods_are_read_whole() -> None:
    jobs = read(DATA / "deadlines" / "20_ddl_first100.csv")
    assert len(jobs.jobs) == 100
    assert sum(job.spec.deadline_at is not None for job in jobs.jobs) == 20
    assert [(node.name, len(node.gpus)) for node in jobs.nodes] == [("a100", 15), ("v100", 15), ("gtx2080ti", 15)]
    pods = read(DATA / "fgd" / "openb_pod_list_gpuspec10.csv.gz")
    assert (len(pods.jobs), len(pods.nodes)) == (7255, 1213)
    assert {job.spec.resources.gpu_model for job in pods.jobs if job.spec.alternatives} != {None}
