"""How often a healthy node is taken for a lost one: worlds without faults, whose network and store are slow.

Nothing is broken in them, so every lease that is lost is lost by mistake.
"""

import msgspec

from ares.check.invariants.history import Commit
from ares.sim.world.swarm import Mix
from ares.sim.world.world import play

NODES = 20
_PIECE_S = 600.0
# With no event among so many, the rate is below three in so many, at 95 % confidence.
_RULE_OF_THREE = 3.0


class Observed(msgspec.Struct, frozen=True):
    """Of one stretch of time. `suspected` counts attempts that were taken away."""

    agent_hours: float
    suspected: int
    renewals: int

    def __add__(self, other: "Observed") -> "Observed":
        hours, suspected = self.agent_hours + other.agent_hours, self.suspected + other.suspected
        return Observed(hours, suspected, self.renewals + other.renewals)

    @property
    def per_thousand_hours(self) -> float:
        return 1000.0 * self.suspected / self.agent_hours

    @property
    def below(self) -> float:
        """What the rate per 1,000 agent-hours is surely below, when nothing was seen."""
        return 1000.0 * max(_RULE_OF_THREE, self.suspected + 2 * self.suspected**0.5) / self.agent_hours


NOTHING = Observed(0.0, 0, 0)


def figures(found: Observed) -> dict[str, float]:
    """For programs."""
    return {
        "agentHours": round(found.agent_hours, 3),
        "renewals": found.renewals,
        "suspected": found.suspected,
        "perThousandAgentHours": round(found.per_thousand_hours, 3),
        "below": round(found.below, 3),
    }


class Load(msgspec.Struct, frozen=True):
    """Shares of what is late, and by how much at most: frames between agents and replicas, requests to the store."""

    frames: float
    frames_s: float
    requests: float


LOADS = {
    "busy": Load(frames=0.02, frames_s=1.5, requests=0.02),
    "very bad": Load(frames=0.05, frames_s=4.0, requests=0.05),
}


def under(load: Load, seconds: float) -> Mix:
    return Mix(
        replicas=2, nodes=NODES, people=2, deeds=30, steers=0, safety_s=seconds, families=(), every_s=60.0,
        store_rate=0.0, store_slow=load.requests, breaking=0.0, slow=load.frames, slow_s=load.frames_s,
        doubled=0.0, blob_rate=0.0, runs_s=(seconds / 4, seconds / 2), lease_stretch=1.0, drift=0.01,
    )  # fmt: skip


def observe(load: Load, seed: int) -> Observed:
    """One world, about ten minutes long."""
    played = play(seed, under(load, _PIECE_S))
    writes = [write for event in played.events if isinstance(event, Commit) for write in event.writes]
    lost = sum('"lease-lost"' in (write.value or "") for write in writes if write.key.startswith("/events/"))
    renewals = sum(write.key.startswith("/leases/") for write in writes)
    return Observed(NODES * played.events[-1].t / 3600.0, lost, renewals)
