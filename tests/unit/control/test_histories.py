"""Random histories on the whole control plane: gangs and preemption, lossy store, breaking streams, failovers, cancels.

Beside the auditor's rules for every commit and the machines' own, this checks what the whole promises: whatever was
acknowledged comes to its end, nobody is preempted beyond the cap, nothing stays reserved, no tenant reads of another's
jobs, and the scheduler's picture of the cluster is the one a fresh look at the store gives.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ares.adapters.store.memory import Faults, StoreFault
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.view import View
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core.capacity.holding import Holding
from ares.model.job import PRIORITIES, Gang, JobSpec, Preemption, Resources, RetryPolicy
from ares.model.profile import BackfillPolicy, OrderPolicy, PreemptionPolicy, Profile, Share
from ares.model.state import TERMINAL
from ares.ports.store import StoreError
from tests.fleet import DutifulAgent, Machines
from tests.world import ADMIN, ALICE, BOB, Replica, World

CAP = 2
EAGER = PreemptionPolicy(gap=1, min_runtime_s=0.0, cooldown_s=0.0, cap=CAP, disruption_max=4.0)
SHARES = {"alpha": Share(soft={"cpu": 3000}), "beta": Share(soft={"cpu": 3000})}
BASE = Profile(preemption=EAGER, licences={"sim": 2})
PROFILES = (
    BASE,
    replace(BASE, shares=SHARES),
    replace(BASE, shares={"alpha": Share(hard={"cpu": 6000})}),
    replace(BASE, order=OrderPolicy(half_life_s=3600.0), max_placements_per_cycle=1),
    # Nobody may pass whoever waits.
    replace(BASE, actions=("claim", "allocate", "grow")),
    replace(BASE, actions=("claim", "allocate", "backfill", "grow"), backfill=BackfillPolicy(strategy="greedy")),
    replace(BASE, backfill=BackfillPolicy(strategy="conservative"), max_placements_per_cycle=3),
    replace(BASE, backfill=BackfillPolicy(strategy="aggressive", delay_max_s=60.0)),
)
GANGS = (
    Gang(ranks=2),
    Gang(ranks=3, per_node=1, assembly_s=10.0),
    Gang(ranks=3, min_ranks=1),
    Gang(ranks=4, min_ranks=2),
)
SMALL = (
    Resources(cpu_milli=500, memory_mib=64),
    Resources(cpu_milli=1000, memory_mib=64),
    Resources(cpu_milli=500, memory_mib=64, gpus=1),
    Resources(cpu_milli=500, memory_mib=64, gpus=1, gpu_milli=400),
)
LARGE = (Resources(cpu_milli=3000, memory_mib=64), Resources(cpu_milli=500, memory_mib=64, gpus=2))


class Weather(Faults):
    """Faults at random while it is bad."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self.bad = True

    def take(self) -> StoreFault | None:
        if not self.bad or self._chance.random() > 0.15:
            return None
        kind = self._chance.choice(["refused", "delayed", "request_lost", "reply_lost", "late"])
        return StoreFault(kind, self._chance.choice([0.0, 0.05, 0.4, 2.0]))  # type: ignore[arg-type]


class History:
    """One seed's world and what happens in it."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.machines = Machines()
        self.weather = Weather(self.chance)
        self.jobs: set[str] = set()
        self.cancelled: set[str] = set()
        self.calls: list[asyncio.Task[None]] = []
        self.fleet: list[DutifulAgent] = []

    async def begin(self) -> None:
        await self.world.one.profiles.put(ADMIN, PROFILES[self.chance.choice([0, 1])])
        self.world.store.faults = self.weather
        for n in range(3):
            agent = DutifulAgent(self.world.clock, f"n{n}", self.machines, self.chance)
            self.fleet.append(agent)
            self.world.agents.append(agent)

    def pick(self) -> Replica:
        return self.chance.choice(self.world.replicas)

    async def play(self, steps: int) -> None:
        for _ in range(steps):
            self._one_step()
            for _ in range(self.chance.choice([1, 1, 4])):
                await self._tick()

    async def _tick(self) -> None:
        await self.world.advance(0.25)
        for agent in self.fleet:
            await agent.tick(self.pick())

    def _one_step(self) -> None:
        chance = self.chance
        deeds: list[tuple[float, Callable[[], object]]] = [
            (0.5, lambda: self._call(self._submit())),
            (0.12, lambda: self._call(self._cancel())),
            (0.12, lambda: self._call(chance.choice(self.fleet).vanish(chance.choice([0, 2, 6, 8, 12])))),
            (0.04, lambda: chance.choice(self.fleet).fall_silent(chance.choice([3, 8, 12]))),
            (0.05, lambda: self._call(chance.choice(self.fleet).restart(self.pick()))),
            (0.06, self._hold),
            (0.06, self._release),
            (0.04, self._relist),
            (0.04, self._cut),
            (0.06, lambda: self._call(self._steer_node())),
            (0.04, lambda: self._call(self._change_profile())),
        ]
        (_, deed) = chance.choices(deeds, [weight for weight, _ in deeds])[0]
        deed()

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.calls.append(asyncio.create_task(coroutine))

    # ---- faults

    def _hold(self) -> None:
        self.pick().wire.hold_watch()

    def _release(self) -> None:
        self.pick().wire.release_watch()

    def _relist(self) -> None:
        self.world.store.compact()
        self.pick().wire.break_watch()

    def _cut(self) -> None:
        """For a leader this is a crash at whatever it was doing: another takes over."""
        wire = self.pick().wire
        wire.up = not wire.up

    # ---- people

    async def _submit(self) -> None:
        chance, who = self.chance, self.chance.choice([ALICE, BOB])
        request = SubmitRequest(spec=self._spec(), request_id=f"r{chance.randrange(1_000_000)}")
        for _ in range(2):
            (outcome,) = await self.pick().submit.submit(who, [request])
            if isinstance(outcome, AcceptedJob):
                self.jobs.add(outcome.job)

    def _spec(self) -> JobSpec:
        chance = self.chance
        gang = chance.choice([None, None, *GANGS])
        asked = [*SMALL, *LARGE] if gang is None else SMALL
        return JobSpec(
            command=("true",),
            resources=chance.choice(asked),
            alternatives=chance.choice([(), (), (chance.choice(asked),)]),
            licences=chance.choice([{}, {}, {}, {"sim": 1}]),
            array=None if gang else chance.choice([None, None, "0-4"]),
            gang=gang,
            priority=chance.choice(PRIORITIES),
            retry=RetryPolicy(limit=5, class_limits={"node-lost": 100, "staging": 100}),
            effects=chance.choice(["staged", "staged", "staged", "unsafe"]),
            preemption=chance.choice(
                [Preemption(), Preemption(checkpoint_signal="SIGUSR2", wait_s=5.0), Preemption(allowed=False)]
            ),
        )

    async def _cancel(self) -> None:
        known = sorted(job for job, state in self.world.audit.states.items() if state.phase not in TERMINAL)
        if not known:
            return
        job = self.chance.choice(known)
        who = ALICE if self.world.state(job).tenant == ALICE.tenant else BOB
        try:
            state = await self.pick().jobs.cancel(who, job)
        except StoreError:
            return
        if getattr(state, "phase", "") == "CANCELLED":
            self.cancelled.add(job)

    async def _steer_node(self) -> None:
        nodes, name = self.pick().nodes, self.chance.choice(self.fleet).info.name
        deeds = [nodes.cordon(ADMIN, name, True), nodes.drain(ADMIN, name), nodes.undrain(ADMIN, name)]
        chosen = self.chance.randrange(len(deeds))
        for number, deed in enumerate(deeds):
            if number != chosen:
                deed.close()
        try:
            await deeds[chosen]
        except StoreError:
            return

    async def _change_profile(self) -> None:
        try:
            await self.pick().profiles.put(ADMIN, self.chance.choice(PROFILES))
        except StoreError:
            return

    # ---- the end

    async def calm(self) -> None:
        """All faults stop; whatever was acknowledged must come to its end."""
        self.weather.bad = False
        for replica in self.world.replicas:
            replica.wire.up = True
            replica.wire.release_watch()
        for agent in self.fleet:
            agent.silent_until = 0.0
        for _ in range(60):
            await self._tick()
        for agent in self.fleet:
            await self.world.one.nodes.undrain(ADMIN, agent.info.name)
        await self._same_picture()
        for _ in range(3000):
            await self._tick()
            if all(call.done() for call in self.calls) and self._all_ended():
                await self._same_picture()
                return
        states = [s for s in self.world.audit.states.values() if s.phase not in TERMINAL or s.lingering]
        raise AssertionError(f"{len(states)} jobs did not end, such as {states[:2]}")

    def _all_ended(self) -> bool:
        return all(s.phase in TERMINAL and not s.lingering for s in self.world.audit.states.values())

    async def _same_picture(self) -> None:
        """Every replica sees what one sees that looks for the first time."""
        await self.world.settle()
        view = View(self.world.store, self.world.clock)
        fresh = LiveCluster(view, self.world.clock)
        await view.open()
        for replica in self.world.replicas:
            await replica.view.catch_up()
            now = self.world.clock.wall()
            assert picture(replica.planner, now) == picture(fresh, now), replica.name
            for path in ("", "alpha", "beta"):
                kept, told = (one.cluster.usage.of(path, now) for one in (replica.planner, fresh))
                assert kept == pytest.approx(told, rel=0.01, abs=1e-5), (replica.name, path)

    def judge(self) -> None:
        audit = self.world.audit
        assert self.jobs <= {state.array or job for job, state in audit.states.items()}, "an acknowledged job is gone"
        for job in self.cancelled:
            assert self.world.state(job).phase == "CANCELLED"
        for call in self.calls:
            assert call.exception() is None
        for array in self.world.one.view.arrays.values():
            assert sum(state.array == array.id for state in audit.states.values()) == array.tasks
        evictions = Counter(
            event.job
            for events in audit.events.values()
            for event in events
            if event.kind == "preempted" and event.data["rule"] != "drain"
        )
        assert all(count <= CAP for count in evictions.values()), evictions
        self._judge_secrets()

    def _judge_secrets(self) -> None:
        """No ledger names a job of another tenant."""
        audit = self.world.audit
        told: dict[str, bytes] = {"alpha": b"", "beta": b""}
        for job, events in audit.events.items():
            told[audit.states[job].tenant] += msgspec.json.encode(events)
        for job, state in audit.states.items():
            other = "beta" if state.tenant == "alpha" else "alpha"
            assert job.encode() not in told[other], f"{other} is told of {job} of {state.tenant}"


def picture(planner: LiveCluster, now: float) -> dict[str, Any]:
    """What the scheduler goes by, as plain values."""
    cluster = planner.cluster
    cluster.prepare()
    cluster.advance(now)
    rows = cluster.rows
    return {
        "free": {name: cluster.free(name) for name in sorted(rows)},
        "healthy": {name: bool(cluster.table.healthy[rows[name]]) for name in sorted(rows)},
        "holdings": {job: _settled(one) for job, one in cluster.holdings.items()},
        "reserved": cluster.reserved,
        "waiting": {job: cluster.waiting.place_of(job)[:4] for job in cluster.waiting._places},  # type: ignore[index]
        "held": {path: cluster.held_below(path, "cpu") for path in ("alpha", "beta")},
        "licences": +cluster.licences_used,
        "preemptible": +cluster.preemptible,
        "growing": cluster.may_grow,
        "capacity": cluster.capacity(),
        "profile": cluster.profile,
    }


def _settled(one: Holding) -> Holding:
    """Without the guess when a job ends that has outlived its estimate: it goes by when the replica looked last."""
    outlived = one.ends_at is not None and one.runs_s is not None and one.ends_at > one.since + one.runs_s
    return replace(one, ends_at=None) if outlived else one


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.soak) for n in range(8, 64))])
async def test_any_history_keeps_its_promises(seed: int) -> None:
    async with World(replicas=3) as world:
        history = History(world, seed)
        await history.begin()
        await history.play(60)
        await history.calm()
        history.judge()
        for agent in history.fleet:
            await agent.leave()
