"""How long a waiting job is said to wait: until enough gets free, and the work ahead of it is done."""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ares.core.ask import Ask
from ares.core.capacity.holding import Holding
from ares.core.capacity.node_table import WHOLE
from ares.core.forecast.estimate import Estimate
from ares.core.forecast.eta import Wait
from ares.core.queue.backlog import Bottleneck, amount_of, kind_of
from ares.core.queue.waiting import ClassKey
from ares.core.schedule.cluster import Cluster

# ---- The supply of one resource: what is free, and what running jobs give back when.


Floats = NDArray[np.float64]


class HeldSupply(NamedTuple):
    """So much is held for so many seconds more; infinity when that is not known."""

    amount: float
    left_s: float


class Supply:
    """The resource as one heap, whatever the nodes. Built in one pass, asked in log time."""

    __slots__ = ("_area", "_free", "_times")

    def __init__(self, free: float, held: Sequence[HeldSupply]) -> None:
        amounts = np.array([supply.amount for supply in held], np.float64)
        left = np.maximum(np.array([supply.left_s for supply in held], np.float64), 0.0)
        order = np.argsort(left, kind="stable")
        order = order[: int(np.isfinite(left).sum())]
        # From each of these times on so much is free, and by then so much (amount times seconds) was.
        self._times: Floats = np.concatenate(([0.0], left[order]))
        self._free: Floats = max(0.0, free) + np.concatenate(([0.0], np.cumsum(amounts[order])))
        self._area: Floats = np.concatenate(([0.0], np.cumsum(self._free[:-1] * np.diff(self._times))))

    def opens_s(self, amount: float) -> float:
        """When so much is free at once, should no job take it; infinity when that much never is."""
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


_PROMISED = "room is promised to it, by the run times of those who hold it"
_NEVER = "those who hold what it needs do not say how long they run"
_OPENS = "those who run give back enough by then, by their run times"
_DRAINED = "what waits ahead of it takes that long, by run times, on what gets free"
_FREE = "there is enough, but not in one place or not for it yet"


def _basis(opens_s: float, drained_s: float) -> str:
    if opens_s == inf or drained_s == inf:
        return _NEVER
    if opens_s >= drained_s:
        return _OPENS if opens_s else _FREE
    return _DRAINED


class Supplies:
    """Supplies as of one moment. Each kind of resource is computed at the first question about it."""

    def __init__(self, cluster: Cluster, now: float) -> None:
        self._cluster = cluster
        self._now = now
        self._known: dict[Bottleneck, tuple[Supply, float]] = {}

    def wait_of(self, job_id: str) -> Wait | None:
        """None when the job does not wait."""
        cluster = self._cluster
        found = cluster.waiting.class_of(job_id)
        if found is None:
            return None
        wait = self._wait(found.key.asks[0], cluster.backlog.ahead(job_id))
        own, promise = cluster.booked(found.key.asks[0].reservation, self._now), cluster.promises.get(job_id)
        if own is not None and own.start > self._now:
            return Wait(own.start - self._now, wait.share, f"its reservation {own.name} begins then")
        return wait if promise is None else Wait(max(0.0, promise.start - self._now), wait.share, _PROMISED)

    def wait_of_new(self, key: ClassKey, runs: Estimate | None) -> Wait:
        """The wait of a job that would be submitted now."""
        runs_s = inf if runs is None else runs.seconds
        return self._wait(key.asks[0], self._cluster.backlog.ahead_of_new(key.asks[0], key.level, runs_s))

    def _wait(self, ask: Ask, ahead: float) -> Wait:
        supply, capacity = self._supply(kind_of(ask))
        amount = amount_of(ask)
        opens_s, drained_s = supply.opens_s(amount), supply.drained_s(ahead)
        return Wait(max(opens_s, drained_s), amount / capacity if capacity else 1.0, _basis(opens_s, drained_s))

    def _supply(self, kind: Bottleneck) -> tuple[Supply, float]:
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = self._look(kind)
        return known

    def _look(self, kind: Bottleneck) -> tuple[Supply, float]:
        table, names = self._cluster.table, self._cluster.rows
        rows = np.flatnonzero(table.healthy[: table.used])
        if kind.resource == "gpu":
            answers = table.answers(kind.model or None, 0)[rows]
            free = int((np.maximum(table.gpu_left[rows], 0) * answers).sum())
            capacity = WHOLE * int(answers.sum())
            rows = rows[answers.any(axis=1)]
        else:
            free, capacity = int(table.cpu_free[rows].sum()), int(table.cpu[rows].sum())
        within = set(rows.tolist())
        nodes = {name for name, row in names.items() if row in within}
        held = [
            HeldSupply(self._held(holding, kind, nodes), self._left_s(holding))
            for holding in self._cluster.holdings.values()
        ]
        return Supply(free, [supply for supply in held if supply.amount]), float(capacity)

    def _held(self, holding: Holding, kind: Bottleneck, nodes: set[str]) -> float:
        places = (place for place in holding.placements if place.node in nodes)
        if kind.resource == "gpu":
            return sum(len(place.gpus) * place.gpu_milli for place in places)
        return sum(place.cpu_milli for place in places)

    def _left_s(self, holding: Holding) -> float:
        return inf if holding.ends_at is None else holding.ends_at - self._now
