"""Decisions of the scheduler, kept so that each can be explained and replayed."""

from collections import OrderedDict
from functools import partial

import msgspec

from ares.control.state.ids import base32
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.considered import Considered
from ares.core.schedule.plan import Plan
from ares.model.base import Record
from ares.model.profile import Profile
from ares.ports.clock import Clock, Rng
from ares.ports.planning import DecisionLog

_KEPT_MAX = 10_000


class Decision(Record, frozen=True):
    """One job placed by one cycle."""

    id: str
    job: str
    at: float
    profile_version: int
    profile: Profile
    considered: Considered
    chosen: tuple[str, ...]


class Decisions:
    """The newest in memory; with a log also earlier ones, and those from before a restart."""

    def __init__(self, clock: Clock, rng: Rng, kept: DecisionLog | None = None) -> None:
        self._clock = clock
        self._rng = rng
        self._log = kept
        self._kept: OrderedDict[str, Decision] = OrderedDict()

    def note(self, cluster: Cluster, plan: Plan, profile_version: int) -> str:
        """Keeps what a plan decided; the name it can be found by, with the job's."""
        name = f"d{base32(self._rng, 11)}"
        chosen = {placed.job: tuple(place.node for place in placed.placements) for placed in plan.placed}
        for job, considered in plan.considered.items():
            # An action may have removed the placement of an earlier one.
            if job not in chosen:
                continue
            decision = Decision(
                id=name,
                job=job,
                at=plan.at,
                profile_version=profile_version,
                profile=cluster.profile,
                considered=considered,
                chosen=chosen[job],
            )
            self._kept[job] = decision
            self._kept.move_to_end(job)
            if self._log is not None:
                self._log.append(name, job, partial(msgspec.json.encode, decision))
        while len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        return name

    async def find(self, name: str) -> Decision | None:
        """By the name of the decision or of the job: the newest."""
        found = self._kept.get(name) or next(
            (decision for decision in self._kept.values() if decision.id == name), None
        )
        if found is not None or self._log is None:
            return found
        raw = await self._log.find(name)
        return None if raw is None else msgspec.json.decode(raw, type=Decision)
