"""What a run of `ares chaos` will do, all of it from the seed: which fault, on which of its own machines, how long."""

import random
from typing import NamedTuple

import msgspec

# Seconds between the starts of two faults.
_PAUSE_S = (0.3, 2.5)
NETWORK = (
    "delay", "loss", "slow", "reset", "half-open", "silence", "refuse", "blackhole-tx", "blackhole-rx",
)  # fmt: skip


class ChaosOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. `url` empty: the server that the client finds by itself."""

    url: str = ""
    duration_s: float = 600.0
    seed: int = 0
    agents: int = 3
    # Where the server listens for agents, "host:port"; empty: the host of the URL, port 8643.
    agents_at: str = ""
    tls_ca: str = ""
    # How long the server waits for a silent machine, and by when the loss must be decided.
    lease_s: float = 9.0
    bound_s: float = 10.0
    # From the end of all faults to the end of every job.
    liveness_s: float = 120.0
    jobs_per_s: float = 2.0
    people: int = 4


class FaultKind(NamedTuple):
    """A fault: how likely, for how long (in leases), what it is in words, and whether it breaks a machine."""

    weight: int
    shortest: float
    longest: float
    words: str
    breaks: bool = True


FAULTS: dict[str, FaultKind] = {
    "kill": FaultKind(4, 0.0, 1.3, "kill -9 of its own agents, started again later"),
    "freeze": FaultKind(4, 0.1, 1.6, "SIGSTOP of its own agents, woken later"),
    "cut": FaultKind(4, 0.1, 1.6, "its own agents cut off: nothing passes, nothing is closed"),
    "network": FaultKind(4, 0.2, 1.0, f"a bad network between its own agents and the server: {', '.join(NETWORK)}"),
    "kill-job": FaultKind(3, 0.0, 0.0, "kill -9 of a process of its own jobs", breaks=False),
    "freeze-job": FaultKind(2, 0.1, 0.5, "SIGSTOP of the processes of its own jobs", breaks=False),
    "drop": FaultKind(3, 0.0, 0.1, "connections of its own clients reset in the middle of requests", breaks=False),
}


class ChaosStep(msgspec.Struct, frozen=True):
    """A fault that begins `at_s` after the start. `how`: which kind of bad network; `draw`: chance for the rest."""

    at_s: float
    kind: str
    agent: int
    length_s: float
    how: str = ""
    draw: int = 0

    @property
    def until_s(self) -> float:
        return self.at_s + self.length_s


def schedule(options: ChaosOptions) -> tuple[ChaosStep, ...]:
    """The same options give the same faults."""
    chance = random.Random(options.seed)
    steps: list[ChaosStep] = []
    at_s = 1.0
    while at_s < options.duration_s:
        step = _draw(chance, at_s, options)
        if _may(step, steps, options.agents):
            steps.append(step)
        at_s += chance.uniform(*_PAUSE_S)
    return tuple(steps)


def _draw(chance: random.Random, at_s: float, options: ChaosOptions) -> ChaosStep:
    (name,) = chance.choices(list(FAULTS), [kind.weight for kind in FAULTS.values()])
    kind = FAULTS[name]
    length_s = min(chance.uniform(kind.shortest, kind.longest) * options.lease_s, options.duration_s - at_s)
    how = chance.choice(NETWORK) if name == "network" else ""
    return ChaosStep(
        round(at_s, 3), name, chance.randrange(options.agents), round(length_s, 3), how, chance.randrange(2**31)
    )


def _may(step: ChaosStep, steps: list[ChaosStep], agents: int) -> bool:
    if not FAULTS[step.kind].breaks:
        return True
    broken = {planned.agent for planned in steps if FAULTS[planned.kind].breaks and planned.until_s + 1.0 > step.at_s}
    return step.agent not in broken and len(broken) < max(1, agents - 1)
