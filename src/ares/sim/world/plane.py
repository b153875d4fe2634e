"""A replica of the control plane as a process of the simulated world: the real services, which crash and freeze, and
its planners, which by the seed answer late, die, hang, or repeat an old plan."""

import asyncio
from collections import deque
from collections.abc import Sequence
from math import inf
from pathlib import Path

import msgspec

from ares.adapters.planning.inline import InlinePlanning
from ares.adapters.telemetry.null import NullTelemetry
from ares.check.invariants.history import Fault, Frozen, Woken
from ares.control.execution.sessions import Sessions
from ares.control.execution.staging import Staging
from ares.control.planner.messages import PlannerAnswer
from ares.control.planner.mirror import Mirror
from ares.control.replica import Replica
from ares.control.replica_terms import Ports, ReplicaTerms
from ares.model.link import StoreLock
from ares.ports.blobs import Blobs
from ares.ports.clock import Clock
from ares.ports.planning import Handler
from ares.ports.projects import ProjectFiles
from ares.ports.store import StoreError
from ares.sim.world.clocks import Chance, SimClock
from ares.sim.world.loop import SimLoop
from ares.sim.world.network import Listener, Network
from ares.sim.world.record import WorldRecorder
from ares.sim.world.store import RecordedStore, SimLogs, StoreWire, Weather


class Plane(Listener):
    """One name, many processes in its life."""

    def __init__(
        self,
        loop: SimLoop,
        recorder: WorldRecorder,
        network: Network,
        store: RecordedStore,
        weather: Weather,
        chance: Chance,
        name: str,
        logs: Path,
        blobs: Blobs,
        planners: Chance,
        lock: StoreLock | None = None,
        planner_count: int = 1,
        files: ProjectFiles | None = None,
    ) -> None:
        self.name = name
        self._planner_count = planner_count
        self._lock = lock
        self._loop = loop
        self._recorder = recorder
        self._network = network
        self._store = store
        self._weather = weather
        self._chance = chance
        self.logs = SimLogs(logs)
        self._blobs, self._files = blobs, files
        self.clock = SimClock(loop, chance)
        self.moods = Moods(self.clock, planners)
        self._starts = 0
        self.component = ""
        self.replica: Replica | None = None
        self.sessions: Sessions | None = None
        self.staging: Staging | None = None
        self.wire = StoreWire(loop, store, weather, chance, name)

    @property
    def who(self) -> str:
        return f"replica {self.name}"

    @property
    def up(self) -> bool:
        return self.replica is not None

    def start(self) -> None:
        self._starts += 1
        if self._starts > 1:
            over = Fault(t=self._recorder.now(), kind="crash", who=self.who, what="it is started again", over=True)
            self._recorder.add(over)
        self.component = f"{self.who} #{self._starts}"
        cut, self.wire = self.wire.cut, StoreWire(self._loop, self._store, self._weather, self._chance, self.name)
        self.wire.set_cut(cut)
        ports = Ports(
            store=self.wire, clock=self.clock, rng=self._chance, telemetry=NullTelemetry(), logs=self.logs,
            blobs=self._blobs, projects=self._files,
            planning=tuple(
                InlinePlanning(self.moods.make, self.clock, self.moods.lag_s) for _ in range(self._planner_count)
            ),
        )  # fmt: skip
        terms = ReplicaTerms(
            replica=self.name,
            epoch=self._store.epoch,
            store_id="world",
            jobs_max=1000,
            store_lock=self._lock,
            books=False,
        )
        self.replica = Replica(ports, terms)
        self._loop.spawn(self.component, self._live(self.replica))

    async def _live(self, replica: Replica) -> None:
        self._loop.spawn(self.component, replica.view.run())
        await _until_caught_up(replica, self.clock)
        await _until_told_the_time(replica, self.clock)
        for loop in replica.loops().values():
            self._loop.spawn(self.component, loop)
        # From now on agents and clients can reach it.
        self.sessions, self.staging = replica.sessions, replica.staging

    def crash(self) -> None:
        self._recorder.add(Fault(t=self._recorder.now(), kind="crash", who=self.who, what="it is killed"))
        self._loop.kill(self.component)
        self.replica = self.sessions = self.staging = None
        self._break_streams()

    async def stop(self, lasts_s: float) -> None:
        """As a process that is told to end: it gives its agents leases of that length first."""
        assert self.sessions is not None, "nothing runs that could be stopped"
        announcing = self._loop.spawn(self.component, self.sessions.announce(lasts_s))
        while not announcing.done():
            await asyncio.sleep(0.005)
        # What was said is on its way.
        await asyncio.sleep(0.2)
        self.crash()

    def freeze(self) -> None:
        self._recorder.add(Frozen(t=self._recorder.now(), who=self.who))
        self._loop.freeze(self.component)

    def thaw(self) -> None:
        self._recorder.add(Woken(t=self._recorder.now(), who=self.who))
        self._loop.thaw(self.component)

    def release_watch(self) -> None:
        """Of the process that runs now: the one whose watch was held may be gone."""
        self.wire.release_watch()

    def _break_streams(self) -> None:
        for stream in self._network.streams:
            if stream.up.far == self.name:
                stream.breaks("the control plane is gone")


class Beside:
    """The witness on the machine of these replicas: a process that is gone holds no lock, one that is frozen does."""

    def __init__(self, planes: Sequence[Plane]) -> None:
        self._planes = planes

    async def free(self, lock: StoreLock) -> bool:
        return not any(plane.up for plane in self._planes)


async def _until_caught_up(replica: Replica, clock: SimClock) -> None:
    while not replica.view.connected:
        await clock.sleep(0.05)


async def _until_told_the_time(replica: Replica, clock: SimClock) -> None:
    while True:
        try:
            await replica.time.open()
            return
        except StoreError:
            await clock.sleep(0.05)


_EARLIER_MAX = 16


class Moods:
    """The faults of one replica's planners: none until a swarm sets them, and none after healing."""

    def __init__(self, clock: Clock, chance: Chance) -> None:
        self._clock = clock
        self._chance = chance
        self.calm = True

    def make(self) -> Handler:
        """A new planner: it knows nothing."""
        return _Wayward(Mirror(self._clock.monotonic).handle, self).answer

    def lag_s(self) -> float:
        """How late the next answer is; infinite when the planner hangs, below zero when it dies."""
        if self.calm or self._chance(0.7):
            return 0.0
        return self._chance.pick((self._chance.between(0.05, 3.0), self._chance.between(0.05, 3.0), -1.0, inf))

    def instead(self, earlier: Sequence[bytes]) -> bytes | None:
        """Now and then one of the earlier answers: an old plan."""
        return self._chance.pick(earlier) if earlier and not self.calm and self._chance(0.3) else None


class _Wayward:
    """A planner that now and then repeats an earlier answer."""

    def __init__(self, handler: Handler, moods: Moods) -> None:
        self._handler = handler
        self._moods = moods
        # Answers with placements.
        self._earlier: deque[bytes] = deque(maxlen=_EARLIER_MAX)

    def answer(self, frame: bytes) -> bytes:
        answer = self._handler(frame)
        plan = msgspec.msgpack.decode(answer, type=PlannerAnswer).plan
        if plan is None:
            return answer
        instead = self._moods.instead(self._earlier)
        if plan.placed:
            self._earlier.append(answer)
        return instead or answer
