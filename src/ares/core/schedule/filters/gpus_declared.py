"""Nodes that have enough GPUs of the kind asked for at all, whatever is free of them."""

import numpy as np

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import gpus

# A message names this many models.
_NAMED_MAX = 4


def passes(rows: NodeSlice) -> Bools | None:
    return rows.gpus >= rows.ask.gpus if rows.ask.gpus else None


def explain(miss: Miss) -> Reason:
    ask, total = miss.seen.ask, miss.seen.gpus
    best = miss.nearest(total)
    numbers = {"asked": ask.gpus, "total": int(total[best]), "nodes": len(miss.reached)}
    if total[best]:
        message = f"needs {gpus(ask)} on one node; the largest that could take it, {miss.name(best)}, has {total[best]}"
        return Reason(code="INFEASIBLE_GPU", message=message, numbers=numbers)
    code = "INFEASIBLE_GPU_MODEL" if ask.gpu_model or ask.gpu_memory_mib else "INFEASIBLE_GPU"
    message = f"needs {gpus(ask)} on one node; no node that could take it has any{_others(miss)}"
    return Reason(code=code, message=message, numbers=numbers)


def _others(miss: Miss) -> str:
    """What there is instead. Machines of one shape have the same models: one of each is enough to ask."""
    _, first = np.unique(miss.seen.machine[miss.reached], return_index=True)
    infos = (miss.record(int(row)).info for row in miss.reached[first])
    models = sorted({gpu.model for info in infos for gpu in info.gpus if not gpu.mig})
    if not models:
        return ""
    more = ", ..." if len(models) > _NAMED_MAX else ""
    return f"; there are {', '.join(models[:_NAMED_MAX])}{more}"


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes"), lasting=True)
