"""One seed's federation from its first moment to its last: people, a global plane, three clusters, and what breaks."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from ares.check.federation.history import (
    AllMended,
    FederationFault,
    FederationSettings,
    Happening,
    StoreRestored,
    WorldOver,
)
from ares.sim.federation.cluster import SimulatedCluster
from ares.sim.federation.letters import ClusterStore, PlaneStore, SimulatedJob
from ares.sim.federation.network import Envelope, FederationClock, FederationLink, FederationRecorder
from ares.sim.federation.plane import SimulatedPlane

QUOTA = {"alpha": 12, "beta": 9}
REGIONS = ("eu", "us", "eu")
CHAOS_S = 180.0
CALM_S = 240.0
_BACKUP_S = 12.0


@dataclass(frozen=True, slots=True)
class PlayedFederation:
    seed: int
    events: list[Happening]


class FederationWorld:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = FederationClock()
        self.recorder = FederationRecorder(self.clock)
        self.recorder.add(FederationSettings, seed=seed, quota=QUOTA, offer_s=CALM_S - 5, import_s=CALM_S - 5)
        self._chance = random.Random(f"{seed} world")
        self.links: dict[str, FederationLink] = {}
        self.clusters: dict[str, SimulatedCluster] = {}
        self.plane = SimulatedPlane(self.clock, self.recorder, random.Random(f"{seed} plane"), QUOTA, self._downward)
        self._jobs = 0
        self._backup: PlaneStore = self.plane.store.backup()
        self._cluster_backups: dict[str, ClusterStore] = {}
        for region in REGIONS:
            self._join(region)
        self._weights = {name: self._chance.choice((0.0, 1.0, 2.0)) for name in _FAULTS}

    # ---- the network

    def _downward(self, envelope: Envelope) -> None:
        cluster = self.clusters.get(envelope.cluster)
        if cluster is not None:
            cluster.link.carry(False, envelope, cluster.hear)

    def _upward(self, envelope: Envelope) -> None:
        self.plane.hear(envelope)

    def _join(self, region: str) -> None:
        name = f"c{len(self.clusters) + 1}"
        link = FederationLink(self.clock, random.Random(f"{self.seed} link {name}"))
        code = self.plane.join(name, region)
        chance = random.Random(f"{self.seed} {name}")
        self.plane.heard_at[name] = self.clock.now
        self.clusters[name] = SimulatedCluster(
            name, code, region, self.clock, self.recorder, link, chance, self._upward
        )
        # A backup without a cluster would not wait for it when it is restored.
        self._backup = self.plane.store.backup()

    # ---- people

    def _people(self) -> None:
        chance = self._chance
        if self.clock.now < CHAOS_S:
            self._submit()
            if chance.random() < 0.15 and self._jobs:
                self.plane.cancel(f"g{chance.randrange(self._jobs):04d}")
            self.clock.at(chance.uniform(0.5, 4.0), self._people)

    def _submit(self) -> None:
        chance = self._chance
        tenant = chance.choice(list(QUOTA))
        number, self._jobs = self._jobs, self._jobs + 1
        run_s = chance.uniform(2.0, 25.0)
        request = f"r{number // 2}" if chance.random() < 0.2 else ""
        if chance.random() < 0.35:
            alive = [cluster for cluster in self.clusters.values() if not cluster.over]
            if alive:
                chance.choice(alive).submit(tenant, number, request, run_s)
            return
        residency = chance.choice(((), (), ("eu",), ("us",)))
        self.plane.submit(
            SimulatedJob(f"g{number:04d}", tenant, run_s, residency, may_move=chance.random() < 0.3, request=request)
        )

    # ---- what breaks

    def _backups(self) -> None:
        self._backup = self.plane.store.backup()
        self._cluster_backups = {name: cluster.store.backup() for name, cluster in self.clusters.items()}
        if self.clock.now < CHAOS_S:
            self.clock.at(_BACKUP_S, self._backups)

    def _nemesis(self) -> None:
        chance = self._chance
        if self.clock.now >= CHAOS_S:
            self._mend()
            return
        names = list(_FAULTS)
        weights = [self._weights[name] * _FAULTS[name] for name in names]
        alive = [name for name, cluster in self.clusters.items() if not cluster.over]
        if sum(weights) and alive:
            self._break(chance.choices(names, weights)[0], chance.choice(alive))
        self.clock.at(chance.uniform(3.0, 15.0), self._nemesis)

    def _break(self, fault: str, name: str) -> None:
        chance, cluster = self._chance, self.clusters[name]
        of_plane = fault in ("plane restarts", "plane restored")
        self.recorder.add(FederationFault, what=fault, cluster="" if of_plane else name)
        if fault == "cut":
            way = chance.choice(("both", "both", "up", "down"))
            cluster.link.up, cluster.link.down = way == "down", way == "up"
            self.clock.at(chance.choice((3.0, 12.0, 18.0, 40.0, 70.0)), lambda: self._reconnect(name))
        elif fault == "plane restarts":
            self.plane.begin()
        elif fault == "cluster restarts":
            cluster.restart()
        elif fault == "plane restored":
            self.recorder.add(StoreRestored, revision=self._backup.revision)
            self.plane.restore(self._backup)
        elif fault == "cluster restored" and name in self._cluster_backups:
            self.recorder.add(StoreRestored, cluster=name)
            cluster.restore(self._cluster_backups[name])
        elif fault == "drain":
            self.plane.operate(name, "drain")
        elif fault == "dead":
            self._declare_dead(name)
        elif fault == "join" and len(self.clusters) < 6:
            self._join(chance.choice(("eu", "us")))

    def _declare_dead(self, name: str) -> None:
        """A person does so when a cluster is cut off."""
        active = sum(record.state == "ACTIVE" for record in self.plane.store.clusters.values())
        if not self.clusters[name].link.up and active > 1:
            self.plane.operate(name, "declare-dead")
            self._backup = self.plane.store.backup()

    def _reconnect(self, name: str) -> None:
        link = self.clusters[name].link
        link.up = link.down = True

    def _mend(self) -> None:
        for cluster in self.clusters.values():
            cluster.link.calm()
        # A global plane that was restored waits for clusters that have left since: a person tells it.
        for name, cluster in self.clusters.items():
            if cluster.over:
                self.plane.operate(name, "declare-dead")
        for region in ("eu", "us"):
            active = [r for r in self.plane.store.clusters.values() if r.state == "ACTIVE" and r.region == region]
            if not active:
                self._join(region)
        for cluster in self.clusters.values():
            cluster.link.calm()
        self.recorder.add(AllMended)

    def play(self, script: "Callable[[FederationWorld], object] | None" = None) -> PlayedFederation:
        """With a script nothing happens but what that does."""
        if script is None:
            self._people()
            self._backups()
            self.clock.at(10.0, self._nemesis)
        else:
            script(self)
        self.clock.run(CHAOS_S + CALM_S + 20.0)
        self.recorder.add(WorldOver)
        return PlayedFederation(self.seed, self.recorder.events)


# How often each happens, beside the others.
_FAULTS = {
    "cut": 6.0, "plane restarts": 1.0, "cluster restarts": 1.0, "plane restored": 0.7, "cluster restored": 0.7,
    "drain": 0.3, "dead": 1.0, "join": 0.5,
}  # fmt: skip


def play(seed: int, script: Callable[[FederationWorld], object] | None = None) -> PlayedFederation:
    return FederationWorld(seed).play(script)
