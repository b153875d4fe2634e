"""Which faults a world suffers, and how hard: drawn from its seed, so that seeds differ in kind and not only in time.

The nemesis breaks something every few seconds and mends it later. Every family of faults is on in about half the seeds.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ares.check.invariants.history import Fault, Healed, Woken
from ares.sim.world.clocks import Chance
from ares.sim.world.data import SimFiles
from ares.sim.world.loop import SimLoop
from ares.sim.world.network import Network
from ares.sim.world.node import SimulatedNode
from ares.sim.world.plane import Plane
from ares.sim.world.record import WorldRecorder
from ares.sim.world.store import Backup, RecordedStore, SimBlobs, Weather

FAMILIES = (
    "agent-crash", "agent-freeze", "node-freeze", "node-power", "process-freeze", "replica-crash", "replica-freeze",
    "cut", "isolate", "swizzle", "store-cut", "store-away", "watch", "wall-clock", "slow-machine", "disk-full",
    "restore",
)  # fmt: skip


# From this seed on replicas have several planners. Worlds before it are as they were recorded.
PLANNER_SEEDS = 200_000
# And from this one on tenants have datasets.
DATA_SEEDS = 300_000
# Worlds with them show little else.
_RARE = {"restore": 0.1}


@dataclass(frozen=True, slots=True)
class Mix:
    """The swarm's choice for one seed."""

    replicas: int
    nodes: int
    people: int
    deeds: int
    # How often the operator does something to a node.
    steers: int
    safety_s: float
    families: tuple[str, ...]
    # Mean time between faults.
    every_s: float
    # Of requests to the store, and of frames.
    store_rate: float
    store_slow: float
    breaking: float
    slow: float
    slow_s: float
    doubled: float
    # How long jobs run, one of these.
    runs_s: tuple[float, ...]
    # Of calls to where files are kept.
    blob_rate: float
    # A lease of the store ends after this part of its time.
    lease_stretch: float
    drift: float
    # The only replica has its store to itself, and the nodes see whether it is there.
    beside: bool = False
    # Planners of each replica.
    planners: int = 1
    # Tenants have datasets, and jobs that read them.
    data: bool = False


def mix(seed: int) -> Mix:
    chance = Chance(seed, "mix")
    return Mix(
        replicas=chance.pick((1, 2, 2, 3)),
        nodes=chance.pick((1, 2, 2, 3)),
        people=chance.pick((1, 2, 2)),
        deeds=chance.pick((4, 6, 8)),
        steers=chance.pick((0, 0, 2, 4)),
        safety_s=chance.pick((20.0, 30.0, 40.0)),
        families=tuple(family for family in FAMILIES if chance(_RARE.get(family, 0.4))),
        every_s=chance.pick((1.5, 3.0, 6.0)),
        store_rate=chance.pick((0.0, 0.0, 0.02, 0.1)),
        store_slow=chance.pick((0.0, 0.0, 0.02)),
        breaking=chance.pick((0.0, 0.0, 0.01, 0.05)),
        slow=chance.pick((0.0, 0.0, 0.02, 0.1)),
        slow_s=4.0,
        doubled=chance.pick((0.0, 0.0, 0.05)),
        blob_rate=chance.pick((0.0, 0.0, 0.1, 0.3)),
        runs_s=(0.2, 0.5, 2.0, 6.0, 12.0),
        lease_stretch=chance.pick((1.0, 1.0, 0.6, 1.6)),
        drift=chance.pick((0.0, 0.0, 0.01, -0.01)),
        beside=chance(0.5),
        planners=chance.pick((2, 4)) if seed >= PLANNER_SEEDS else 1,
        data=seed >= DATA_SEEDS,
    )


class SwarmNemesis:
    """Breaks and mends. What it holds broken is in `_mend`, so that healing forgets nothing."""

    def __init__(
        self,
        loop: SimLoop,
        recorder: WorldRecorder,
        chance: Chance,
        mix: Mix,
        network: Network,
        store: RecordedStore,
        weather: Weather,
        blobs: SimBlobs,
        files: SimFiles,
        planes: list[Plane],
        nodes: list[SimulatedNode],
        people: list[str],
    ) -> None:
        self._loop = loop
        self._recorder = recorder
        self._chance = chance
        self._mix = mix
        self._network = network
        self._store = store
        self._weather = weather
        self._blobs, self._files = blobs, files
        self._planes = planes
        self._nodes = nodes
        self._people = people
        self._mend: dict[int, Callable[[], None]] = {}
        self._number = 0
        self._backup: Backup | None = None
        self.healed = False

    async def run(self) -> None:
        """Until the safety phase is over; then everything is mended."""
        mix, chance = self._mix, self._chance
        self._weather.rate, self._weather.slow = mix.store_rate, mix.store_slow
        self._network.breaking, self._network.slow, self._network.doubled = mix.breaking, mix.slow, mix.doubled
        self._network.slow_s = mix.slow_s
        self._blobs.rate = self._files.rate = mix.blob_rate
        self._store.faults.lease_stretch = mix.lease_stretch
        if mix.store_rate or mix.store_slow:
            self._note("weather", "store", "requests to the store are lost, late or slow now and then")
        while mix.families:
            wait = chance.after(mix.every_s)
            if self._loop.time() + wait > mix.safety_s:
                break
            await asyncio.sleep(wait)
            _DEEDS[chance.pick(mix.families)](self)
        await asyncio.sleep(max(0.0, mix.safety_s - self._loop.time()))
        self.heal()

    def heal(self) -> None:
        self.healed = True
        for number in sorted(self._mend):
            self._mend[number]()
        self._mend.clear()
        self._weather.rate = self._weather.slow = self._blobs.rate = self._files.rate = 0.0
        self._network.breaking = self._network.slow = self._network.doubled = 0.0
        self._store.faults.lease_stretch = 1.0
        self._recorder.add(Healed(t=self._recorder.now()))

    def _until_mended(self, seconds: float, mend: Callable[[], None]) -> None:
        self._number += 1
        number = self._number
        self._mend[number] = mend

        def due() -> None:
            if self._mend.pop(number, None) is not None:
                mend()

        self._loop.call_later(seconds, due)

    def _note(self, kind: str, who: str, what: str, *, over: bool = False) -> None:
        self._recorder.add(Fault(t=self._recorder.now(), kind=kind, who=who, what=what, over=over))

    # ---- nodes

    def _agent_crash(self) -> None:
        node = self._a_node()
        if node is not None:
            node.crash()
            self._until_mended(self._chance.pick((0.2, 2.0, 8.0, 12.0)), node.start)

    def _node_power(self) -> None:
        node = self._a_node()
        if node is not None:
            node.lose_power()
            self._until_mended(self._chance.pick((1.0, 8.0, 14.0)), node.start)

    def _agent_freeze(self) -> None:
        self._freeze(whole=False)

    def _node_freeze(self) -> None:
        self._freeze(whole=True)

    def _freeze(self, *, whole: bool) -> None:
        node = self._a_node()
        if node is not None:
            node.freeze(whole=whole)
            self._until_mended(self._chance.pick((0.5, 4.0, 7.5, 9.5, 14.0)), node.thaw)

    def _process_freeze(self) -> None:
        node = self._a_node()
        if node is not None and node.machine.processes:
            pid = self._chance.pick(list(node.machine.processes))
            process = node.machine.processes[pid]
            node.freeze_process(pid)

            def mend() -> None:
                self._recorder.add(Woken(t=self._recorder.now(), who=f"job {process.job} {process.fence}"))
                self._loop.thaw(process.component)

            self._until_mended(self._chance.pick((1.0, 5.0, 10.0)), mend)

    def _slow_machine(self) -> None:
        machine = self._chance.pick(self._nodes).machine
        self._note("slow-machine", f"agent {machine.node}", "starts take up to 5 s and kills up to 0.9 s")
        machine.start_s, machine.kill_s = 5.0, 0.9

        def mend() -> None:
            machine.start_s = machine.kill_s = 0.02

        self._until_mended(self._chance.between(2.0, 15.0), mend)

    def _disk_full(self) -> None:
        machine = self._chance.pick(self._nodes).machine
        self._note("disk-full", f"agent {machine.node}", "its disk takes nothing more")
        machine.disk_full = True

        def mend() -> None:
            machine.disk_full = False

        self._until_mended(self._chance.between(1.0, 8.0), mend)

    def _a_node(self) -> SimulatedNode | None:
        """One that is up and runs."""
        fit = [node for node in self._nodes if node.up and not self._loop.halted(node.component)]
        return self._chance.pick(fit) if fit else None

    # ---- replicas

    def _replica_crash(self) -> None:
        plane = self._a_plane()
        if plane is not None:
            plane.crash()
            self._until_mended(self._chance.pick((0.3, 2.0, 6.0)), plane.start)

    def _replica_freeze(self) -> None:
        plane = self._a_plane()
        if plane is not None:
            plane.freeze()
            self._until_mended(self._chance.pick((0.5, 3.0, 5.5, 10.0)), plane.thaw)

    def _a_plane(self) -> Plane | None:
        fit = [plane for plane in self._planes if plane.up and not self._loop.halted(plane.component)]
        return self._chance.pick(fit) if fit else None

    # ---- the network

    def _ways(self) -> list[tuple[str, str]]:
        """Every direction between a node or user and a replica."""
        others = [*(f"node {node.name}" for node in self._nodes), *self._people]
        pairs = [(other, plane.name) for other in others for plane in self._planes]
        return [way for near, far in pairs for way in ((near, far), (far, near))]

    def _cut(self) -> None:
        """One direction, or both."""
        near, far = self._chance.pick(self._ways())
        ways = [(near, far)] if self._chance(0.5) else [(near, far), (far, near)]
        self._cut_ways(ways, self._chance.pick((0.5, 3.0, 8.0, 13.0)))

    def _isolate(self) -> None:
        """One node from every replica: it cannot renew."""
        node = self._chance.pick(self._nodes)
        name = f"node {node.name}"
        ways = [way for plane in self._planes for way in ((name, plane.name), (plane.name, name))]
        seconds = self._chance.pick((3.0, 8.0, 10.5, 15.0))
        node.reachable(False)
        self._cut_ways(ways, seconds, then=lambda: node.reachable(node.up and not self._loop.halted(node.component)))

    def _swizzle(self) -> None:
        """Some ways are cut one by one, and healed in another order."""
        ways = self._chance.some(self._ways(), 1 + int(self._chance.random() * 6))
        for number, way in enumerate(ways):
            self._loop.call_later(0.4 * number, self._cut_ways, [way], self._chance.between(1.0, 12.0))

    def _cut_ways(self, ways: list[tuple[str, str]], seconds: float, then: Callable[[], None] | None = None) -> None:
        for near, far in ways:
            self._note("cut", near, f"nothing gets from {near} to {far}")
            self._network.set_cut(near, far, True)

        def mend() -> None:
            for near, far in ways:
                self._network.set_cut(near, far, False)
                self._note("cut-healed", near, f"{near} reaches {far} again")
            if then is not None:
                then()

        self._until_mended(seconds, mend)

    # ---- the store

    def _store_cut(self) -> None:
        wire = (plane := self._chance.pick(self._planes)).wire
        self._note("store-cut", plane.who, "it is cut off from the store")
        wire.set_cut(True)

        def mend() -> None:
            self._note("store-cut", plane.who, "it reaches the store again", over=True)
            plane.wire.set_cut(False)

        self._until_mended(self._chance.pick((1.0, 4.0, 9.0, 14.0)), mend)

    def _store_away(self) -> None:
        self._note("store-away", "store", "the store has no leader")
        self._weather.away = True

        def mend() -> None:
            self._weather.away = False
            self._note("store-away", "store", "the store has a leader again", over=True)

        self._until_mended(self._chance.pick((0.3, 2.0, 6.0)), mend)

    def _watch(self) -> None:
        plane = self._chance.pick(self._planes)
        kind = self._chance.pick(("hold", "break", "compact"))
        self._note(f"watch-{kind}", plane.who, f"its watch: {kind}", over=kind != "hold")
        if kind == "hold":
            plane.wire.hold_watch()

            def mend() -> None:
                self._note("watch-hold", plane.who, "its watch goes on", over=True)
                plane.release_watch()

            self._until_mended(self._chance.pick((0.5, 3.0, 6.0)), mend)
            return
        if kind == "compact":
            self._store.compact()
        plane.wire.break_watch()

    def _restore(self) -> None:
        """The store is lost and comes back from its last backup; every replica is started anew."""
        if self._backup is None:
            self._backup = self._store.backup()
            self._note("backup", "store", f"a backup is made at revision {self._backup.revision}")
            return
        backup, self._backup = self._backup, None
        self._note("restore", "store", f"the store is restored from the backup of revision {backup.revision}")
        for plane in self._planes:
            if plane.up:
                plane.crash()
                self._until_mended(self._chance.between(0.5, 3.0), plane.start)
        self._store.restore(backup)

    # ---- time

    def _wall_clock(self) -> None:
        machine = self._chance.pick([*self._planes, *self._nodes])
        seconds = self._chance.pick((-300.0, -2.0, 2.0, 300.0))
        self._note("wall-clock", machine.who, f"its wall clock jumps by {seconds:g} s", over=True)
        machine.clock.jump_wall(seconds)


_DEEDS: dict[str, Callable[[SwarmNemesis], None]] = {
    family: getattr(SwarmNemesis, f"_{family.replace('-', '_')}") for family in FAMILIES
}
