"""How long a waiting job is said to wait: until enough gets free, and what waits ahead of it is done."""

import numpy as np

from ares.core.predict.eta import Wait
from ares.core.predict.supply import Held, Supply
from ares.core.queue.backlog import Kind, amount_of, kind_of
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.columns import WHOLE
from ares.core.schedule.holding import Holding


class Supplies:
    """Of one moment. Each kind of resource is looked at once, when somebody first asks about it."""

    def __init__(self, cluster: Cluster, now: float) -> None:
        self._cluster = cluster
        self._now = now
        self._known: dict[Kind, tuple[Supply, float]] = {}

    def wait_of(self, job_id: str) -> Wait | None:
        """None when the job does not wait."""
        cluster = self._cluster
        found = cluster.waiting.class_of(job_id)
        if found is None:
            return None
        ask = found.key.asks[0]
        supply, capacity = self._supply(kind_of(ask))
        amount = amount_of(ask)
        share = amount / capacity if capacity else 1.0
        promise = cluster.promises.get(job_id)
        if promise is not None:
            return Wait(max(0.0, promise.start - self._now), share)
        return Wait(max(supply.opens_s(amount), supply.drained_s(cluster.backlog.ahead(job_id))), share)

    def _supply(self, kind: Kind) -> tuple[Supply, float]:
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = self._look(kind)
        return known

    def _look(self, kind: Kind) -> tuple[Supply, float]:
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
        held = [Held(self._held(one, kind, nodes), self._left_s(one)) for one in self._cluster.holdings.values()]
        return Supply(free, [one for one in held if one.amount]), float(capacity)

    def _held(self, one: Holding, kind: Kind, nodes: set[str]) -> float:
        places = (place for place in one.placements if place.node in nodes)
        if kind.resource == "gpu":
            return sum(len(place.gpus) * place.gpu_milli for place in places)
        return sum(place.cpu_milli for place in places)

    def _left_s(self, one: Holding) -> float:
        return float("inf") if one.ends_at is None else one.ends_at - self._now
