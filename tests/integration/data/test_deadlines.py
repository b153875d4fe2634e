"""The real engine on 100 jobs with deadlines and run times on three GPU models, against published schedulers."""

import csv
from dataclasses import replace

import pytest
from msgspec.structs import replace as put

from ares.check.replay.trace import Trace, node
from ares.model.profile import Pool
from ares.sim.traces.engine import replay
from ares.sim.traces.formats.deadlines import load
from ares.sim.traces.policies import POLICIES
from ares.sim.traces.summary import Summary, summary
from tests.needs import DATA, data

FOLDER = DATA / "deadlines"
JOBS = FOLDER / "20_ddl_first100.csv"
MODELS = ("A100", "V100", "GTX2080Ti")

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=data("deadlines"))


def _trace(jobs: int = 100, gpus: int = 15) -> Trace:
    whole = load(JOBS, tuple(node(model.lower(), 4 * gpus, gpus, model) for model in MODELS))
    return replace(whole, jobs=whole.jobs[:jobs])


def _run(name: str, trace: Trace) -> Summary:
    return summary(replay(trace, POLICIES[name]))


def _published(scheduler: str) -> dict[int, float]:
    with (FOLDER / "published.csv").open(newline="") as lines:
        return {
            int(row["jobs_to"]): float(row["avg_jct_s"])
            for row in csv.DictReader(lines)
            if row["scheduler"] == scheduler
        }


def test_nobody_is_late_and_all_together_end_sooner_than_published() -> None:
    found = _run("deadline", _trace())
    assert (found.jobs, found.deadlines, found.deadline_misses) == (100, 20, 0)
    assert found.mean_jct_s <= 18_431.0


@pytest.mark.parametrize("jobs", range(10, 100, 10))
def test_so_it_is_for_fewer_jobs(jobs: int) -> None:
    found = _run("deadline", _trace(jobs))
    assert found.deadline_misses == 0
    assert found.mean_jct_s <= _published("HydraPureHeuristic")[jobs] + 0.001


def test_the_default_profile_does_so_as_well() -> None:
    found = _run("default", _trace())
    assert found.deadline_misses == 0
    assert found.mean_jct_s <= 18_431.0


@pytest.mark.parametrize("gpus", [4, 6, 8])
def test_where_gpus_are_few_more_deadlines_are_met_than_by_earliest_deadline_alone(gpus: int) -> None:
    trace = _trace(gpus=gpus)
    mine, edf, fcfs = (_run(name, trace) for name in ("deadline", "edf", "fcfs"))
    assert mine.deadline_misses < edf.deadline_misses < fcfs.deadline_misses
    assert mine.mean_jct_s < min(edf.mean_jct_s, fcfs.mean_jct_s)


@pytest.mark.parametrize("prices", [(4.0, 2.0, 0.5), (3.0, 2.2, 1.0)])
@pytest.mark.parametrize("gpus", [8, 15])
def test_deadlines_are_met_for_less_than_by_the_fastest_choice(prices: tuple[float, ...], gpus: int) -> None:
    """What the jobs with deadlines cost, once with a look at prices and once without, at the same prices."""
    trace = _trace(gpus=gpus)
    trace = replace(trace, nodes=tuple(put(info, pool=info.name) for info in trace.nodes))
    pools = {model.lower(): Pool(gpu_hour=price) for model, price in zip(MODELS, prices, strict=True)}
    blind = POLICIES["default"]
    looks = put(blind, profile=put(blind.profile, pools=pools))
    outcomes = [replay(trace, policy) for policy in (looks, blind)]
    assert [summary(outcome).deadline_misses for outcome in outcomes] == [0, 0]
    dated = {at for at, job in enumerate(trace.jobs) if job.spec.deadline_at is not None}
    cheap, fast = (
        sum(
            (end - begin) * pools[outcome.facts.nodes[place]].gpu_hour
            for job, place, begin, end in zip(
                outcome.intervals.job,
                outcome.intervals.node,
                outcome.intervals.begin,
                outcome.intervals.end,
                strict=True,
            )
            if job in dated
        )
        for outcome in outcomes
    )
    assert cheap < fast
