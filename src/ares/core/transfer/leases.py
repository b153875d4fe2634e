"""A tenant's rate, dealt out to the nodes that move its bytes: most of it by what waits there, a little to every node,
so that one that begins does not wait for its first lease."""

from collections.abc import Mapping
from typing import Final

LEASE_EVERY_S: Final = 1.0
LEASE_S: Final = 3.0
BY_DEMAND: Final = 0.95


def floor(rate: float, nodes: int) -> float:
    """What a node may use of a tenant's rate without a lease."""
    return (1.0 - BY_DEMAND) * rate / max(1, nodes)


def leased(rate: float, demands: Mapping[str, float], elsewhere: float, nodes: int) -> dict[str, float]:
    """The part of a tenant's rate for each node of `demands`, beside what is wanted `elsewhere`. `nodes`: all
    that there are."""
    total = sum(demands.values()) + elsewhere
    if total <= 0:
        return {}
    return {node: BY_DEMAND * rate * wanted / total + floor(rate, nodes) for node, wanted in demands.items()}
