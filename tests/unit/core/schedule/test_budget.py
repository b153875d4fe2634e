"""A cycle that has not the time for everybody: it says so, and the next one begins with the others."""

from dataclasses import dataclass

import pytest

from ares.core.schedule.budget import CycleBudget
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.follower import follow
from ares.core.schedule.plan import Plan
from ares.model.job import JobSpec, Resources
from ares.model.node import NodeInfo, NodeRecord
from ares.model.profile import BackfillPolicy, BackfillStrategy, Profile
from ares.model.state import Fence, JobState, Placement
from tests.unit.core.world import cycle_at

NOW = 1_000_000.0
JOBS = 100
TURNS = 30
STRATEGIES: tuple[BackfillStrategy, ...] = ("greedy", "easy", "conservative", "aggressive", "deadline")


@dataclass
class Turns:
    """So many of them, then the time is up."""

    left: int = 0

    def over(self) -> bool:
        self.left -= 1
        return self.left < 0


def full_cluster(strategy: BackfillStrategy) -> Cluster:
    """One node that a job holds for ten minutes, and distinct jobs that wait for it; only the last is small."""
    cluster = Cluster(Profile(backfill=BackfillPolicy(strategy=strategy, depth=0)))
    cluster.put_node(
        NodeRecord(info=NodeInfo(name="a", cpu_milli=4000, memory_mib=65536), incarnation=1, registered_at=NOW)
    )
    cluster.set_ready("a", True)
    holder = JobState(
        id="holder", tenant="t", name="x", submitted_by="u", phase="RUNNING", attempt=1, queued_at=NOW - 10,
        bound_at=NOW, planned_s=600.0, fence=Fence(epoch=1, counter=1),
        placements=(Placement(node="a", incarnation=1, cpu_milli=3500, memory_mib=64),),
    )  # fmt: skip
    follow(cluster, None, holder, spec(3500, 600.0), NOW)
    for number in range(JOBS):
        cpu = 100 if number == JOBS - 1 else 1000 + number
        follow(cluster, None, waiting(number), spec(cpu, 60.0 + JOBS - number), NOW)
    return cluster


def waiting(number: int) -> JobState:
    return JobState(id=f"job{number:03}", tenant="t", name="x", submitted_by="u", queued_at=NOW - 1000 + number)


def spec(cpu_milli: int, runs_s: float) -> JobSpec:
    return JobSpec(
        command=("true",), resources=Resources(cpu_milli=cpu_milli, memory_mib=64), expected_runtime_s=runs_s,
        deadline_at=NOW + 86_400.0,
    )  # fmt: skip


def plan_once(cluster: Cluster, turns: Turns, budget: CycleBudget) -> Plan:
    turns.left = TURNS
    plan = cycle_at(cluster, cluster.profile, NOW, budget=budget)
    cluster.promise(plan.promises, more=plan.more or not budget.whole)
    return plan


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_had_no_turn_comes_first_in_the_next_cycle(strategy: BackfillStrategy) -> None:
    cluster, turns = full_cluster(strategy), Turns()
    budget = CycleBudget(turns.over)
    plans = [plan_once(cluster, turns, budget)]
    assert 0 < plans[0].unreached < JOBS
    assert plans[0].more
    assert not plans[0].placed, "the small one is the last in line"
    while not plans[-1].placed and len(plans) < 10:
        plans.append(plan_once(cluster, turns, budget))
        assert plans[-1].unreached < plans[-2].unreached or plans[-1].placed, "every cycle comes further"
    assert [one.job for one in plans[-1].placed] == [f"job{JOBS - 1:03}"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_with_time_enough_it_is_the_plan_without_a_budget(strategy: BackfillStrategy) -> None:
    bounded, unbounded = full_cluster(strategy), full_cluster(strategy)
    for _ in range(2):
        plan = cycle_at(bounded, bounded.profile, NOW, budget=CycleBudget(lambda: False))
        assert plan == cycle_at(unbounded, unbounded.profile, NOW)
        assert plan.unreached == 0
        bounded.promise(plan.promises)
        unbounded.promise(plan.promises)


def test_what_was_promised_is_kept_by_cycles_that_do_not_come_to_it() -> None:
    cluster, turns = full_cluster("conservative"), Turns()
    budget = CycleBudget(turns.over)
    first = {one.job: one.start for one in plan_once(cluster, turns, budget).promises}
    assert len(first) >= TURNS - 1
    for _ in range(3):
        later = {one.job: one.start for one in plan_once(cluster, turns, budget).promises}
        assert all(later[job] <= start for job, start in first.items())


def test_once_everybody_had_a_turn_there_is_nothing_more_to_do() -> None:
    cluster, turns = full_cluster("conservative"), Turns()
    budget = CycleBudget(turns.over)
    plans = [plan_once(cluster, turns, budget)]
    while plans[-1].more and len(plans) < 20:
        plans.append(plan_once(cluster, turns, budget))
    assert not plans[-1].more, f"{len(plans)} cycles of {TURNS} turns for {JOBS} jobs"


def test_like_jobs_behind_a_full_node_are_not_looked_at_one_by_one() -> None:
    """The news of a busy cycle are few, however many jobs wait: where not even the shortest fits, none has a turn."""
    cluster = full_cluster("easy")
    for number in range(JOBS, 10 * JOBS):
        follow(cluster, None, waiting(number), spec(1000, 2000.0 - number), NOW)
    turns = Turns(left=20 * JOBS)
    plan = cycle_at(cluster, cluster.profile, NOW, budget=CycleBudget(turns.over))
    assert [placed.job for placed in plan.placed] == [f"job{JOBS - 1:03}"]
    assert 20 * JOBS - turns.left < 2 * JOBS
