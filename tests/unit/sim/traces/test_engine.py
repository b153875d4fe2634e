"""Replays of small traces: what the engine makes of ends, limits, failures, preemption and run times."""

import random
from collections.abc import Iterable
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ares.api.decisions import Promise
from ares.check.replay.decisions import CycleDecisions
from ares.check.replay.trace import Trace, TraceJob, scaled
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plan import Plan
from ares.model.job import Preemption
from ares.model.profile import OrderPolicy, Profile, Weight
from ares.sim.traces import engine
from ares.sim.traces.engine import Estimates, ReplayOptions, replay
from ares.sim.traces.failures import NodeFailure, drawn
from ares.sim.traces.policies import POLICIES, ReplayPolicy, policy
from ares.sim.traces.summary import summary
from tests.unit.sim.traces.made import SAVES, ends, job, over_used, starts, trace

BY_PRIORITY = ReplayPolicy(
    name="by-priority",
    profile=Profile(
        order=OrderPolicy(primary=(Weight(name="priority", weight=1.0),)), actions=("claim", "allocate", "preempt")
    ),
)


def some(seed: int, count: int = 80, nodes: int = 4) -> Trace:
    """Jobs of all kinds, more than there is room for."""
    chance = random.Random(seed)
    found: list[Any] = []
    at = 0.0
    for _ in range(count):
        at += chance.choice([0.0, chance.expovariate(1 / 20)])
        run = float(round(chance.expovariate(1 / 90)))
        said = {"expected_runtime_s": float(round(run * chance.uniform(0.3, 4.0))) + 1.0}
        gang = chance.randint(2, 4) if chance.random() < 0.2 else 0
        found.append(
            job(at, run, chance.randint(1, 4), gpus=chance.choice([0, 0, 1, 2]), ranks=gang,
                tenant=f"t{chance.randint(0, 2)}", **(said if chance.random() < 0.8 else {}))
        )  # fmt: skip
    return trace(*found, nodes=nodes, cpus=8, gpus=4)


# ---- time


def test_jobs_run_in_order_of_submission_when_nobody_may_pass() -> None:
    found = replay(trace(job(0, 10, 3), job(1, 5, 2), job(2, 1, 1)), policy("fcfs"))
    assert starts(found) == [0, 10, 10]
    assert ends(found) == [10, 15, 11]


def test_whoever_fits_passes_when_all_may() -> None:
    found = replay(trace(job(0, 10, 3), job(1, 5, 2), job(2, 100, 1)), policy("greedy"))
    assert starts(found) == [0, 10, 2]


def test_easy_lets_pass_only_who_is_gone_in_time_or_not_in_the_way() -> None:
    known = [
        job(0, 10, 3, expected_runtime_s=10), job(1, 5, 4, expected_runtime_s=5),
        job(2, 8, 1, expected_runtime_s=8), job(3, 8, 1, expected_runtime_s=8),
    ]  # fmt: skip
    found = replay(trace(*known), policy("easy"))
    # The third is gone when the first ends; the fourth would not be.
    assert starts(found) == [0, 10, 2, 15]


def test_a_job_that_takes_no_time_still_starts_and_ends() -> None:
    found = replay(trace(job(0, 0, 4), job(0, 0, 4), job(0, 3, 4)), policy("fcfs"))
    assert ends(found) == [0, 0, 3]


def test_a_job_is_ended_at_its_limit_and_counted() -> None:
    found = replay(trace(job(0, 100, time_limit_s=30), job(0, 30, time_limit_s=30)), policy("fcfs"))
    assert ends(found) == [30, 30]
    assert found.jobs.phase.tolist() == ["FAILED", "SUCCEEDED"]
    assert found.facts.cut == 1
    assert "1 jobs ended at their time limit" in found.facts.warnings


def test_the_gpu_model_decides_how_long_a_job_runs() -> None:
    runs = {"A100": 10.0, "V100": 25.0}
    slow = trace(job(0, 99, gpus=1, runs_s=runs), gpus=1, model="V100")
    assert ends(replay(slow, policy("fcfs"))) == [25]
    other = trace(job(0, 99, gpus=1, runs_s=runs), gpus=1, model="T4")
    assert ends(replay(other, policy("fcfs"))) == [99]


def test_what_could_never_run_is_refused_and_holds_up_nobody() -> None:
    found = replay(trace(job(0, 5, 5), job(0, 5, ranks=5), job(1, 5, gpus=1), job(2, 5, 4)), policy("fcfs"))
    assert found.jobs.phase.tolist() == ["REFUSED", "REFUSED", "REFUSED", "SUCCEEDED"]
    assert starts(found)[3] == 2
    assert summary(found).unfinished == 3
    assert "3 jobs that these nodes could never take: refused" in found.facts.warnings


# ---- run times the scheduler goes by


def test_a_job_that_outlives_its_estimate_holds_its_place() -> None:
    known = [job(0, 500, 4, expected_runtime_s=10), job(1, 5, 4, expected_runtime_s=5), job(2, 5, 1)]
    for name in ("easy", "conservative", "aggressive", "deadline"):
        found = replay(trace(*known), policy(name))
        assert over_used(found) == []
        assert starts(found)[1] == 500, name


def test_exact_run_times_let_pass_whom_estimates_hold_back() -> None:
    known = [
        job(0, 10, 3, expected_runtime_s=10), job(1, 5, 4, expected_runtime_s=5), job(2, 2, 1, expected_runtime_s=99),
    ]  # fmt: skip
    assert starts(replay(trace(*known), policy("easy")))[2] == 15
    assert starts(replay(trace(*known), policy("easy"), ReplayOptions(estimates="exact")))[2] == 2


@pytest.mark.parametrize("estimates", ["user", "predicted"])
@pytest.mark.parametrize("name", ["easy-sjbf", "conservative", "sjf"])
def test_nothing_is_decided_by_run_times_that_nobody_can_know(name: str, estimates: Estimates) -> None:
    known = some(3, 60)
    first = replay(known, policy(name), ReplayOptions(estimates=estimates))
    for at in (20, 40):
        ended = float(first.jobs.end[at])
        jobs = list(known.jobs)
        jobs[at] = replace(jobs[at], run_s=jobs[at].run_s + 1000.0)
        other = replay(Trace("made", tuple(jobs), known.nodes), policy(name), ReplayOptions(estimates=estimates))
        before = first.jobs.first_start < ended
        assert (other.jobs.first_start[before] == first.jobs.first_start[before]).all()


# ---- everything together


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "srtf"])
def test_every_policy_runs_all_jobs_and_over_uses_nothing(name: str) -> None:
    known = some(1)
    failures = drawn([node.name for node in known.nodes], 0.0, 4000.0, mtbf_s=900.0, mttr_s=60.0, seed=1)
    found = replay(known, policy(name), ReplayOptions(failures=failures))
    assert over_used(found) == []
    assert summary(found).unfinished == 0
    assert found.facts.node_failures > 5
    assert (found.jobs.first_start >= found.jobs.submit).all()
    done = found.jobs.phase == "SUCCEEDED"
    truth = np.array([one.run_s for one in known.jobs])
    assert np.allclose(found.jobs.run[done], truth[done])


@pytest.mark.parametrize("order", ["instant", "reference", "committed"])
def test_the_same_seed_gives_the_same_outcome(order: engine.EventOrder) -> None:
    known = some(2, 60)
    failures = drawn([node.name for node in known.nodes], 0.0, 3000.0, mtbf_s=500.0, mttr_s=90.0, seed=4)
    one, same, other = (
        replay(known, policy("easy@predicted"), ReplayOptions(seed=seed, event_order=order, failures=failures))
        for seed in (7, 7, 8)
    )
    assert one.digest() == same.digest()
    # The delay before a retry is drawn.
    assert one.digest() != other.digest()


@pytest.mark.parametrize("name", ["fcfs", "greedy", "easy", "easy-sjbf", "conservative", "aggressive"])
def test_a_second_cycle_at_the_same_instant_comes_to_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine leaves it out where nothing but starts came of the first; the service does not."""
    known = some(5)
    once = replay(known, policy(name))

    def again(*args: Any, **more: Any) -> Plan:
        plan = cycle(*args, **more)
        return replace(plan, more=plan.more or bool(plan.placed))

    keep = Cluster.promise

    def settled(cluster: Cluster, promises: Iterable[Promise], *, more: bool) -> None:
        """That there is more is only pretended."""
        keep(cluster, promises)

    monkeypatch.setattr(engine, "cycle", again)
    monkeypatch.setattr(Cluster, "promise", settled)
    twice = replay(known, policy(name))
    assert twice.facts.cycles > once.facts.cycles
    assert starts(twice) == starts(once)


def test_the_log_of_decisions_tells_what_the_outcome_says() -> None:
    known, log = some(6), list[CycleDecisions]()
    failures = (NodeFailure(at=300.0, node="n0", lasts_s=50.0),)
    found = replay(known, policy("conservative"), ReplayOptions(log=log.append, failures=failures))
    begun = [(at.time, one.job) for at in log for one in at.started]
    ran = found.intervals
    assert sorted(set(begun)) == sorted(set(zip(ran.begin.tolist(), ran.job.tolist(), strict=True)))
    assert sorted(one for at in log for one in at.submitted) == list(range(len(known.jobs)))
    last = {one.job: one.at for at in log for one in at.ended}
    assert [last[at] for at in range(len(known.jobs))] == ends(found)
    assert [at.down for at in log if at.down] == [("n0",)]
    assert [at.up for at in log if at.up] == [("n0",)]
    assert any(at.promises for at in log)


# ---- nodes that fail


def test_work_on_a_node_that_fails_is_done_again() -> None:
    known = trace(job(0, 100, 4), job(0, 100, 4), nodes=2)
    found = replay(known, policy("fcfs"), ReplayOptions(failures=(NodeFailure(at=60.0, node="n0", lasts_s=500.0),)))
    lost = found.jobs.attempts == 2
    assert lost.tolist() == [True, False]
    # It begins anew on the other node when that is free.
    assert ends(found) == [200, 100]
    assert found.jobs.run.tolist() == [100, 100]
    assert found.intervals.end.tolist() == [60, 100, 200]


def test_a_gang_is_lost_as_a_whole_and_lets_go_of_all_nodes() -> None:
    known = trace(job(0, 100, 4, ranks=2), job(1, 10, 4), nodes=2)
    found = replay(known, policy("fcfs"), ReplayOptions(failures=(NodeFailure(at=50.0, node="n1", lasts_s=20.0),)))
    assert found.jobs.attempts.tolist() == [2, 1]
    assert starts(found)[1] == 50
    assert ends(found)[0] == pytest.approx(170, abs=1)


def test_a_node_that_never_comes_back_leaves_its_jobs_waiting() -> None:
    found = replay(
        trace(job(0, 100)), policy("fcfs"), ReplayOptions(failures=(NodeFailure(at=1.0, node="n0", lasts_s=1e9),))
    )
    # It came back after all, long after.
    assert ends(found)[0] > 1e9
    with pytest.raises(ValueError, match="names node 'n7', which is not in the trace made"):
        replay(trace(job(0, 1)), policy("fcfs"), ReplayOptions(failures=(NodeFailure(at=1.0, node="n7", lasts_s=1.0),)))


def test_of_two_failures_at_once_the_longer_one_counts() -> None:
    failures = (NodeFailure(at=10.0, node="n0", lasts_s=100.0), NodeFailure(at=20.0, node="n0", lasts_s=5.0))
    found = replay(trace(job(30, 10)), policy("fcfs"), ReplayOptions(failures=failures))
    assert starts(found) == [110]


def test_failures_of_a_node_do_not_depend_on_the_others() -> None:
    few = drawn(["a", "b"], 0, 1e6, mtbf_s=1e4, mttr_s=1e3, seed=1)
    many = drawn(["c", "b", "a"], 0, 1e6, mtbf_s=1e4, mttr_s=1e3, seed=1)
    assert [one for one in many if one.node != "c"] == list(few)
    assert len(few) == pytest.approx(2 * 1e6 / 1.1e4, rel=0.2)
    with pytest.raises(ValueError, match="must be above 0, not 0 and 1"):
        drawn(["a"], 0, 1, mtbf_s=0, mttr_s=1, seed=1)


# ---- jobs that fail, and jobs that are taken away


def test_a_job_that_fails_is_repeated_as_often_as_its_policy_says() -> None:
    found = replay(trace(job(0, 10, fails=3)), policy("fcfs"))
    assert found.jobs.phase.tolist() == ["FAILED"]
    assert found.jobs.attempts.tolist() == [4]
    assert len(found.intervals.job) == 4


def test_a_preempted_job_begins_anew_and_one_that_saves_goes_on() -> None:
    for preemption, ends_at, run in ((Preemption(), 400.0, 200.0), (SAVES, 300.0, 200.0)):
        low = job(0, 200, 4, priority="LOW", preemption=preemption)
        found = replay(trace(low, job(100, 100, 4, priority="CRITICAL")), BY_PRIORITY)
        assert found.jobs.preemptions.tolist() == [1, 0]
        assert ends(found) == [ends_at, 200]
        assert found.jobs.run.tolist() == [run, 100]


def test_who_may_not_be_preempted_yet_is_when_it_may() -> None:
    """Nothing else happens when the least run time is over: somebody must look then."""
    found = replay(trace(job(0, 500, 4, priority="LOW"), job(10, 5, 4, priority="CRITICAL")), BY_PRIORITY)
    assert starts(found) == [0, 60]


def test_an_elastic_gang_runs_longer_with_fewer_ranks() -> None:
    growing = ReplayPolicy(
        name="grows", profile=replace(POLICIES["fcfs"].profile, actions=("claim", "allocate", "grow"))
    )
    known = trace(job(0, 50, 2), job(0, 100, 1, ranks=4, min_ranks=1), nodes=1, cpus=4)
    found = replay(known, growing)
    # Two of four ranks for 50 s do a quarter of the work; all four do the rest in 75 s.
    assert ends(found) == [50, 125]
    assert over_used(found) == []


# ---- what if


def test_more_of_every_kind_and_faster() -> None:
    known = trace(job(0, 10), job(10, 10, deadline_at=50), job(30, 10), nodes=10, gpus=2)
    more = scaled(known, gpus=1.25, load=2.0)
    assert len(more.nodes) == 13
    assert len({node.name for node in more.nodes}) == 13
    assert len({gpu.uuid for node in more.nodes for gpu in node.gpus}) == 26
    assert [one.submit for one in more.jobs] == [0, 5, 15]
    assert more.jobs[1].spec.deadline_at == 45
    assert more.warnings == (
        "what if: 10 nodes like n0 became 13 (130%)",
        "what if: the time between submissions is 1/2 of what it was",
    )
    fewer = scaled(known, gpus=0.5)
    assert len(fewer.nodes) == 5
    single = scaled(trace(job(0, 1), cpus=100), gpus=1.2)
    assert [(node.cpu_milli, len(node.gpus)) for node in single.nodes] == [(120_000, 0)]
    assert scaled(known) == known


def test_a_trace_is_in_order() -> None:
    with pytest.raises(ValueError, match="job j1 comes after one that was submitted later"):
        trace(job(2, 1), job(1, 1))


@pytest.mark.parametrize("seed", range(6))
def test_a_decision_is_made_whenever_somebody_was_promised_to_start(seed: int) -> None:
    """Estimates may be too short by half: what was promised may then come due while nothing ends."""
    chance, at, jobs = random.Random(seed), 0.0, list[TraceJob]()
    for _ in range(9):
        at += chance.choice([0.0, 0.0, 3.0])
        runs = chance.choice([10.0, 20.0, 40.0, 70.0])
        stated = runs * chance.choice([1.0, 0.5, 0.5, 2.0])
        jobs.append(job(at, runs, chance.randint(1, 4), expected_runtime_s=stated))
    log: list[CycleDecisions] = []
    replay(trace(*jobs, nodes=2), POLICIES["conservative"], ReplayOptions(log=log.append, estimates="user"))
    for one, following in pairwise(log):
        due = min((promised.start for promised in one.promises if promised.start > one.time), default=inf)
        assert following.time <= due
    assert any(one.promises for one in log)
