"""Speed between a job's GPUs: inside the node by its links, between the ranks of a gang by the node's network."""

from ares.core.capacity.gpu_sets import by_machine, one_domain
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Floats
from ares.core.topology.subset import MachineShape, best, best_in_domain


def score(rows: NodeSlice) -> Floats | None:
    """Against the best there is: of the machine for its GPUs, of the cluster for its network. None for lone GPUs."""
    network = _network(rows)
    if rows.ask.gpus < 2 or (network is None and _alike(rows)):
        return network
    if network is None:
        return _links(rows)
    return ((1.0 if _alike(rows) else _links(rows)) + network) / 2.0


def _alike(rows: NodeSlice) -> bool:
    """On every machine all pairs of GPUs are equally fast, so that no choice is better than another."""
    return all(shape.graph.uniform for shape in rows.table.machines)


def _links(rows: NodeSlice) -> Floats:
    count = rows.ask.gpus
    together = one_domain(rows.ask)

    def of(shape: MachineShape, mask: int) -> float:
        if mask.bit_count() < count:
            return 0.0
        choice = best_in_domain(shape, mask, count) if together else best(shape, mask, count)
        return 0.0 if choice is None else choice.score

    return by_machine(rows, rows.gpu_fit_mask, of)


def _network(rows: NodeSlice) -> Floats | None:
    fastest = rows.facts.network_gbps_max
    return rows.network_gbps / fastest if rows.ask.ranks > 1 and fastest > 0.0 else None
