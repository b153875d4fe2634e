"""What a filter is: which nodes pass, and what to say when none does."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Bools, Column, Ints, Nodes
from ares.core.schedule.reasons import Reason
from ares.core.schedule.snapshot import Identity


class Miss(NamedTuple):
    """A filter left no node: what it saw, and which nodes had passed all filters before it.

    `ever` is False when the nodes are as they are now, True when even empty and ready they do not pass.
    """

    nodes: Nodes
    shape: Shape
    alive: Bools
    names: tuple[Identity, ...]
    ever: bool

    def considered(self) -> int:
        return int(np.count_nonzero(self.alive))

    def nearest(self, column: Ints) -> int:
        """The slot with the most of `column` among the nodes that came this far."""
        # What is free is below 0 on a node that is over-committed.
        return int(np.where(self.alive, column, np.iinfo(np.int64).min).argmax())


class Filter(NamedTuple):
    """`passes` works on whole columns and on one node's plain numbers alike."""

    passes: Callable[[Nodes, Shape], Column]
    explain: Callable[[Miss], Reason]
