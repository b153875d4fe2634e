"""Failures of nodes: when, which, for how long. Given, or drawn from a seed."""

import random
from collections.abc import Sequence

from ares.model.base import Record


class NodeFailure(Record, frozen=True):
    """From `at` on the node is gone for `lasts_s`; what ran there is lost."""

    at: float
    node: str
    lasts_s: float


def drawn(
    nodes: Sequence[str], begin: float, until: float, *, mtbf_s: float, mttr_s: float, seed: int
) -> tuple[NodeFailure, ...]:
    """Every node fails by itself: exponential times between failures and to repair, of these means."""
    if mtbf_s <= 0 or mttr_s <= 0:
        raise ValueError(f"mean times between failures and to repair must be above 0, not {mtbf_s:g} and {mttr_s:g}")
    found: list[NodeFailure] = []
    for name in nodes:
        # One source per node: another node in the list changes nothing for this one.
        chance = random.Random(f"{seed} {name}")
        at = begin + chance.expovariate(1 / mtbf_s)
        while at < until:
            lasts_s = chance.expovariate(1 / mttr_s)
            found.append(NodeFailure(at=at, node=name, lasts_s=lasts_s))
            at += lasts_s + chance.expovariate(1 / mtbf_s)
    return tuple(sorted(found, key=lambda failure: (failure.at, failure.node)))
