"""Scripted worlds of a federation, for what chance seldom brings about."""

from collections.abc import Callable

from ares.sim.federation.letters import SimulatedJob
from ares.sim.federation.world import FederationWorld

_LOOK_S = 0.5
_JOBS = 4


class _LateResult:
    """Jobs that may move end in a cluster that is cut off, are given to another one, and then their results come.
    A job may crash before its end: then others follow."""

    def __init__(self, world: FederationWorld) -> None:
        self._world = world
        self._submitted = 0
        for cluster in world.clusters.values():
            cluster.link.calm()
        self._begin()

    def _begin(self) -> None:
        first, self._submitted = self._submitted, self._submitted + _JOBS
        self._jobs = [f"g{number:04d}" for number in range(first, self._submitted)]
        for job in self._jobs:
            self._world.plane.submit(SimulatedJob(job, "alpha", 9.0, ("eu",), may_move=True))
        self._until_busy()

    def _until_busy(self) -> None:
        busy = [cluster for cluster in self._world.clusters.values() if cluster.running.keys() & set(self._jobs)]
        if not busy:
            self._world.clock.at(_LOOK_S, self._until_busy)
            return
        self._cut = busy[0]
        self._cut.link.up = self._cut.link.down = False
        self._until_moved()

    def _until_moved(self) -> None:
        owners = {job: self._world.plane.store.jobs[job].owner for job in self._jobs}
        if any(owner.cluster == self._cut.name for owner in owners.values()):
            self._world.clock.at(_LOOK_S, self._until_moved)
            return
        ended = [job for job in self._jobs if job in self._cut.store.jobs and self._cut.store.jobs[job].outcome]
        if ended and owners[ended[0]].stage != "CONFIRMED":
            self._world.clock.at(_LOOK_S, self._until_moved)
            return
        self._cut.link.calm()
        self._cut.reconnect()
        if not ended:
            self._begin()


FEDERATION_CASES: dict[str, Callable[[FederationWorld], object]] = {"a late result of another owner": _LateResult}
