"""How long a waiting job is said to wait: until enough gets free, and what waits ahead of it is done."""

from math import inf

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.holding import Holding
from ares.core.capacity.node_table import WHOLE
from ares.core.forecast.estimate import Estimate
from ares.core.forecast.eta import Wait
from ares.core.forecast.supply import HeldSupply, Supply
from ares.core.queue.backlog import Bottleneck, amount_of, kind_of
from ares.core.queue.waiting import ClassKey
from ares.core.schedule.cluster import Cluster

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
    """Of one moment. Each kind of resource is looked at once, when somebody first asks about it."""

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
        """Of a job that would be submitted now."""
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
        held = [HeldSupply(self._held(one, kind, nodes), self._left_s(one)) for one in self._cluster.holdings.values()]
        return Supply(free, [one for one in held if one.amount]), float(capacity)

    def _held(self, one: Holding, kind: Bottleneck, nodes: set[str]) -> float:
        places = (place for place in one.placements if place.node in nodes)
        if kind.resource == "gpu":
            return sum(len(place.gpus) * place.gpu_milli for place in places)
        return sum(place.cpu_milli for place in places)

    def _left_s(self, one: Holding) -> float:
        return inf if one.ends_at is None else one.ends_at - self._now
