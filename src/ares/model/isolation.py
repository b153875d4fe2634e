"""How well a job is kept apart from everything else on its node."""

from typing import Final, Literal

# Each gives all that the one before it gives.
Isolation = Literal["any", "process", "sandbox"]
LEVELS: Final[tuple[Isolation, ...]] = ("any", "process", "sandbox")
# What of the network a job sees: the node's, or a loopback of its own and nothing else.
Network = Literal["host", "none"]


def stronger(one: Isolation, other: Isolation) -> Isolation:
    return one if LEVELS.index(one) >= LEVELS.index(other) else other
