"""Soft limits, beyond which an account borrows from others, and hard ones, beyond which it cannot go."""

from collections.abc import Iterable
from typing import NamedTuple

from ares.core.queue.drf import RESOURCES, Held, Holding
from ares.core.queue.tree import Tree
from ares.model.profile import ShareResource

# Entitlements by weight are quotients; a rounding error is not borrowing.
_ROUNDING = 1e-6


class Limit(NamedTuple):
    """A hard limit that would be broken, and by how much. Units: thousandths of CPUs and GPUs, MiB of memory."""

    path: str
    resource: ShareResource
    asked: int
    used: int
    limit: int
    free: int


class Family:
    """The children of one parent that hold or wait: what is divided among them by weight, and by how many."""

    __slots__ = ("reserved", "weights")

    def __init__(self, parent: str, tree: Tree, holdings: Iterable[Holding]) -> None:
        # An entitlement that is declared is set aside even while nobody uses it: others use it on loan.
        declared = [tree.share(path).soft for path in tree.children(parent)]
        active = [one.share for one in holdings if one.active]
        self.reserved = [sum(soft.get(resource, 0) for soft in declared) for resource in RESOURCES]
        self.weights = [sum(one.weight for one in active if resource not in one.soft) for resource in RESOURCES]

    def part(self, index: int, whole: float, one: Holding) -> float:
        """What `one` is entitled to of a resource of which its parent is entitled to `whole`."""
        declared = one.share.soft.get(RESOURCES[index])
        if declared is not None:
            return declared
        weights = self.weights[index] + (0.0 if one.active else one.share.weight)
        return max(0.0, whole - self.reserved[index]) * one.share.weight / weights


def hard(one: Holding, asked: Held) -> Limit | None:
    """The first resource of which `one` would hold more than it may ever."""
    if not one.share.hard:
        return None
    for index, resource in enumerate(RESOURCES):
        limit = one.share.hard.get(resource)
        used, more = one.used[index], asked[index]
        if limit is not None and more > 0 and used + more > limit:
            return Limit(one.path, resource, more, used, limit, max(0, limit - used))
    return None


def within(entitled: float, used: int) -> bool:
    return used <= entitled + _ROUNDING
