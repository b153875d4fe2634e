"""What is to come of one resource: what is free, and what those who hold some give back when."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class HeldSupply(NamedTuple):
    """So much is held for so many seconds more; for ever when nobody can say."""

    amount: float
    left_s: float


class Supply:
    """The resource as one heap: which node a part of it is on does not count. Built in one pass, asked in log time."""

    __slots__ = ("_area", "_free", "_times")

    def __init__(self, free: float, held: Sequence[HeldSupply]) -> None:
        amounts = np.array([one.amount for one in held], np.float64)
        left = np.maximum(np.array([one.left_s for one in held], np.float64), 0.0)
        order = np.argsort(left, kind="stable")
        order = order[: int(np.isfinite(left).sum())]
        # From each of these times on so much is free, and by then so much (amount times seconds) was.
        self._times: Floats = np.concatenate(([0.0], left[order]))
        self._free: Floats = max(0.0, free) + np.concatenate(([0.0], np.cumsum(amounts[order])))
        self._area: Floats = np.concatenate(([0.0], np.cumsum(self._free[:-1] * np.diff(self._times))))

    def opens_s(self, amount: float) -> float:
        """When so much is free at once, should nobody take it; for ever when that much never is."""
        at = int(np.searchsorted(self._free, amount))
        return float(self._times[at]) if at < len(self._times) else float("inf")

    def drained_s(self, work: float) -> float:
        """When work (amount times seconds) of this size can have been done on what gets free."""
        if work <= 0.0:
            return 0.0
        at = int(np.searchsorted(self._area, work, side="right")) - 1
        free = float(self._free[at])
        if free <= 0.0:
            return float("inf")
        return float(self._times[at]) + (work - float(self._area[at])) / free
