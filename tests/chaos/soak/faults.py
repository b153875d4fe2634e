"""What befalls a platform in a soak: each fault strikes one part, lasts a while, and is taken back."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ares.sim.chaos.proxy import Proxy, ProxyWay
from tests.chaos.clocks.wall import Wall
from tests.platform import Platform, Process
from tests.servers import EtcdCluster, EtcdServer

# Longer than a lease in one of three.
LASTS_S = (0.5, 13.0)
SLOW = ProxyWay(delay_s=0.3, jitter_s=0.2, rate=20_000)
LOSSY = ProxyWay(delay_s=0.05, jitter_s=0.05, loss=0.2)
WALL_S = 300.0


@dataclass(frozen=True)
class Fault:
    """`part` is struck by one fault at a time."""

    kind: str
    part: str
    heal: Callable[[], object]
    seconds: float


class Faults:
    """All that can happen. Some parts are never killed, so that what they hold can be watched to the end."""

    def __init__(
        self,
        platform: Platform,
        cluster: EtcdCluster,
        links: dict[str, list[Proxy]],
        walls: dict[int, Wall],
        rng: random.Random,
        spared: frozenset[str],
        small_disk: Path | None,
    ) -> None:
        self._platform, self._cluster, self._links, self._walls = platform, cluster, links, walls
        self._rng, self._spared, self._small_disk = rng, spared, small_disk
        self._strikes = {
            "kill": self._kill, "freeze": self._freeze, "cut": self._cut, "slow": self._slow, "wall": self._wall,
            "store-kill": self._store_kill, "store-freeze": self._store_freeze,
        }  # fmt: skip
        if small_disk is not None:
            self._strikes["disk-full"] = self._disk_full

    @property
    def kinds(self) -> list[str]:
        return sorted(self._strikes)

    def strike(self, under: frozenset[str]) -> Fault | None:
        """Something, somewhere; None when what was drawn is struck already."""
        return self._strikes[self._rng.choice(self.kinds)](under)

    def _lasts(self) -> float:
        return self._rng.uniform(*LASTS_S)

    def _processes(self, under: frozenset[str]) -> list[Process]:
        everybody = (*self._platform.servers.values(), *self._platform.agents.values())
        return [one for one in everybody if one.name not in under and one.alive]

    def _kill(self, under: frozenset[str]) -> Fault | None:
        found = [one for one in self._processes(under) if one.name not in self._spared]
        if not found:
            return None
        victim = self._rng.choice(found)
        victim.kill()
        return Fault("kill", victim.name, victim.start, self._rng.uniform(0.0, 3.0))

    def _freeze(self, under: frozenset[str]) -> Fault | None:
        found = self._processes(under)
        if not found:
            return None
        victim = self._rng.choice(found)
        victim.pause()
        return Fault("freeze", victim.name, victim.resume, self._lasts())

    def _link(self, under: frozenset[str]) -> tuple[str, list[Proxy]] | None:
        """An agent's connections to every replica, or to one of them."""
        free = sorted(name for name in self._links if f"link of {name}" not in under)
        if not free:
            return None
        name = self._rng.choice(free)
        proxies = self._links[name]
        return f"link of {name}", proxies if self._rng.random() < 0.5 else [self._rng.choice(proxies)]

    def _cut(self, under: frozenset[str]) -> Fault | None:
        if (found := self._link(under)) is None:
            return None
        part, proxies = found
        directions = self._rng.choice([("tx",), ("rx",), ("tx", "rx")])
        for proxy in proxies:
            proxy.hold(*directions)
        return Fault(f"cut {'+'.join(directions)}", part, lambda: [proxy.heal() for proxy in proxies], self._lasts())

    def _slow(self, under: frozenset[str]) -> Fault | None:
        if (found := self._link(under)) is None:
            return None
        part, proxies = found
        way = self._rng.choice([SLOW, LOSSY])
        for proxy in proxies:
            proxy.carry(tx=way, rx=way)
        return Fault("slow", part, lambda: [proxy.heal() for proxy in proxies], self._lasts())

    def _members(self, under: frozenset[str]) -> list[EtcdServer]:
        return [member for member in self._cluster.members if member.name not in under]

    def _store_kill(self, under: frozenset[str]) -> Fault | None:
        if not (found := self._members(under)):
            return None
        victim = self._rng.choice(found)
        victim.kill()
        return Fault("store-kill", victim.name, lambda: victim.start(wait=False), self._rng.uniform(0.0, 5.0))

    def _store_freeze(self, under: frozenset[str]) -> Fault | None:
        if not (found := self._members(under)):
            return None
        victim = self._rng.choice(found)
        victim.pause()
        return Fault("store-freeze", victim.name, victim.resume, self._lasts())

    def _wall(self, under: frozenset[str]) -> Fault | None:
        free = [number for number in self._walls if f"wall of replica-{number}" not in under]
        if not free:
            return None
        wall = self._walls[number := self._rng.choice(free)]
        wall.set(self._rng.uniform(-WALL_S, WALL_S))
        return Fault("wall", f"wall of replica-{number}", lambda: wall.set(0.0), self._lasts())

    def _disk_full(self, under: frozenset[str]) -> Fault | None:
        assert self._small_disk is not None
        if "disk" in under:
            return None
        filler = self._small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(64 * 1024))
            except OSError:
                pass
        return Fault("disk-full", "disk", filler.unlink, self._lasts())
