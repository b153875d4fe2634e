"""A promise holds room, not nodes: on equal nodes EASY gives the schedule of one pool."""

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ares.check.replay.trace import Trace, TraceJob, fleet, in_order
from ares.model.job import Gang, JobSpec, Resources
from ares.model.profile import Pool
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.policies import policy

Job = tuple[float, float, float, int]


# A watt for each busy CPU, and more than all of them draw.
_CAPPED = {"default": Pool(cpu_watts=1.0, power_cap_watts=1e6)}


def starts(jobs: Sequence[Job], nodes: int, cpus: int, name: str = "easy", *, capped: bool = False) -> list[float]:
    """Submission, run time, estimate and ranks of one CPU of each job, on so many nodes."""
    made, _ = in_order(
        TraceJob(id=str(at), submit=submit, run_s=run_s, spec=_spec(ranks, limit_s))
        for at, (submit, run_s, limit_s, ranks) in enumerate(jobs)
    )
    by = policy(name)
    by = replace(by, profile=replace(by.profile, pools=_CAPPED)) if capped else by
    outcome = replay(Trace("made", made, fleet(nodes, cpus)), by, ReplayOptions(event_order="instant"))
    return [float(start) for start in outcome.jobs.first_start]


def _spec(ranks: int, limit_s: float) -> JobSpec:
    return JobSpec(
        command=("true",), resources=Resources(cpu_milli=1000, memory_mib=1), time_limit_s=limit_s, grace_s=0.0,
        gang=Gang(ranks=ranks) if ranks > 1 else None,
    )  # fmt: skip


def test_a_job_that_delays_no_other_starts_on_an_idle_node() -> None:
    jobs = [(0, 1, 1, 2), (0, 100, 100, 2), (2, 50, 50, 3), (3, 1000, 1000, 1)]
    assert starts(jobs, nodes=1, cpus=4) == [0, 0, 100, 3]
    assert starts(jobs, nodes=4, cpus=1) == [0, 0, 100, 3]


def test_short_jobs_do_not_use_up_the_nodes_of_long_ones() -> None:
    """A short job goes to an idle node and is gone by the promised time: a long one may have the other idle node."""
    jobs = [(0, 100, 100, 2), (1, 50, 50, 3), (2, 10, 10, 1), (3, 1000, 1000, 1)]
    assert starts(jobs, nodes=1, cpus=4) == starts(jobs, nodes=4, cpus=1) == [0, 100, 2, 3]


def test_a_power_cap_that_is_not_reached_keeps_no_idle_node() -> None:
    jobs = [(0, 100, 100, 2), (1, 50, 50, 3), (2, 10, 10, 1), (3, 1000, 1000, 1)]
    assert starts(jobs, nodes=4, cpus=1, capped=True) == [0, 100, 2, 3]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["easy", "easy-sjbf"])
def test_equal_nodes_are_one_pool(seed: int, name: str) -> None:
    chance = random.Random(seed)
    at, jobs = 0.0, list[Job]()
    for _ in range(60):
        at += chance.choice([0, 1, 5, 20])
        run_s = chance.choice([1, 5, 30, 100, 400])
        jobs.append((at, run_s, run_s * chance.choice([1, 1, 2, 5]), chance.choice([1, 1, 1, 2, 3, 5, 8])))
    nodes = chance.choice([8, 10, 24])
    assert starts(jobs, nodes, 1, name) == starts(jobs, 1, nodes, name) == starts(jobs, nodes, 1, name, capped=True)
