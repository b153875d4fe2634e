"""Many promises at once: found by columns over time, they are what going through every claim finds, at a cost per job
that does not grow with the queue."""

import random
import sys
from collections.abc import Callable
from math import inf

import pytest

from ares.core.ask import Ask
from ares.core.capacity import claims as claiming
from ares.core.capacity.claims import Claim, Claims
from ares.core.capacity.node_timeline import NodeTimeline, opening
from ares.core.capacity.transaction import Allocation, Transaction
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Plan
from ares.core.schedule.slot import earliest
from ares.model.job import Gang, JobSpec
from ares.model.profile import BackfillPolicy, Profile
from tests.unit.core.world import cluster, cycle_at, node, placed, run, spec, state

NOW = 10_000.0
_NEVER = 1_000_000


def profile(strategy: str) -> Profile:
    return Profile(backfill=BackfillPolicy(strategy=strategy, depth=0))  # type: ignore[arg-type]


def ready(chance: random.Random, strategy: str) -> Cluster:
    gpus = chance.choice([0, 4])
    devices = {"fpga": ("f0", "f1")}
    nodes = [node(f"n{at}", memory=100, gpus=gpus, devices=devices) for at in range(chance.choice([1, 3, 6]))]
    return cluster(*nodes, profile=profile(strategy))


def wanted(chance: random.Random, made: Cluster) -> JobSpec:
    gpus = chance.choice([0, 1, 2, 4]) if made.table.gpu_count.max() else 0
    return spec(
        cpu=chance.choice([0.5, 2, 3, 8]),
        memory=chance.choice([1, 10, 50]),
        gpus=gpus,
        gpu_milli=chance.choice([1000, 1000, 500]) if gpus else 1000,
        devices={"fpga": 1} if chance.random() < 0.1 else {},
        expected_runtime_s=chance.choice([10.0, 30.0, 70.0, 150.0]),
        gang=Gang(ranks=2) if chance.random() < 0.1 else None,
        deadline_at=chance.choice([None, NOW + 500.0]),
    )


def drive(seed: int, strategy: str) -> list[Plan]:
    """Jobs come, end as they said, early or late, and a node is away now and then."""
    chance, now, number = random.Random(seed), NOW, 0
    made, plans = ready(chance, strategy), list[Plan]()
    jobs, ends = dict[str, JobSpec](), dict[str, float]()
    for _ in range(8):
        for _ in range(chance.choice([2, 12])):
            name = f"j{number:03d}"
            jobs[name] = wanted(chance, made)
            made.enqueue(state(name, at=now + number * 1e-3), jobs[name])
            number += 1
        plan = cycle_at(made, made.profile, now)
        plans.append(plan)
        for one in plan.placed:
            made.dequeue(one.job)
            run(made, one.job, jobs[one.job], *one.placements, since=now)
            ends[one.job] = now + (jobs[one.job].expected_runtime_s or 0.0) * chance.choice([1.0, 1.0, 0.5, 1.3])
        made.promise(plan.promises, more=plan.more)
        now = min([*ends.values(), *(one.start for one in plan.promises if one.start > now)], default=now)
        for job in [job for job, at in ends.items() if at <= now]:
            del ends[job]
            made.release(job)
        made.set_ready("n0", chance.random() > 0.1)
    return plans


@pytest.mark.parametrize("strategy", ["conservative", "deadline"])
@pytest.mark.parametrize("seed", range(5))
def test_plans_are_the_same_by_columns(seed: int, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "_MANY", 2)
    by_columns = drive(seed, strategy)
    monkeypatch.setattr(claiming, "_MANY", _NEVER)
    assert by_columns == drive(seed, strategy)
    assert any(plan.promises for plan in by_columns)


@pytest.mark.parametrize("seed", range(20))
def test_every_row_opens_when_going_through_its_claims_says_so(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "_MANY", 1)
    chance = random.Random(seed)
    made = cluster(*(node(f"n{at}", gpus=4, memory=100) for at in range(3)))
    for at in range(9):
        runs = chance.choice([None, 50.0, 90.0, 200.0])
        place = placed(f"n{at % 3}", cpu=chance.choice([1, 2]), gpus=(at // 3,))
        run(made, f"r{at}", spec(expected_runtime_s=runs), place, since=NOW - 20)
    claims = Claims(made, Transaction(made.evaluations), NOW)
    for at in range(40):
        if at % 5 == 4:
            claims.drop(f"c{chance.randrange(at)}")
        start = NOW + chance.randrange(-20, 300, 10)
        taken = Allocation(chance.randrange(3), chance.choice([500, 2000]), 1, (chance.randrange(4),), 500, (), None)
        claims.add(Claim(f"c{at}", start, chance.choice([start + 30.0, start + 100.0, inf]), (taken,)))
        gpus = chance.choice([0, 1, 2])
        ask = Ask(cpu_milli=chance.choice([500, 3000]), memory_mib=1, gpus=gpus, gpu_milli=chance.choice([500, 1000]))
        runs_s = chance.choice([5.0, 30.0, 120.0, inf])
        timeline = claims.timeline(ask)
        assert timeline is not None
        one_by_one = [opening(NodeTimeline(made.table, row, ask), claims.shifts(row), NOW, runs_s) for row in range(3)]
        assert timeline.opens(ask, runs_s).tolist() == one_by_one


def test_a_gpu_that_is_claimed_before_it_is_free_comes_free_all_the_same() -> None:
    made = cluster(node("n0", gpus=1))
    run(made, "r", spec(expected_runtime_s=120.0, gpus=1), placed("n0", gpus=(0,)), since=NOW - 20)
    txn = Transaction(made.evaluations)
    claims = Claims(made, txn, NOW)
    # Its promise slipped: the room is held from before the one who has it ends.
    claims.add(Claim("first", NOW + 50.0, NOW + 200.0, (Allocation(0, 1000, 1, (0,), 1000, (), None),)))
    found = earliest(made, txn, claims, Ask(cpu_milli=1000, memory_mib=1, gpus=1), NOW, 60.0)
    assert found is not None
    assert found.start == NOW + 200.0


def calls(act: Callable[[], object]) -> int:
    """How many functions are entered, built-in ones too: a count, whatever the machine does meanwhile."""
    entered = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal entered
        entered += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return entered


def waiting(jobs: int, strategy: str) -> Cluster:
    """Four nodes, each held for most of it; distinct jobs wait for the rest."""
    made = cluster(*(node(f"n{at}", cpu=1, memory=4096) for at in range(4)), profile=profile(strategy))
    for at in range(4):
        run(made, f"r{at}", spec(expected_runtime_s=7200.0), placed(f"n{at}", cpu=0.6), since=NOW - at)
    for at in range(jobs):
        wants = spec(cpu=(500 + at) / 1000, memory=64 + at, expected_runtime_s=600.0 + at, deadline_at=NOW + 86_400.0)
        made.enqueue(state(f"j{at:04d}", at=float(at)), wants)
    return made


@pytest.mark.parametrize("strategy", ["conservative", "deadline"])
def test_a_plan_costs_as_much_per_job_however_many_wait(strategy: str) -> None:
    per_job: dict[int, tuple[float, float]] = {}
    for jobs in (100, 400):
        made = waiting(jobs, strategy)
        plans: list[Plan] = []
        first = calls(lambda made=made, plans=plans: plans.append(cycle_at(made, made.profile, NOW)))
        assert len(plans[0].promises) == jobs
        made.promise(plans[0].promises)
        # Room comes free: everybody may do better than was promised.
        made.release("r3")
        again = calls(lambda made=made, plans=plans: plans.append(cycle_at(made, made.profile, NOW)))
        assert len(plans[1].placed) == 1
        per_job[jobs] = first / jobs, again / jobs
    for few, many in zip(per_job[100], per_job[400], strict=True):
        assert many <= 1.25 * few, per_job
