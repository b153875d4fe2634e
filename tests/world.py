"""A whole control plane in one process: real services, several replicas, scripted agents, manual time.

    async with World(replicas=2) as world:
        agent = await world.agent("n1")
        job = await world.submit()
        await world.settle()
        start = agent.starts[job]

Nothing waits for real: `settle` runs everything that can run now, `advance` lets time pass. Every
commit is judged by `tests.audit` as it happens.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self

from ares.adapters.blobs.memory import MemoryBlobs
from ares.adapters.logs.files import FileLogs
from ares.adapters.planning.inline import InlinePlanning
from ares.adapters.policy import CelRules
from ares.adapters.secrets import EnvelopeVault, MemoryRing
from ares.adapters.store.epoch import ensure_epoch
from ares.adapters.store.memory import Faults, MemoryStore, StoreFault
from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.control import replica as services
from ares.control.execution.transitions import JobChange, Outcome, Written
from ares.control.planner.mirror import Mirror
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core.lifecycle.inputs import Bind, Input
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import JobSpec, Resources
from ares.model.state import JobState, Placement
from ares.model.timing import Timing
from ares.ports.cluster_link import GlobalPlane
from ares.ports.notify import Notifier
from ares.ports.planning import Handler
from ares.ports.store import (
    KV,
    Changes,
    Committed,
    Compacted,
    Compare,
    Op,
    Page,
    Store,
    StoreChange,
    StoreUnavailable,
    Unknown,
)
from tests.agents import ScriptedAgent
from tests.audit import Audit
from tests.clocks import ManualClock, SeededRng, settle

ALICE = Principal(token_id="alice-token", tenant="alpha", role="submitter")
BOB = Principal(token_id="bob-token", tenant="beta", role="submitter")
ADMIN = Principal(token_id="admin-token", tenant="alpha", role="admin")
KEEP_S = 30 * 86_400.0


def spec(**changes: Any) -> JobSpec:
    """A small job; `cpu_milli`, `memory_mib`, `gpus` and `gpu_milli` go into its resources."""
    wants: dict[str, Any] = {"cpu_milli": 1000, "memory_mib": 64}
    wants |= {key: changes.pop(key) for key in ("cpu_milli", "memory_mib", "gpus", "gpu_milli") if key in changes}
    return JobSpec(command=("true",), resources=Resources(**wants), **changes)


class AuditedStore(MemoryStore):
    """A MemoryStore whose every commit is judged."""

    audit: Audit

    def _record(self, changes: Sequence[StoreChange]) -> None:
        self.audit.take(changes)
        super()._record(changes)


class Wire:
    """A replica's own connection to the store: its watch can be held back, the whole can be cut."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._broken = False
        self.up = True
        self.txns = 0

    def hold_watch(self) -> None:
        """From now on the replica sees no changes, though it can read and write."""
        self._flowing.clear()

    def release_watch(self) -> None:
        self._flowing.set()

    def break_watch(self) -> None:
        """Ends the watch with an error after what it holds; the replica must list again."""
        self._broken = True
        self._flowing.set()

    def _enter(self) -> None:
        if not self.up:
            raise StoreUnavailable("the wire is cut")

    async def get(self, key: str) -> KV | None:
        self._enter()
        return await self._store.get(key)

    async def range(self, prefix: str, *, after: str = "", limit: int = 0, min_mod_revision: int = 0) -> Page:
        self._enter()
        return await self._store.range(prefix, after=after, limit=limit, min_mod_revision=min_mod_revision)

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> Committed | Unknown:
        self._enter()
        self.txns += 1
        return await self._store.txn(compares, then, otherwise)

    async def revision(self) -> int:
        self._enter()
        return await self._store.revision()

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes | Compacted]:
        async for item in self._store.watch(prefix, from_revision):
            await self._flowing.wait()
            if self._broken:
                self._broken = False
                raise StoreUnavailable("the watch broke")
            yield item

    async def grant_lease(self, ttl_s: float) -> int:
        self._enter()
        return await self._store.grant_lease(ttl_s)

    async def keep_alive(self, lease: int) -> float:
        self._enter()
        return await self._store.keep_alive(lease)

    async def revoke_lease(self, lease: int) -> None:
        self._enter()
        await self._store.revoke_lease(lease)

    async def close(self) -> None:
        raise AssertionError("a replica does not own the store")


class Replica(services.Replica):
    """The services of one replica, its loops, and its own wire to the store."""

    def __init__(self, world: "World", name: str, *, exclusive: bool, scheduling: bool, timing: Timing) -> None:
        self.wire = Wire(world.store)
        self.telemetry = world.telemetry or PrometheusTelemetry(world.rng)
        ports = services.Ports(
            store=self.wire, clock=world.clock, rng=world.rng, telemetry=self.telemetry, logs=world.logs,
            blobs=world.blobs, rules=CelRules(), notifier=world.notifier, vault=world.vault,
            global_plane=world.global_plane,
            judging=None if (judge := world.judge) is None else InlinePlanning(lambda: judge, world.clock),
            planning=tuple(
                InlinePlanning(
                    lambda: Mirror(world.clock.monotonic).handle, world.clock, lambda number=number: self.lags_s[number]
                )
                for number in range(world.planners)
            ),
        )  # fmt: skip
        self.planning = ports.planning[0]
        # Of each planner, how late its answers are; infinite when it hangs, below zero when it dies.
        self.lags_s = [0.0] * world.planners
        terms = services.ReplicaTerms(
            replica=name, epoch=world.epoch, store_id="world", exclusive=exclusive, jobs_max=world.queue_max,
            tenant_jobs_max=world.tenant_jobs_max, tenant_records_max=world.tenant_records_max,
            keep_s=KEEP_S, linger_s=0.0, ack_within_s=0.0, timing=timing, books=world.books,
        )  # fmt: skip
        super().__init__(ports, terms)
        self._schedules = scheduling
        self.guards: list[Compare] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks.append(asyncio.create_task(self.view.run()))
        await self.view.catch_up()
        await self.time.open()
        self._tasks += [asyncio.create_task(loop) for loop in self.loops().values()]

    async def reign(self, guard: Compare) -> None:
        self.guards.append(guard)
        await super().reign(guard)

    def duties(self, guard: Compare) -> tuple[Coroutine[object, object, None], ...]:
        first, *others = super().duties(guard)
        if self._schedules:
            return first, *others
        first.close()
        return tuple(others)

    async def stop(self) -> None:
        """Leaves in order: resigns if it led."""
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError), f"a loop of {self.name} ended by itself: {result!r}"
        self._tasks.clear()

    async def crash(self) -> None:
        """Gone without a word: its leadership and sessions only run out."""
        self.wire.up = False
        await self.stop()


class World:
    """With `scheduling=False` nothing is placed by itself: a test grants and takes away what it likes."""

    def __init__(
        self,
        *,
        replicas: int = 1,
        queue_max: int = 1_000_000,
        tenant_jobs_max: int = 1_000_000,
        tenant_records_max: int = 1_000_000,
        exclusive: bool = False,
        scheduling: bool = True,
        timings: Sequence[Timing] = (),
        notifier: Notifier | None = None,
        planners: int = 1,
        books: bool = False,
        clock: ManualClock | None = None,
        global_plane: GlobalPlane | None = None,
        telemetry: PrometheusTelemetry | None = None,
        judge: Handler | None = None,
    ) -> None:
        # Answers how a shadow profile would have done.
        self.judge = judge
        self.notifier = notifier
        self.telemetry = telemetry
        # How this world gets to its global plane, when it is a cluster of one.
        self.global_plane = global_plane
        # Whether leaders keep daily books: with them a job is kept until its day is closed.
        self.books = books
        self.planners = planners
        self.clock = clock or ManualClock()
        self.rng = SeededRng()
        self.queue_max = queue_max
        self.tenant_jobs_max = tenant_jobs_max
        self.tenant_records_max = tenant_records_max
        self.agents: list[ScriptedAgent] = []
        self.replicas: list[Replica] = []
        self._wanted = replicas
        self._exclusive = exclusive
        self._schedules = scheduling
        # Of each replica, as far as named.
        self._timings = timings

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self.logs = FileLogs(Path(self._folder.name))
        self.blobs = MemoryBlobs(self.clock.wall)
        self.vault = EnvelopeVault(MemoryRing())
        self.store = AuditedStore(self.clock)
        self.store.audit = self.audit = Audit()
        self.epoch = await ensure_epoch(self.store, self.rng)
        for _ in range(self._wanted):
            await self.add_replica()
        await settle()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.store.faults = Faults()
        for agent in self.agents:
            await agent.drop()
        for replica in self.replicas:
            await replica.stop()
        await self.store.close()
        await settle()
        self._folder.cleanup()
        if kind is None or self.audit.broken:
            self.audit.finish()

    async def add_replica(self) -> Replica:
        name, number = f"r{len(self.replicas) + 1}", len(self.replicas)
        timing = self._timings[number] if number < len(self._timings) else Timing()
        replica = Replica(self, name, exclusive=self._exclusive, scheduling=self._schedules, timing=timing)
        self.replicas.append(replica)
        await replica.start()
        return replica

    @property
    def one(self) -> Replica:
        return self.replicas[0]

    @property
    def two(self) -> Replica:
        return self.replicas[1]

    def leading(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.leader.leading]

    # ---- time and faults

    async def settle(self) -> None:
        await settle()

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    def later(self, seconds: float) -> None:
        """By all clocks, without what would happen meanwhile."""
        self.clock.jump_wall(seconds)
        for replica in self.replicas:
            replica.time.ending.begin(self.clock.wall())
            replica.time.keeping.begin(self.clock.wall())

    async def until(self, holds: Callable[[], object], within_s: float = 60.0) -> None:
        """Lets time pass in small steps until `holds`."""
        await settle()
        waited = 0.0
        while not holds():
            assert waited < within_s, f"did not happen within {within_s:g} s"
            await self.clock.advance(0.25)
            waited += 0.25

    def faults(self, *kinds: str | StoreFault | None) -> None:
        """What happens to the next transactions of all replicas, in order."""
        self.store.faults.next(*(StoreFault(kind) if isinstance(kind, str) else kind for kind in kinds))  # type: ignore[arg-type]

    # ---- people

    async def submit(self, *, replica: Replica | None = None, who: Principal = ALICE, **changes: Any) -> str:
        (job,) = await self.submit_many(1, replica=replica, who=who, **changes)
        return job

    async def submit_many(
        self, count: int, *, replica: Replica | None = None, who: Principal = ALICE, **changes: Any
    ) -> list[str]:
        requests = [SubmitRequest(spec=spec(**changes))] * count
        outcomes = await (replica or self.one).submit.submit(who, requests)
        assert all(isinstance(outcome, AcceptedJob) for outcome in outcomes), outcomes
        return [outcome.job for outcome in outcomes if not isinstance(outcome, Refusal)]

    def state(self, job: str) -> JobState:
        """The truth, as the auditor saw it committed."""
        return self.audit.states[job]

    def kinds(self, job: str) -> list[str]:
        return [event.kind for event in self.audit.events[job]]

    # ---- what a scheduler would do

    async def apply(self, job: str, *inputs: Input, replica: Replica | None = None) -> Outcome:
        change = JobChange(job, self.state(job).tenant, inputs)
        (outcome,) = await (replica or self.one).transitions.apply([change])
        await settle()
        return outcome

    def places(self, *nodes: str, first_rank: int = 0, cpu_milli: int = 1000, **changes: Any) -> tuple[Placement, ...]:
        """One placement per node, of the incarnation it has now, numbered from `first_rank` on."""
        usual: dict[str, Any] = {"cpu_milli": cpu_milli, "memory_mib": 64, **changes}
        return tuple(
            Placement(node=node, incarnation=self.audit.nodes[node].incarnation, rank=rank, **usual)
            for rank, node in enumerate(nodes, start=first_rank)
        )

    async def bind(self, job: str, *nodes: str, **changes: Any) -> JobState:
        """Grants an attempt with one rank on each of the nodes."""
        outcome = await self.apply(job, Bind(placements=self.places(*nodes, **changes), master_port=29500))
        assert isinstance(outcome, Written), outcome
        return outcome.state

    # ---- nodes

    async def agent(
        self, name: str = "n1", *, replica: Replica | None = None, renewing: bool = True, **changes: Any
    ) -> ScriptedAgent:
        """A new agent, connected and renewing."""
        agent = ScriptedAgent(self.clock, name, **changes)
        self.agents.append(agent)
        await agent.connect((replica or self.one).sessions, renewing=renewing)
        return agent

    async def running(self, *, replica: Replica | None = None, **changes: Any) -> tuple[ScriptedAgent, str]:
        """An agent on node n1 with one job that runs on it."""
        agent = await self.agent("n1", replica=replica)
        job = await self.submit(**changes)
        await settle()
        agent.started(agent.starts[job])
        await settle()
        assert self.state(job).phase == "RUNNING"
        return agent, job
