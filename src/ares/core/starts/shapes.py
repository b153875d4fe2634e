"""When a job of some size would start if it were submitted now: for common sizes, or the one that is asked about."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ares.api.pools import Shape, ShapeEta
from ares.core.capacity.node_table import POOL_LABEL
from ares.core.explain.why import infeasible
from ares.core.queue.waiting import ClassKey, class_key
from ares.core.schedule.cluster import Cluster
from ares.core.starts.starts import Course, Starts, eta_of
from ares.core.steps import Steps, in_steps
from ares.core.text import count, span
from ares.model.job import Gang, JobSpec, Resources
from ares.model.node import NodeInfo
from ares.model.state import JobState

_SIZES = (1, 2, 4, 8)
_NODES_MAX = 8
# What goes with each GPU of a common size.
_CPU_MILLI, _MEMORY_MIB = 1000, 1024


def common_shapes(nodes: Sequence[NodeInfo]) -> Iterator[Shape]:
    """Common sizes on nodes like these: some GPUs, one whole node, and several whole nodes."""
    whole = max(nodes, key=lambda node: (len(_gpus(node)), node.cpu_milli, node.memory_mib))
    most = len(_gpus(whole))
    for gpus in _SIZES:
        if gpus <= most:
            cpu, memory = min(gpus * _CPU_MILLI, whole.cpu_milli), min(gpus * _MEMORY_MIB, whole.memory_mib)
            yield Shape(words=count(gpus, "GPU"), resources=Resources(cpu_milli=cpu, memory_mib=memory, gpus=gpus))
    if not most:
        yield Shape(words="1 CPU", resources=Resources(cpu_milli=min(_CPU_MILLI, whole.cpu_milli)))
    each = Resources(cpu_milli=max(1, whole.cpu_milli), memory_mib=max(1, whole.memory_mib), gpus=most)
    yield Shape(words="1 whole node", resources=each)
    alike = sum((len(_gpus(node)), node.cpu_milli, node.memory_mib) >= (most, *_size(whole)) for node in nodes)
    if alike > 1:
        ranks = min(alike, _NODES_MAX)
        yield Shape(words=f"{ranks} whole nodes", resources=each, ranks=ranks)


def _gpus(info: NodeInfo) -> list[int]:
    return [gpu.index for gpu in info.gpus if not gpu.mig]


def _size(info: NodeInfo) -> tuple[int, int]:
    return info.cpu_milli, info.memory_mib


@in_steps
def shape_etas(
    cluster: Cluster, state: JobState, pool: str | None, shapes: Sequence[Shape], runs_s: float, now: float
) -> Steps[list[ShapeEta]]:
    """When jobs of these sizes and this run time would start in the pool if they were submitted now, as `state`."""
    specs = [_spec(pool, shape, runs_s) for shape in shapes]
    starts = yield from Starts(cluster, now).steps(state, specs)
    return [
        _eta(cluster, class_key(state, spec), shape, found, runs_s, now)
        for shape, spec, found in zip(shapes, specs, starts, strict=True)
    ]


def _spec(pool: str | None, shape: Shape, runs_s: float) -> JobSpec:
    return JobSpec(
        command=("true",),
        resources=shape.resources,
        gang=None if shape.ranks == 1 else Gang(ranks=shape.ranks),
        selector={} if pool is None else {POOL_LABEL: pool},
        expected_runtime_s=runs_s,
    )


def _eta(cluster: Cluster, key: ClassKey, shape: Shape, found: Course | str, runs_s: float, now: float) -> ShapeEta:
    never = infeasible(cluster, key, now) if isinstance(found, str) else None
    if never is not None:
        return ShapeEta(shape=shape, never=never.message)
    eta = eta_of(found, now)
    return ShapeEta(shape=shape, starts=replace(eta, basis=f"{eta.basis}, for a job of {span(runs_s)}"))
