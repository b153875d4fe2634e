"""Pods and nodes of Alibaba's GPU cluster trace (v2023). Times are in seconds; GPUs may be shared by thousandths."""

from functools import lru_cache
from pathlib import Path

from ares.check.replay.trace import BadTrace, Trace, TraceJob, node
from ares.model.job import JobSpec, Priority, Resources
from ares.model.node import NodeInfo
from ares.sim.traces.formats.reading import Repairs, Row, sound, table, trace

COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time",
    "deletion_time", "scheduled_time",
)  # fmt: skip
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_COMMAND = ("true",)
_PRIORITIES: dict[str, Priority] = {"LS": "HIGH", "Guaranteed": "HIGH", "BE": "LOW"}
_ALTERNATIVES_MAX = 8


def load(path: Path, nodes: tuple[NodeInfo, ...] | None) -> Trace:
    """A pod ran from when it was scheduled until it was deleted. Without nodes, the list beside the file is taken."""
    repairs = Repairs()
    jobs = [job for row in table(path, COLUMNS) if (job := _job(row, repairs)) is not None]
    if nodes is None:
        beside = next(iter(sorted(path.parent.glob("*node_list*.csv*"))), None)
        if beside is None:
            what = "a list of pods, and no nodes for them"
            raise BadTrace(path.name, 0, what, "give --nodes a node list (sn,cpu_milli,...) or 100x96x8xV100")
        nodes = load_nodes(beside)
        repairs.say(f"{len(nodes)} nodes from {beside.name}, which is beside the trace")
    return trace(path, jobs, nodes, repairs)


def load_nodes(path: Path) -> tuple[NodeInfo, ...]:
    found: dict[str, NodeInfo] = {}
    for row in table(path, NODE_COLUMNS):
        name = row.cells["sn"]
        cpu, memory, gpus = (row.number(column) for column in ("cpu_milli", "memory_mib", "gpu"))
        if cpu <= 0 or memory <= 0 or gpus < 0:
            raise row.bad(f"node {name} has {cpu:g} CPU, {memory:g} memory, {gpus:g} GPUs", "correct the line")
        if name in found:
            raise row.bad(f"node {name} is there twice", "remove one of the lines")
        found[name] = node(name, cpu / 1000, int(gpus), row.cells["model"], int(memory))
    if not found:
        raise BadTrace(path.name, 0, "the list of nodes is empty", "give one with nodes")
    return tuple(found.values())


def _job(row: Row, repairs: Repairs) -> TraceJob | None:
    cells = row.cells
    submit = row.number("creation_time")
    if not cells["scheduled_time"] or not cells["deletion_time"]:
        repairs.add("pods never scheduled, of unknown run time", "left out")
        return None
    run_s = row.number("deletion_time") - row.number("scheduled_time")
    wants = [row.number(column) for column in ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")]
    if min(wants) < 0:
        repairs.add("pods with negative wishes", "left out")
        return None
    if not sound(row, repairs, submit, run_s):
        return None
    cpu, memory, gpus, share = (int(value) for value in wants)
    spec = _spec(max(1, cpu), max(1, memory), gpus, share, cells["gpu_spec"], cells["qos"])
    return TraceJob(id=cells["name"], submit=submit, run_s=run_s, spec=spec)


@lru_cache(maxsize=65_536)
def _spec(cpu: int, memory: int, gpus: int, share: int, models: str, qos: str) -> JobSpec:
    """Equal pods share one. Each of several GPU models is an alternative."""
    milli = share if gpus and share else 1000
    names = [name for name in models.split("|") if name][: _ALTERNATIVES_MAX + 1] if gpus else []
    first, *others = [
        Resources(cpu_milli=cpu, memory_mib=memory, gpus=gpus, gpu_milli=milli, gpu_model=name)
        for name in names or [None]
    ]
    priority = _PRIORITIES.get(qos, "NORMAL")
    return JobSpec(command=_COMMAND, resources=first, alternatives=tuple(others), priority=priority)
