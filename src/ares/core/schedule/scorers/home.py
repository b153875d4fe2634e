"""Home first: of several planners each fills its own nodes before those of others, so that their plans seldom collide.

In no profile: it belongs to the planner, and comes before everything that profiles weigh.
"""

import numpy as np

from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Floats

NAME = "home"
# More than all weights of a profile together can be.
WEIGHT = 1e8


class HomeFirst:
    """A scorer that has been told of each row how close it is."""

    def __init__(self) -> None:
        self._close: Floats = np.zeros(0)

    def put(self, row: int, close: float) -> None:
        if row >= len(self._close):
            self._close = np.concatenate([self._close, np.zeros(row + 1)])
        self._close[row] = close

    def __call__(self, rows: NodeSlice) -> Floats:
        if len(self._close) < rows.table.rows:
            self._close = np.concatenate([self._close, np.zeros(rows.table.rows - len(self._close))])
        return self._close[: rows.table.rows][rows.at]
