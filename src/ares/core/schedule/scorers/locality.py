"""Nearness to data: the less of the job's inputs must come from afar, the better."""

import numpy as np

from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools, Floats, Ints

# What data in the same place is worth, if the node itself does not have it: the nearest place counts.
_WORTH = (("region", 0.2), ("zone", 0.4), ("rack", 0.6))


def score(rows: NodeSlice) -> Floats | None:
    """The share of the inputs' bytes at hand, in 0..1. Looks at what other nodes are, never at what runs there."""
    inputs = rows.ask.inputs
    if not inputs:
        return None
    sizes: dict[str, int] = {}
    for name, size_mib in inputs:
        dataset = rows.table.dataset_of(name)
        if dataset is not None:
            sizes[dataset] = sizes.get(dataset, 0) + size_mib
    at_hand = np.zeros(len(rows))
    for dataset, size_mib in sizes.items():
        at_hand += size_mib * _nearness(rows, dataset)
    return at_hand / sum(size_mib for _, size_mib in inputs)


def _nearness(rows: NodeSlice, name: str) -> Floats:
    everywhere: Bools = rows.table.datasets.of(name)
    holders = np.flatnonzero(everywhere)
    nearness = np.zeros(len(rows))
    for level, worth in _WORTH:
        column: Ints = getattr(rows.table, level)
        domains = column[holders]
        nearness[np.isin(rows.domain(level), domains[domains > 0])] = worth
    nearness[rows.has_dataset(name)] = 1.0
    return nearness
