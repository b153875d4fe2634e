"""Small traces of GPU jobs from a seed, and replays of them that are judged."""

import random
from collections.abc import Callable
from math import inf

from msgspec.structs import replace

from ares.check.replay.checker import Checker
from ares.check.replay.decisions import CycleDecisions
from ares.check.replay.rules import ReplayVerdict
from ares.check.replay.trace import Trace, TraceJob, node
from ares.model.job import Gang, JobSpec, Resources, TopologyWish
from ares.model.node import NodeInfo
from ares.model.profile import Profile
from ares.sim.traces.engine import EventOrder, ReplayOptions, replay
from ares.sim.traces.failures import NodeFailure
from ares.sim.traces.policies import ReplayPolicy

_NEAR = (None, None, *(TopologyWish(level=level, required=True) for level in ("rack", "node")), TopologyWish("rack"))


def cluster(chance: random.Random) -> tuple[NodeInfo, ...]:
    """Nodes of several kinds in two racks and two pools."""
    found: list[NodeInfo] = []
    for at in range(chance.randint(2, 5)):
        cards, model = (4, "A100") if not at else (chance.choice([0, 2, 4, 8]), chance.choice(["A100", "H100"]))
        made = node(f"n{at}", chance.choice([8, 16]), cards, model, 1000)
        devices = {"fpga": ("f0", "f1")} if chance.random() < 0.3 else {}
        where = {"rack": chance.choice(["r1", "r2"]), "zone": "z", "region": "e", "pool": chance.choice(["p", "q"])}
        found.append(replace(made, devices=devices, **where))
    return tuple(found)


def wants(chance: random.Random) -> Resources:
    """Whole GPUs, shares of GPUs, devices, or none of them."""
    gpus = chance.choice([0, 1, 1, 2, 4])
    return Resources(
        cpu_milli=chance.choice([500, 1000, 4000]), memory_mib=chance.choice([10, 100, 400]), gpus=gpus,
        gpu_milli=chance.choice([1000, 1000, 500, 300]) if gpus else 1000,
        gpu_model=chance.choice([None, None, None, "A100"]) if gpus else None,
        devices={"fpga": 1} if chance.random() < 0.1 else {},
    )  # fmt: skip


def some(
    seed: int, *, jobs: int = 50, exact: bool = False, unknown: bool = False, outlive: bool = False, fewer: bool = False
) -> Trace:
    """More than there is room for. What jobs say of themselves: the truth, nothing, too little. `fewer`: elastic."""
    chance = random.Random(seed)
    nodes, found, at = cluster(chance), list[TraceJob](), 0.0
    for number in range(jobs):
        at += chance.choice([0, 0, 5, 20, 60])
        gang = near = None
        if chance.random() < 0.3:
            least = chance.choice([None, 1]) if fewer else None
            gang = Gang(ranks=chance.randint(2, 4), min_ranks=least, per_node=chance.choice([None, None, 1, 2]))
            near = chance.choice(_NEAR)
        run = float(chance.choice([10, 30, 100, 300, 1000]))
        said = run if exact else run * chance.choice([1, 1.5, 3, 10])
        said = run / 2 if outlive and chance.random() < 0.3 else said
        says = None if unknown and chance.random() < 0.2 else said
        spec = JobSpec(command=("x",), resources=wants(chance), gang=gang, topology=near, expected_runtime_s=says)
        found.append(TraceJob(id=f"j{number}", submit=at, run_s=run, spec=spec, tenant=chance.choice("ab")))
    return Trace(f"seed {seed}", tuple(found), nodes)


def judged(
    trace: Trace,
    policy: ReplayPolicy,
    *,
    by: Profile | None = None,
    failures: tuple[NodeFailure, ...] = (),
    order: EventOrder = "instant",
    change: Callable[[CycleDecisions], CycleDecisions] | None = None,
) -> ReplayVerdict:
    """`by` is what the checker is told instead of the policy's own profile; `change` forges the log."""
    checker = Checker(trace, policy.name, by or policy.profile)

    def log(decision: CycleDecisions) -> None:
        checker(decision if change is None else change(decision))

    replay(trace, policy, ReplayOptions(log=log, failures=failures, event_order=order))
    return checker.verdict()


def once(forge: Callable[[CycleDecisions], CycleDecisions | None]) -> Callable[[CycleDecisions], CycleDecisions]:
    """Forges the first decision that it can."""
    done = inf

    def change(decision: CycleDecisions) -> CycleDecisions:
        nonlocal done
        forged = forge(decision) if done == inf else None
        if forged is None:
            return decision
        done = decision.time
        return forged

    return change
