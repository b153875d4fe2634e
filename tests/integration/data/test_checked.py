"""Every decision of replays of public data, judged by the checker: with the right machine, and for each strategy."""

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as put

from ares.check.replay.checker import Checker
from ares.check.replay.rules import ReplayVerdict
from ares.check.replay.trace import Trace, TraceJob, fleet, in_order
from ares.model.job import JobSpec, Resources
from ares.sim.study.runs import cut
from ares.sim.traces.engine import EventOrder, ReplayOptions, replay
from ares.sim.traces.policies import policy
from tests.integration.data.beginnings import read_once
from tests.needs import DATA, data

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=data("easy"))
JOBS = 2000


def judged(trace: Trace, name: str, order: EventOrder) -> ReplayVerdict:
    chosen = policy(name)
    checker = Checker(trace, name, chosen.profile)
    replay(trace, chosen, ReplayOptions(event_order=order, log=checker))
    return checker.verdict()


@pytest.mark.parametrize("name", ["fcfs", "greedy", "easy", "conservative", "aggressive"])
def test_backfill_cases_are_in_order(name: str) -> None:
    waits = promises = 0
    for case in json.loads((DATA / "backfill-cases" / "cases.json").read_text()):
        jobs, _ = in_order(_job(number, job) for number, job in enumerate(case["jobs"]))
        for order in ("instant", "reference"):
            verdict = judged(Trace(case["case"], jobs, fleet(1, case["processors"])), name, order)
            assert not verdict.broken, "\n".join([case["case"], *verdict.words()])
            waits, promises = waits + verdict.heads, promises + verdict.promises
    assert waits or name == "conservative"
    assert promises or name in ("fcfs", "greedy")


def _job(number: int, job: dict[str, Any]) -> TraceJob:
    wants = Resources(cpu_milli=1000 * job["procs"], memory_mib=1)
    spec = JobSpec(command=("true",), resources=wants, expected_runtime_s=float(job["est"]))
    return TraceJob(id=str(number), submit=float(job["submit"]), run_s=float(job["actual"]), spec=spec)


@pytest.mark.parametrize("name", ["easy", "easy-sjbf", "conservative", "aggressive"])
def test_the_first_jobs_of_a_real_log_are_in_order(name: str) -> None:
    trace = cut(read_once(DATA / "easy" / "KTH-SP2.csv.gz"), first=JOBS)
    verdict = judged(trace, name, "instant")
    assert not verdict.broken, "\n".join(verdict.words())
    assert verdict.starts == JOBS
    assert verdict.promises > 1000
    # Room is held by limits, also where the order goes by predictions: no job outlives the time it asked for.
    assert not verdict.excused
    assert verdict.kept == verdict.told or name == "aggressive"


def test_promises_by_likely_run_times_are_guesses_and_pass_nobody() -> None:
    trace = cut(read_once(DATA / "easy" / "KTH-SP2.csv.gz"), first=JOBS)
    verdict = judged(trace, "easy-sjbf@predicted", "instant")
    assert not verdict.broken, "\n".join(verdict.words())
    assert verdict.excused
    assert verdict.kept < verdict.told


@pytest.mark.parametrize("name", ["easy", "easy-sjbf"])
def test_promises_of_a_real_log_without_limits_slip_and_drain(name: str) -> None:
    """Jobs state a third of what users asked for, and nothing bounds them: promises slip, and nobody new comes into
    their room."""
    whole = cut(read_once(DATA / "easy" / "KTH-SP2.csv.gz"), first=JOBS // 2)
    jobs = tuple(put(job, spec=_a_third(job.spec)) for job in whole.jobs)
    verdict = judged(replace(whole, jobs=jobs), name, "instant")
    assert not verdict.broken, "\n".join(verdict.words())
    assert verdict.excused
    assert verdict.kept < verdict.told
    assert verdict.drains


def _a_third(spec: JobSpec) -> JobSpec:
    assert spec.time_limit_s is not None
    return put(spec, time_limit_s=None, expected_runtime_s=spec.time_limit_s / 3)
