"""Nodes with enough free GPUs of the model the job asks for."""

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Column, Nodes
from ares.core.schedule.filters.filter import Filter, Miss
from ares.core.schedule.reasons import Reason


def passes(nodes: Nodes, shape: Shape) -> Column:
    return nodes.gpus_free >= shape.gpus


def explain(miss: Miss) -> Reason:
    asked, best = miss.shape.gpus, miss.nearest(miss.nodes.gpus_free)
    free, total = int(miss.nodes.gpus_free[best]), int(miss.nodes.gpus[best])
    numbers = {"asked": asked, "free": free, "total": total, "nodes": miss.considered()}
    model = f" of model {miss.shape.gpu_model}" if miss.shape.gpu_model else ""
    name, needs = miss.names[best].name, f"needs {asked} GPU{'' if asked == 1 else 's'}{model} on one node"
    if miss.ever and total == 0:
        code = "INFEASIBLE_GPU_MODEL" if miss.shape.gpu_model else "INFEASIBLE_GPU"
        return Reason(code=code, message=f"{needs}; no node that could take it has any", numbers=numbers)
    if miss.ever:
        message = f"{needs}; the largest that could take it, {name}, has {total}"
        return Reason(code="INFEASIBLE_GPU", message=message, numbers=numbers)
    message = f"{needs}; the nearest, {name}, has {free} free of {total}"
    return Reason(code="INSUFFICIENT_GPU", message=message, numbers=numbers)


FILTER = Filter(passes, explain)
