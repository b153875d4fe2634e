"""Nearness to data: the less time copying the job's inputs takes, the better."""

import numpy as np

from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools, Floats, Ints

# How much of the slower machine's network a copy gets, by the closest place that both share.
_SHARES = (("region", 0.25), ("zone", 0.5), ("rack", 1.0))
_AFAR = 0.05
# Of machines that do not say.
_NETWORK_GBPS = 10.0
_GBIT_PER_MIB = 8 * (1 << 20) / 1e9
# So many seconds of copying weigh as much as all that another scorer of the same weight can say.
_FULL_S = 10.0
# Beyond it, longer is not worse: nodes where a job failed before are worse still.
_MOST = 50.0


def score(rows: NodeSlice) -> Floats | None:
    """Minus the time that copying takes, 1 for every 10 s: 0 where all inputs are at hand. Looks at what other nodes
    are, never at what runs there. A dataset that no node has comes from elsewhere, as far for all."""
    inputs = rows.ask.inputs
    if not inputs:
        return None
    sizes: dict[str, int] = {}
    for name, size_mib in inputs:
        dataset = rows.table.dataset_of(name)
        if dataset is not None:
            sizes[dataset] = sizes.get(dataset, 0) + size_mib
    seconds = np.zeros(len(rows))
    for dataset, size_mib in sizes.items():
        seconds += size_mib * _GBIT_PER_MIB / _gbps(rows, dataset)
    return -np.minimum(seconds / _FULL_S, _MOST)


def _gbps(rows: NodeSlice, name: str) -> Floats:
    """How fast the dataset comes to each row from the holder that is best for it; infinite where the row has it."""
    everywhere: Bools = rows.table.datasets.of(name)
    holders = np.flatnonzero(everywhere)
    network = _network(rows.table.network_gbps)
    here, there = _network(rows.network_gbps), network[holders]
    fastest = _AFAR * np.minimum(here, there.max(initial=_NETWORK_GBPS))
    for level, share in _SHARES:
        column: Ints = getattr(rows.table, level)
        for domain in np.unique(column[holders]):
            if domain > 0:
                inside = rows.domain(level) == domain
                best = there[column[holders] == domain].max()
                fastest = np.where(inside, np.maximum(fastest, share * np.minimum(here, best)), fastest)
    return np.where(rows.has_dataset(name), np.inf, fastest)


def _network(gbps: Floats) -> Floats:
    return np.where(gbps > 0, gbps, _NETWORK_GBPS)
