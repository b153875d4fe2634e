"""Dominant shares: of what an account holds, the largest part of any one resource, divided by the weight.

One number stands for the three levels of an account, like a number of three digits: the tenant's share in steps of
2**-20 (about a millionth of the cluster), below it the team's in 2**16 steps, below that the user's in 2**16 steps.
Comparing two such numbers compares tenants first, teams only where tenants are in the same step, and users only where
teams are too. It takes 52 binary digits, which is what a float has, so adding the levels loses nothing.
"""

from math import ceil, inf
from typing import NamedTuple

from ares.model.profile import Share, ShareResource


class Amounts(NamedTuple):
    """Amounts of the resources that are shared out."""

    cpu_milli: int
    memory_mib: int
    gpu_milli: int


# In the order of `Amounts`.
RESOURCES: tuple[ShareResource, ...] = ("cpu", "memory", "gpu")


class DrfDigit(NamedTuple):
    """One digit of the number: `step` of a cluster counts as `unit`."""

    step: float
    unit: float
    # A larger digit would spill into the level above.
    most: float


LEVELS: tuple[DrfDigit, ...] = (
    DrfDigit(2.0**-20, 2.0**-20, inf),
    DrfDigit(2.0**-16, 2.0**-36, 2.0**16 - 1),
    DrfDigit(2.0**-16, 2.0**-52, 2.0**16 - 1),
)


def sizes_of(capacity: Amounts) -> tuple[float, float, float]:
    """What to divide by. A resource that the cluster does not have counts nothing."""
    cpu, memory, gpu = capacity
    return cpu or inf, memory or inf, gpu or inf


class AccountHolding:
    """What one tenant, team or user holds, and how much that counts in its dominant share."""

    __slots__ = ("_most", "_step", "_steps", "_unit", "counts", "part", "path", "share", "used", "weight")

    def __init__(
        self, path: str, level: DrfDigit, share: Share, weight: float, sizes: tuple[float, float, float]
    ) -> None:
        self.path = path
        self.share = share
        self.used: tuple[int, int, int] = (0, 0, 0)
        self.counts = 0.0
        # The largest part of any one resource of the cluster, whatever the weight.
        self.part = 0.0
        self.weight = weight
        self._step = level.step
        # How much of each resource makes one step.
        cpu, memory, gpu = sizes
        self._steps = (cpu * weight * level.step, memory * weight * level.step, gpu * weight * level.step)
        self._unit = level.unit
        self._most = level.most

    def take(self, held: Amounts) -> None:
        """Adds to what is held."""
        had_cpu, had_memory, had_gpu = self.used
        cpu = had_cpu + held.cpu_milli
        memory = had_memory + held.memory_mib
        gpu = had_gpu + held.gpu_milli
        self.used = (cpu, memory, gpu)
        cpu_step, memory_step, gpu_step = self._steps
        # Rounded up: an account that holds anything counts for something.
        steps = ceil(max(cpu / cpu_step, memory / memory_step, gpu / gpu_step))
        self.part = steps * self._step * self.weight
        self.counts = (steps if steps <= self._most else self._most) * self._unit
