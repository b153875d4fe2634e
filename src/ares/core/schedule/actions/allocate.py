"""Allocate: give waiting jobs free resources, one job after the other.

Filters and scores are computed once per class over all nodes; after that only nodes that a placement
touched are looked at again, in plain numbers.
"""

from collections.abc import Sequence

import numpy as np

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Bools, Column, Columns, Floats, Nodes
from ares.core.schedule.filters import FILTERS
from ares.core.schedule.filters.filter import Filter, Miss
from ares.core.schedule.profile import Profile
from ares.core.schedule.reasons import Reason
from ares.core.schedule.scorers import SCORERS, Scorer
from ares.core.schedule.snapshot import Snapshot
from ares.model.state import Placement

_NO = float("-inf")
# With more touched nodes than this, computing whole columns anew is cheaper.
_REPAIRS_MAX = 16


class Allocation:
    """A draft of the cluster that placements are taken from; the snapshot stays as it is."""

    def __init__(self, snapshot: Snapshot, profile: Profile) -> None:
        self._names = snapshot.nodes
        self._columns: Columns = snapshot.columns.draft()
        self._filters: Sequence[Filter] = [FILTERS[name] for name in profile.filters]
        self._scorers: Sequence[tuple[float, Scorer]] = [(one.weight, SCORERS[one.scorer]) for one in profile.scorers]
        # Every slot that was placed on, in order; each class remembers how far it has caught up.
        self._touched: list[int] = []
        self._scores: dict[Shape, Floats] = {}
        self._caught_up: dict[Shape, int] = {}
        self._nowhere: Floats = np.full(self._columns.capacity, _NO)

    def place(self, shape: Shape) -> Placement | None:
        """The best place for one job of this shape, taken; or None when no node can take it."""
        scores = self._current_scores(shape)
        slot = int(scores.argmax())
        if scores.item(slot) == _NO:
            # Nothing is given back within a cycle: the class is done, and so are its scores.
            del self._scores[shape]
            return None
        return self._take(shape, slot)

    def explain(self, shape: Shape) -> Reason:
        """Why no node can take a job of this shape: for good if not even empty nodes could, else for now."""
        columns = self._columns
        return self._first_miss(columns.emptied(shape), shape, ever=True) or self._must_miss(shape)

    def _current_scores(self, shape: Shape) -> Floats:
        scores = self._scores.get(shape)
        if scores is None or len(touched := set(self._touched[self._caught_up[shape] :])) > _REPAIRS_MAX:
            scores = self._scores[shape] = self._score_all(shape)
        else:
            for slot in touched:
                scores[slot] = self._score_one(shape, slot)
        self._caught_up[shape] = len(self._touched)
        return scores

    def _score_all(self, shape: Shape) -> Floats:
        nodes = self._columns.seen_by(shape)
        passing = self._columns.exists
        for one in self._filters:
            passing = passing & one.passes(nodes, shape)
        if not passing.any():
            return self._nowhere
        return np.where(passing, self._weigh(nodes, shape), _NO)

    def _score_one(self, shape: Shape, slot: int) -> float:
        node = self._columns.one(shape, slot)
        for one in self._filters:
            if not one.passes(node, shape):
                return _NO
        return self._weigh(node, shape)

    def _weigh(self, nodes: Nodes, shape: Shape) -> Column:
        total: Column = 0.0
        for weight, scorer in self._scorers:
            total = total + weight * scorer(nodes, shape)
        return total

    def _take(self, shape: Shape, slot: int) -> Placement:
        columns = self._columns
        columns.cpu_milli_free[slot] -= shape.cpu_milli
        columns.memory_mib_free[slot] -= shape.memory_mib
        gpus = self._take_gpus(shape, slot) if shape.gpus else ()
        self._touched.append(slot)
        name, incarnation = self._names[slot]
        return Placement(
            node=name, incarnation=incarnation, cpu_milli=shape.cpu_milli, memory_mib=shape.memory_mib, gpus=gpus
        )

    def _take_gpus(self, shape: Shape, slot: int) -> tuple[int, ...]:
        """The free GPUs with the lowest indexes."""
        columns = self._columns
        mask = columns.gpu_free_masks[slot]
        fitting = mask & columns.gpus[shape.gpu_model].masks[slot]
        taken: list[int] = []
        for _ in range(shape.gpus):
            lowest = fitting & -fitting
            fitting ^= lowest
            mask ^= lowest
            taken.append(lowest.bit_length() - 1)
        columns.set_gpu_free_mask(slot, mask)
        return tuple(taken)

    def _first_miss(self, nodes: Nodes, shape: Shape, *, ever: bool) -> Reason | None:
        """Goes down the filters in order; the first that leaves no node gives the reason."""
        alive = self._columns.exists
        for one in self._filters:
            left: Bools = alive & one.passes(nodes, shape)
            if not left.any():
                return one.explain(Miss(nodes, shape, alive, self._names, ever))
            alive = left
        return None

    def _must_miss(self, shape: Shape) -> Reason:
        reason = self._first_miss(self._columns.seen_by(shape), shape, ever=False)
        if reason is None:
            raise AssertionError(f"shape {shape} passes every filter on some node, yet it was left out")
        return reason
