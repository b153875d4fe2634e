"""From when on pools with a cap may draw what a job needs, by the estimates of those who run there."""

from math import inf

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.node_table import Floats, Ints, NodeTable
from ares.core.capacity.power import needed
from ares.core.schedule.cluster import Cluster
from ares.model.state import Placement


def powered_from(cluster: Cluster, ask: Ask, rows: Ints, now: float) -> Floats:
    """For one rank on each row; `now` where the pool may already, never where not even all ends are enough."""
    times = np.full(len(rows), now)
    power, table = cluster.table.power, cluster.table
    if power is None or not len(rows):
        return times
    need, pools, lefts = needed(cluster.evaluations.rows(ask, rows)), table.pool[rows], power.left()
    for pool in power.capped:
        here = np.flatnonzero((pools == pool) & (need > lefts[pool]))
        if not len(here):
            continue
        at, left = _ends(cluster, pool, now)
        times[here] = np.append(at, inf)[np.searchsorted(int(lefts[pool]) + left, need[here])]
    return times


def _ends(cluster: Cluster, pool: int, now: float) -> tuple[Floats, Ints]:
    """When jobs of the pool end, in order, and what all that ended by then drew beyond idle."""
    table, ends = cluster.table, list[tuple[float, int]]()
    for row in np.flatnonzero(table.pool[: table.used] == pool).tolist():
        record = table.records[row]
        for end in () if record is None else cluster.future.ends_on(record.info.name):
            ends.append((max(now, end.at), _beyond_idle(table, row, end.place)))
    ends.sort()
    return np.array([at for at, _ in ends]), np.cumsum([drawn for _, drawn in ends], dtype=np.int64)


def _beyond_idle(table: NodeTable, row: int, place: Placement) -> int:
    """Microwatts."""
    gpus = [gpu for gpu in place.gpus if gpu < table.gpus_wide]
    drawn = int((table.gpu_mw[row, gpus] - table.gpu_idle_mw[row, gpus]).sum()) * place.gpu_milli
    slices = table.slices.get(row, {})
    drawn += sum(
        len(names) * (slices[kind].full - slices[kind].idle) for kind, names in place.devices.items() if kind in slices
    )
    return drawn + place.cpu_milli * int(table.cpu_mw[row])
