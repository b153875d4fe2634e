"""(f) The scheduling core alone: one process, one core, the default profile.

Rates are of decisions, per second of this process's CPU time, so that neighbours on the machine count for less; what it
takes to put the decisions into the picture, as the service does from its watch, is told beside it.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from ares.app.processes import keep_freed_memory, look_for_garbage_less_often
from ares.core.capacity.holding import holding
from ares.core.explain.smallest_change import smallest_change
from ares.core.explain.why import explain_ask
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plan import Plan
from ares.model.job import Gang, JobSpec, Resources, TopologyWish
from ares.model.node import Gpu, NodeInfo, NodeRecord, NumaNode
from ares.model.profile import BackfillPolicy, Profile
from ares.model.state import JobState, Placement
from bench.report import Row, judged, rate
from bench.scale import Scale

_GPUS, _CPUS, _MEMORY_MIB = 8, 128, 1 << 20
_RACK, _ZONE = 16, 256
_NOW = 1_000_000.0
_TENANTS = 20
_LINKS = tuple(tuple("X" if a == b else "NV12" for b in range(_GPUS)) for a in range(_GPUS))
_SINGLE = JobSpec(command=("true",), resources=Resources(gpus=1, cpu_milli=4000, memory_mib=8192))


async def rows(scale: Scale, folder: Path) -> list[Row]:
    del folder
    # As the planning process does.
    look_for_garbage_less_often()
    keep_freed_memory()
    small, large = scale.nodes
    found = [row for nodes in (small, large) for row in _rates(nodes, large)]
    return [*found, *_queued(scale, large), *_promising(scale), *_explaining(large)]


def placement_s() -> tuple[float, float]:
    """CPU seconds of one placement with the picture kept up to date, on 1,000 nodes: of one class, of mixed ones."""
    one, mixed = (
        _drain(_cluster(1000), jobs, tenants) for jobs, tenants in ((_singles(4000), 1), (_mixed(1000), _TENANTS))
    )
    return 1 / one.applied, 1 / mixed.applied


def _rates(nodes: int, large: int) -> Iterator[Row]:
    plain = _naive(min(nodes, 1000))
    at = f"{nodes:,} nodes, {nodes * _GPUS:,} GPUs"
    aimed = nodes == large
    for words, jobs, tenants, target in (
        ("single-GPU jobs of one class", _singles(min(20_000, nodes * _GPUS // 2)), 1, 50_000 if aimed else None),
        ("jobs of 500 mixed classes", _mixed(min(20_000, nodes * 3)), _TENANTS, 3_000 if aimed else None),
        ("gangs of 2 to 64 nodes", _gangs(nodes), _TENANTS, None if aimed else 500),
    ):
        measured = _drain(_cluster(nodes), jobs, tenants)
        note = (
            f"{measured.placed:,} placed in {measured.cycles} cycles, the longest {measured.longest_s * 1e3:,.0f} ms; "
            f"{rate(measured.applied)} with the picture kept up to date"
        )
        yield Row(
            "f", f"{words}, {at}", rate(measured.rate), measured.rate,
            f"a loop over node objects, single-GPU jobs, {min(nodes, 1000):,} nodes: {rate(plain)}",
            measured.rate / plain, f">= {target:,}/s" if target else "",
            judged(measured.rate >= target) if target else "", note,
        )  # fmt: skip


def _queued(scale: Scale, nodes: int) -> Iterator[Row]:
    rates: dict[int, float] = {}
    for queued in scale.waiting:
        full, free = _cluster(nodes), _cluster(nodes)
        too_much = replace(_SINGLE, resources=replace(_SINGLE.resources, cpu_milli=(_CPUS + 1) * 1000))
        for number, spec in enumerate(_kinds(too_much, queued)):
            full.enqueue(_state(number, _TENANTS), spec)
        for number in range(queued):
            free.enqueue(_state(number), _SINGLE)
        cycle(full, _NOW)
        idle = min(_seconds(lambda full=full: cycle(full, _NOW)) for _ in range(5))
        rates[queued] = _go_on(free, 20).rate
        aimed = queued == 100_000
        yield Row(
            "f", f"a cycle with nothing to do, {queued:,} queued, {nodes:,} nodes", f"{idle * 1e3:.2f} ms", idle,
            target="<= 5 ms" if aimed else "", verdict=judged(idle <= 0.005) if aimed else "",
            note="100 classes of 20 tenants",
        )  # fmt: skip
    first, last = rates[scale.waiting[0]], rates[scale.waiting[-1]]
    yield Row(
        "f", f"single-GPU jobs with {scale.waiting[-1]:,} queued", rate(last), last,
        f"with {scale.waiting[0]:,} queued: {rate(first)}", last / first, "> 0.90", judged(last > 0.9 * first),
    )  # fmt: skip


def _promising(scale: Scale) -> Iterator[Row]:
    """Everybody is promised a start, and every promise is looked at again after one who held room has ended."""
    few, many = scale.promised
    for nodes in scale.paused_nodes:
        per_job: dict[int, float] = {}
        for jobs in (few, many):
            made = _held(nodes, jobs)
            first = _seconds(lambda made=made: made.promise(cycle(made, _NOW).promises))
            made.release("r0")
            again = _seconds(lambda made=made: cycle(made, _NOW))
            per_job[jobs] = max(first, again) / jobs
        yield Row(
            "f", f"conservative plan, {many:,} distinct jobs waiting, {nodes:,} nodes, per job",
            f"{per_job[many] * 1e6:.0f} us", per_job[many], f"with {few:,} waiting: {per_job[few] * 1e6:.0f} us",
            per_job[many] / per_job[few], "<= 1.5", judged(per_job[many] <= 1.5 * per_job[few]),
        )  # fmt: skip


def _held(nodes: int, jobs: int) -> Cluster:
    """A job holds most of every node; others that all differ wait for the rest."""
    made = Cluster(Profile(backfill=BackfillPolicy(strategy="conservative", depth=0)))
    for number in range(nodes):
        info = NodeInfo(name=f"n{number}", cpu_milli=1000, memory_mib=4096)
        made.put_node(NodeRecord(info=info, incarnation=1, registered_at=0.0))
        made.set_ready(info.name, True)
        place = Placement(node=info.name, incarnation=1, cpu_milli=600, memory_mib=32)
        state = replace(_state(number), id=f"r{number}", phase="RUNNING", placements=(place,), bound_at=_NOW + number)
        made.hold(holding(state, _SINGLE, (place,), 7200.0))
    for number in range(jobs):
        wants = Resources(cpu_milli=500 + number % 500, memory_mib=64 + number // 500)
        made.enqueue(_state(number), replace(_SINGLE, resources=wants, time_limit_s=1200.0 + number))
    return made


def _explaining(nodes: int) -> Iterator[Row]:
    made = _cluster(nodes)
    spec = replace(_SINGLE, resources=replace(_SINGLE.resources, gpus=_GPUS + 1))
    found = made.enqueue(_state(0), spec)
    cycle(made, _NOW)

    def all_of_it() -> None:
        explain_ask(made, found.key, found.key.asks[0], _NOW)
        smallest_change(made, _state(0), spec, _NOW)

    took = min(_seconds(all_of_it) for _ in range(5))
    yield Row(
        "f", f"explain one job with its smallest change, {nodes:,} nodes", f"{took * 1e3:.1f} ms", took,
        target="<= 20 ms", verdict=judged(took <= 0.020),
    )  # fmt: skip


# ---- measuring


@dataclass(frozen=True, slots=True)
class _Measured:
    placed: int
    cycles: int
    decided_s: float
    applied_s: float
    longest_s: float

    @property
    def rate(self) -> float:
        return self.placed / self.decided_s if self.decided_s else 0.0

    @property
    def applied(self) -> float:
        return self.placed / (self.decided_s + self.applied_s) if self.decided_s else 0.0


def _seconds(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def _drain(made: Cluster, jobs: list[JobSpec], tenants: int) -> _Measured:
    for number, spec in enumerate(jobs):
        made.enqueue(_state(number, tenants), spec)
    # What is computed once for a new kind of job is part of the price.
    return _go_on(made, 10_000)


def _go_on(made: Cluster, cycles_max: int) -> _Measured:
    """Cycles until nothing is placed any more; what is placed is taken out of the queue and held."""
    placed, longest, decided_s, applied_s, cycles = 0, 0.0, 0.0, 0.0, 0
    for _ in range(cycles_max):
        began = time.process_time()
        made.advance(_NOW)
        plan = cycle(made, _NOW)
        decided = time.process_time()
        _apply(made, plan)
        longest = max(longest, decided - began)
        decided_s += decided - began
        applied_s += time.process_time() - decided
        cycles += 1
        placed += len(plan.placed)
        if not plan.placed:
            break
    return _Measured(placed, cycles, decided_s, applied_s, longest)


def _apply(made: Cluster, plan: Plan) -> None:
    for one in plan.placed:
        found = made.waiting.class_of(one.job)
        assert found is not None, f"{one.job} was placed and does not wait"
        tenant = found.key.account.split("/")[0]
        state = replace(_state(int(one.job[1:])), tenant=tenant, phase="RUNNING", placements=one.placements)
        made.dequeue(one.job)
        made.hold(holding(state, _SINGLE, one.placements))
    # Columns are written when they are next read: that is part of keeping the picture.
    assert made.table.used, "there are nodes"


def _naive(nodes: int) -> float:
    """The same choice, best fit, by a plain loop over objects: what a scheduler without columns would do."""
    room = [[_CPUS * 1000, _MEMORY_MIB, _GPUS] for _ in range(nodes)]
    wants, jobs = _SINGLE.resources, 300

    def place() -> None:
        best, best_left = -1, 1e9
        for at, (cpu, memory, gpus) in enumerate(room):
            if cpu >= wants.cpu_milli and memory >= wants.memory_mib and gpus >= wants.gpus:
                left = cpu / (_CPUS * 1000) + memory / _MEMORY_MIB + gpus / _GPUS
                if left < best_left:
                    best, best_left = at, left
        room[best] = [room[best][0] - wants.cpu_milli, room[best][1] - wants.memory_mib, room[best][2] - wants.gpus]

    took = _seconds(lambda: [place() for _ in range(jobs)])
    return jobs / took


# ---- what is scheduled


def _cluster(nodes: int) -> Cluster:
    made = Cluster(Profile())
    for number in range(nodes):
        made.put_node(_node(number))
        made.set_ready(f"n{number}", True)
    return made


def _node(number: int) -> NodeRecord:
    gpus = tuple(
        Gpu(index=at, uuid=f"{number}.{at}", model="NVIDIA A100", memory_mib=40_960, numa_node=at // 4)
        for at in range(_GPUS)
    )
    numa = tuple(
        NumaNode(index=at, cpus=tuple(range(at * 64, at * 64 + 64)), memory_mib=_MEMORY_MIB // 2) for at in range(2)
    )
    info = NodeInfo(
        name=f"n{number}", cpu_milli=_CPUS * 1000, memory_mib=_MEMORY_MIB, gpus=gpus, numa=numa, gpu_links=_LINKS,
        rack=f"r{number // _RACK}", zone=f"z{number // _ZONE}", region="r", network_gbps=400.0,
        labels={"disk": "ssd" if number % 2 else "hdd"},
    )  # fmt: skip
    return NodeRecord(info=info, incarnation=1, registered_at=0.0)


def _state(number: int, tenants: int = 1) -> JobState:
    return JobState(
        id=f"j{number}", tenant=f"t{number % tenants}", name="job", submitted_by="user", submitted_at=float(number),
        queued_at=float(number), bound_at=_NOW,
    )  # fmt: skip


def _singles(count: int) -> list[JobSpec]:
    return [_SINGLE] * count


def _mixed(count: int) -> list[JobSpec]:
    """500 different sizes, some with a selector."""
    chance = random.Random(1)
    kinds = [
        replace(
            _SINGLE,
            resources=Resources(
                gpus=chance.choice([0, 1, 1, 1, 2, 4, 8]),
                cpu_milli=chance.randrange(1, 17) * 1000,
                memory_mib=chance.randrange(1, 65) * 1024,
            ),
            selector={"disk": "ssd"} if chance.random() < 0.2 else {},
        )
        for _ in range(500)
    ]
    return [kinds[chance.randrange(500)] for _ in range(count)]


def _gangs(nodes: int) -> list[JobSpec]:
    """Whole nodes, 2 to 64 of them, that should be in one rack or at least one zone."""
    chance, left = random.Random(2), nodes
    found: list[JobSpec] = []
    while left > 0:
        ranks = chance.choice([2, 2, 2, 4, 4, 8, 16, 64])
        left -= ranks
        found.append(
            JobSpec(
                command=("true",),
                resources=Resources(gpus=8, cpu_milli=64_000, memory_mib=512 * 1024),
                gang=Gang(ranks=ranks),
                topology=TopologyWish(level="rack"),
            )
        )
    return found


def _kinds(spec: JobSpec, count: int) -> Iterator[JobSpec]:
    """Five sizes, which with 20 tenants make 100 classes."""
    sizes = [replace(spec, resources=replace(spec.resources, memory_mib=1024 * (1 + at))) for at in range(5)]
    return (sizes[number // _TENANTS % 5] for number in range(count))
