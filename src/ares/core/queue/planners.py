"""Several planners: which of them a job waits with, and which nodes each of them tries first.

Pools are dealt out to planners, the nodes of a pool to its planners by their names, and jobs by their tenants. That
decides how often plans collide, and nothing else: every plan is verified.
"""

from collections.abc import Mapping, Sequence
from zlib import crc32

_SPREAD = 1 << 32


def deal(pools: Mapping[str, int], planners: int) -> dict[str, tuple[int, ...]]:
    """The planners of each pool, by how many nodes the pools have.

    Where there are more pools than planners, a planner has several; where there are fewer, a pool has several planners,
    none of them shared."""
    by_size = sorted(pools, key=lambda pool: (-pools[pool], pool))
    dealt: dict[str, list[int]] = {pool: [] for pool in by_size}
    if len(by_size) >= planners:
        load = [0] * planners
        for pool in by_size:
            least = min(range(planners), key=lambda planner: (load[planner], planner))
            load[least] += pools[pool]
            dealt[pool].append(least)
    else:
        for planner in range(planners if by_size else 0):
            # Each pool has one before any has two.
            most = max(by_size, key=lambda pool: pools[pool] / len(dealt[pool]) if dealt[pool] else float("inf"))
            dealt[most].append(planner)
    return {pool: tuple(of) for pool, of in dealt.items()}


def chosen(among: Sequence[int], name: str) -> int:
    """The same in every process, and evenly spread over many names."""
    return among[crc32(name.encode()) % len(among)]


def closeness(node: str, home: int, planner: int, planners: int) -> float:
    """How soon the planner tries the node, in 0..1. Its own come first; then those of one other planner after the
    other, beginning with another one for each, in an order that differs too: two that spill seldom want the same."""
    if home == planner:
        return 1.0
    away = (home - planner) % planners
    return 1.0 - (away + crc32(f"{planner}/{node}".encode()) / _SPREAD) / planners
