"""One seed's world from its first moment to its last."""

import asyncio
import gc
import logging
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from ares.check.invariants.history import Ended, Event, Settings
from ares.core import keys
from ares.model.link import StoreLock
from ares.model.state import TERMINAL, ArrayRecord, JobState
from ares.model.timing import DEFAULT
from ares.sim.world.clocks import Chance, SimClock
from ares.sim.world.data import SimFiles
from ares.sim.world.loop import SimLoop
from ares.sim.world.network import Listener, Network
from ares.sim.world.node import SimulatedNode
from ares.sim.world.operator import DATA_QUOTAS, QUOTAS, Operator
from ares.sim.world.people import SimulatedCalls, SimulatedPerson
from ares.sim.world.plane import Beside, Plane
from ares.sim.world.record import WorldRecorder
from ares.sim.world.store import RecordedStore, SimBlobs, Weather
from ares.sim.world.swarm import Mix, SwarmNemesis, mix

# ---- quiet: nothing is left to do in a world, by its store alone


_state = msgspec.json.Decoder(JobState).decode
# From this seed on people submit workflows, and jobs that wait for jobs or save checkpoints. Worlds before it are as
# they were recorded.
FLOW_SEEDS = 100_000
_array = msgspec.json.Decoder(ArrayRecord).decode


class Quiet:
    def __init__(self, store: RecordedStore) -> None:
        self._store = store

    def quiet(self) -> bool:
        """Every job has ended and holds nothing, and every array has its tasks."""
        kvs = self._store.snapshot()
        states = (_state(kv.value) for key, kv in kvs.items() if key.startswith(keys.STATE))
        arrays = (_array(kv.value) for key, kv in kvs.items() if key.startswith(keys.ARRAYS))
        return all(s.phase in TERMINAL and not s.lingering for s in states) and all(a.expanded for a in arrays)


LIVENESS_S = 400.0
_LOOK_S = 1.0
TENANTS = ("alpha", "beta")


@dataclass(frozen=True, slots=True)
class Played:
    """What happened, and what broke in the program itself: failures are defects, whatever the predicates say."""

    seed: int
    mix: Mix
    events: list[Event]
    failures: tuple[str, ...]


# What says where it is does not matter here.
_LOCK = StoreLock(path="store", device=0, inode=0, kernel="", longest_s=DEFAULT.longest_s)


class Vain(Exception):
    """A script waited for something that did not happen: a failure of the case, unless a seeded bug is switched on."""


class SimulatedWorld:
    def __init__(self, seed: int, directory: Path, shape: Mix | None = None) -> None:
        self.seed = seed
        self.mix = shape or mix(seed)
        self.loop = SimLoop()
        self.recorder = WorldRecorder(self.loop)
        self.recorder.add(
            Settings(t=0.0, seed=seed, kill_s=1.0, check_s=1.5, drift=abs(self.mix.drift), liveness_s=LIVENESS_S)
        )
        self.network = Network()
        self.weather = Weather()
        self.store = RecordedStore(SimClock(self.loop, Chance(seed, "store clock")), self.recorder)
        logs = directory / "logs"
        self.blobs = SimBlobs(self.loop, Chance(seed, "blobs"))
        self.files = SimFiles(self.loop, Chance(seed, "files"))
        self.planes = [self._plane(f"r{n + 1}", logs) for n in range(self.mix.replicas)]
        self.nodes = [self._node(f"n{n + 1}", directory) for n in range(self.mix.nodes)]
        calls = SimulatedCalls(self.loop, self.network, self.recorder, Chance(seed, "calls"))
        self.people = [
            SimulatedPerson(
                f"p{n + 1}",
                TENANTS[n % 2],
                calls,
                self.planes,
                Chance(seed, f"p{n + 1}"),
                self.mix.runs_s,
                Chance(seed, f"needs of p{n + 1}") if seed >= FLOW_SEEDS and shape is None else None,
                Chance(seed, f"checkpoints of p{n + 1}") if seed >= FLOW_SEEDS and shape is None else None,
                (self.files, Chance(seed, f"data of p{n + 1}")) if self.mix.data else None,
            )
            for n in range(self.mix.people)
        ]
        self.operator = Operator(
            calls, self.planes, [node.name for node in self.nodes], Chance(seed, "operator"),
            Chance(seed, "quotas").pick(DATA_QUOTAS if self.mix.data else QUOTAS),
        )  # fmt: skip
        self.nemesis = SwarmNemesis(
            self.loop, self.recorder, Chance(seed, "nemesis"), self.mix, self.network, self.store, self.weather,
            self.blobs, self.files, self.planes, self.nodes, [person.name for person in self.people],
        )  # fmt: skip
        self._lives: list[asyncio.Task[None]] = []

    @property
    def _beside(self) -> bool:
        """With several replicas another may decide."""
        return self.mix.beside and self.mix.replicas == 1

    def _plane(self, name: str, logs: Path) -> Plane:
        chance = Chance(self.seed, name)
        planners = Chance(self.seed, f"planners of {name}")
        return Plane(
            self.loop, self.recorder, self.network, self.store, self.weather, chance, name, logs, self.blobs, planners,
            _LOCK if self._beside else None, self.mix.planners, self.files if self.mix.data else None,
        )  # fmt: skip

    def _node(self, name: str, directory: Path) -> SimulatedNode:
        chance = Chance(self.seed, name)
        replicas: list[Listener] = [*self.planes]
        return SimulatedNode(
            self.loop, self.recorder, self.network, chance, name, directory / name, lambda: replicas,
            drift=self.mix.drift, cpu_milli=3000, gpus=2, witness=Beside(self.planes) if self._beside else None,
        )  # fmt: skip

    async def play(self, script: "Script | None" = None) -> None:
        """With a script what happens is what it says; else people do as they like and everything breaks."""
        for plane in self.planes:
            plane.start()
        for node in self.nodes:
            node.start()
        await (self._swarm() if script is None else self._directed(script))
        quiet = await self._calm()
        for life in self._lives:
            if life.done() and not life.cancelled():
                life.result()
        self.recorder.add(Ended(t=self.recorder.now(), quiet=quiet))

    async def _swarm(self) -> None:
        for plane in self.planes:
            plane.moods.calm = Chance(self.seed, f"moods of {plane.name}")(0.6)
        self._lives = [self.loop.spawn(f"person {person.name}", person.live(self.mix.deeds)) for person in self.people]
        steering = self.loop.spawn("operator", self.operator.live(self.mix.steers, lambda: self.nemesis.healed))
        await self.nemesis.run()
        for plane in self.planes:
            plane.moods.calm = True
        await steering

    async def _directed(self, script: "Script") -> None:
        try:
            await script(self)
        except Vain as error:
            self.loop.failures.append(("script", error))
        self.nemesis.heal()
        for person in self.people:
            person.done = True

    async def _calm(self) -> bool:
        """Whether everything came to its end within the bound."""
        look = Quiet(self.store)
        healed = self.loop.time()
        # The bound must be over, or no job is checked by it.
        while self.loop.time() < healed + LIVENESS_S + _LOOK_S:
            await asyncio.sleep(_LOOK_S)
            if all(person.done for person in self.people) and look.quiet():
                return True
        return False


Script = Callable[[SimulatedWorld], Coroutine[Any, Any, None]]


def play(seed: int, shape: Mix | None = None, script: Script | None = None) -> Played:
    """Runs one seed. Everything it leaves behind is removed."""
    with _alone():
        return _play(seed, shape, script)


def _play(seed: int, shape: Mix | None, script: Script | None) -> Played:
    directory = Path(tempfile.mkdtemp(prefix="ares-sim-", dir=_fast_directory()))
    world = SimulatedWorld(seed, directory, shape)
    try:
        asyncio.set_event_loop(None)
        world.loop.run_until_complete(world.play(script))
    finally:
        # What is taken apart is not part of the history.
        events = world.recorder.events.copy()
        world.loop.abandon()
        shutil.rmtree(directory, ignore_errors=True)
    failures = tuple(f"{component}: {error!r}" for component, error in world.loop.failures)
    return Played(seed, world.mix, events, failures)


def _fast_directory() -> str | None:
    """Files of simulated nodes need no disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextmanager
def _alone() -> Generator[None, None, None]:
    """Warnings of simulated faults are no news, and garbage is not looked for: when it is found depends on more than
    the seed."""
    configured, collecting = structlog.get_config(), gc.isenabled()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.disable()
    try:
        yield
    finally:
        structlog.configure(**configured)
        if collecting:
            gc.enable()
