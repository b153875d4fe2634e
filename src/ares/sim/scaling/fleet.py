"""Machines of a trace that are on or off: who decides, what they cost, and how long jobs wait for them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ares.check.replay.trace import Trace
from ares.core.autoscale.purchase import Growth, virtual
from ares.core.schedule.cluster import Cluster
from ares.model.job import JobSpec
from ares.model.node import NodeInfo, NodeRecord
from ares.model.profile import Profile
from ares.model.scaling import NodeShape, ScalingPool
from ares.sim.routing.region import Region

# How often the scaler looks, in seconds of the trace.
LOOK_S = 60.0
_HOUR_S = 3600.0
_NEVER = float("inf")
# Looks in a row at which nothing runs, comes or is bought.
_LOOKS_MAX = 100_000


class FleetTerms(NamedTuple):
    """What one GPU costs an hour (a core, on machines without), and how long machines take to boot and stay idle."""

    unit_hour: float = 1.0
    boot_s: float = 180.0
    idle_s: float = 600.0


class Scaler(Protocol):
    """Whether machines are on before anything asks for them, and which to buy."""

    @property
    def always_on(self) -> bool: ...

    def buys(self, fleet: "Fleet", now: float) -> Sequence[tuple[str, int]]: ...


def pools_of(trace: Trace, terms: FleetTerms) -> tuple[ScalingPool, ...]:
    """Machines that are alike make one pool, which may have as many as the trace has."""
    kinds: dict[tuple[object, ...], list[NodeInfo]] = {}
    for info in trace.nodes:
        model = info.gpus[0].model if info.gpus else ""
        kinds.setdefault((info.cpu_milli, info.memory_mib, len(info.gpus), model), []).append(info)
    return tuple(_pool(f"pool-{number}", nodes, terms) for number, nodes in enumerate(kinds.values()))


def _pool(name: str, nodes: Sequence[NodeInfo], terms: FleetTerms) -> ScalingPool:
    info = nodes[0]
    shape = NodeShape(
        cpu_milli=info.cpu_milli, memory_mib=max(64, info.memory_mib), gpus=len(info.gpus),
        gpu_model=info.gpus[0].model if info.gpus else None,
        gpu_memory_mib=info.gpus[0].memory_mib if info.gpus else 0, labels=dict(info.labels),
    )  # fmt: skip
    units = len(info.gpus) or info.cpu_milli / 1000
    return ScalingPool(
        name=name, shape=shape, nodes_max=len(nodes), after_s=LOOK_S, idle_s=terms.idle_s, boot_s=terms.boot_s,
        node_hour=units * terms.unit_hour,
    )  # fmt: skip


class _FleetMachine:
    """`ready_at` None: off."""

    def __init__(self, name: str, pool: str) -> None:
        self.name, self.pool = name, pool
        self.bought_at = 0.0
        self.ready_at: float | None = None
        self.is_ready = self.was_busy = False
        self.busy_at = 0.0


class Fleet:
    def __init__(self, trace: Trace, profile: Profile, specs: list[JobSpec], terms: FleetTerms, scaler: Scaler) -> None:
        self.trace, self.specs, self._scaler = trace, specs, scaler
        self.pools = {pool.name: pool for pool in pools_of(trace, terms)}
        self.region = Region("fleet", trace, profile, specs)
        self._machines = [_FleetMachine(info.name, self._pool_of(info)) for info in trace.nodes]
        # By pool, in seconds that machines were paid for.
        self._paid: dict[str, float] = dict.fromkeys(self.pools, 0.0)
        self.most_on = 0
        begin = trace.jobs[0].submit if trace.jobs else 0.0
        for machine in self._machines:
            machine.ready_at = begin if scaler.always_on else None
            machine.bought_at, machine.is_ready = begin, scaler.always_on
            self.cluster.set_ready(machine.name, scaler.always_on)

    def _pool_of(self, info: NodeInfo) -> str:
        model = info.gpus[0].model if info.gpus else None
        same = (info.cpu_milli, len(info.gpus), model)
        return next(
            pool.name
            for pool in self.pools.values()
            if (pool.shape.cpu_milli, pool.shape.gpus, pool.shape.gpu_model) == same
        )

    @property
    def cluster(self) -> Cluster:
        return self.region.world.cluster

    # ---- for scalers

    def growths(self) -> list[Growth]:
        off = [machine.pool for machine in self._machines if machine.ready_at is None]
        return [Growth(pool, off.count(pool.name)) for pool in self.pools.values()]

    def coming(self) -> list[NodeRecord]:
        return [
            virtual(f"{machine.name}-coming", self.pools[machine.pool])
            for machine in self._machines
            if machine.ready_at is not None and not machine.is_ready
        ]

    def waited_s(self, job: str, now: float) -> float:
        return now - self.trace.jobs[int(job)].submit

    # ---- going through the trace

    def run(self) -> float:
        """Until every job is over. Returns what was paid."""
        jobs, world, number, now, looks = self.trace.jobs, self.region.world, 0, 0.0, 0
        while number < len(jobs) or world.over < len(jobs):
            comes = jobs[number].submit if number < len(jobs) else _NEVER
            now = min(comes, self._next_look(now))
            if now == _NEVER:
                break
            self.region.go(now)
            while number < len(jobs) and jobs[number].submit <= now:
                self.region.submit(number, now)
                number += 1
            looks = 0 if self._look(now) or self.cluster.holdings else looks + 1
            if looks > _LOOKS_MAX:
                raise RuntimeError(f"{self.cluster.pending} jobs wait, and nothing is bought for them")
        return self._paid_for(now)

    def _next_look(self, now: float) -> float:
        """Soon, while something may be bought; else when a job ends, or a machine comes or has been idle for long."""
        if self.cluster.pending and any(machine.ready_at is None for machine in self._machines):
            return now + LOOK_S
        idle = (
            m.busy_at + self.pools[m.pool].idle_s
            for m in self._machines
            if m.is_ready and not self._scaler.always_on and not self.cluster.on_node.get(m.name)
        )
        comes = (m.ready_at for m in self._machines if m.ready_at is not None and not m.is_ready)
        return max(min(self.region.next_at, *idle, *comes, _NEVER), now)

    def _look(self, now: float) -> bool:
        """Whether machines came, or were bought."""
        came = [m for m in self._machines if not m.is_ready and m.ready_at is not None and m.ready_at <= now]
        for machine in came:
            machine.is_ready, machine.busy_at = True, now
            self.cluster.set_ready(machine.name, True)
        if came:
            self.region.settle()
        if self._scaler.always_on:
            return bool(came)
        bought = 0
        off = any(machine.ready_at is None for machine in self._machines)
        for pool, count in self._scaler.buys(self, now) if self.cluster.pending and off else ():
            chosen = [m for m in self._machines if m.pool == pool and m.ready_at is None][:count]
            for machine in chosen:
                machine.bought_at, machine.ready_at = now, now + self.pools[pool].boot_s
            bought += len(chosen)
        self._give_back(now)
        self.most_on = max(self.most_on, sum(machine.ready_at is not None for machine in self._machines))
        return bool(came) or bool(bought)

    def _give_back(self, now: float) -> None:
        for machine in self._machines:
            if not machine.is_ready:
                continue
            is_busy = bool(self.cluster.on_node.get(machine.name))
            if is_busy or machine.was_busy:
                # It is looked at whenever a job ends.
                machine.busy_at, machine.was_busy = now, is_busy
            elif now - machine.busy_at >= self.pools[machine.pool].idle_s:
                self.cluster.set_ready(machine.name, False)
                self._paid[machine.pool] += now - machine.bought_at
                machine.is_ready, machine.ready_at = False, None

    def _paid_for(self, now: float) -> float:
        """With what is still on when the last job is over."""
        ends = [end for end in self.region.world.books.end if end == end]
        over = max(ends, default=now)
        for machine in self._machines:
            if machine.ready_at is not None:
                self._paid[machine.pool] += max(0.0, over - machine.bought_at)
        return sum(seconds / _HOUR_S * self.pools[name].node_hour for name, seconds in self._paid.items())
