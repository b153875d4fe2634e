"""A small cluster to schedule on, said in few words."""

from typing import Any

from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plan import Plan
from ares.core.schedule.profile import Profile
from ares.model.job import JobSpec, Resources
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.state import JobState, Placement


def node(name: str, *, cpu: int = 8, memory: int = 1024, gpus: int = 0, model: str = "NVIDIA A100-SXM4-80GB",
         labels: dict[str, str] | None = None, cordoned: bool = False, incarnation: int = 1,
         first_gpu: int = 0) -> NodeRecord:  # fmt: skip
    found = tuple(Gpu(index=first_gpu + n, uuid=f"{name}-{n}", model=model, memory_mib=80_000) for n in range(gpus))
    info = NodeInfo(name=name, cpu_milli=cpu * 1000, memory_mib=memory, gpus=found, labels=labels or {})
    return NodeRecord(info=info, incarnation=incarnation, registered_at=0.0, cordoned=cordoned)


def spec(*, cpu: float = 1, memory: int = 1, gpus: int = 0, model: str | None = None, **more: Any) -> JobSpec:
    wants = Resources(cpu_milli=int(cpu * 1000), memory_mib=memory, gpus=gpus, gpu_model=model)
    return JobSpec(command=("true",), resources=wants, **more)


def state(job_id: str, at: float = 0.0, index: int | None = None) -> JobState:
    return JobState(id=job_id, tenant="t", name="x", submitted_at=at, index=index)


def cluster(*nodes: NodeRecord) -> Cluster:
    """All nodes ready."""
    made = Cluster()
    for one in nodes:
        made.put_node(one)
        made.set_ready(one.info.name, True)
    return made


def plan(made: Cluster, **profile: Any) -> Plan:
    return cycle(made.snapshot(), Profile(**profile), 0.0)


def places(made: Plan) -> dict[str, Placement]:
    return {one.job: one.placements[0] for one in made.placed}


def nodes_of(made: Plan) -> list[tuple[str, str]]:
    """(job, node) in the order of the plan."""
    return [(one.job, one.placements[0].node) for one in made.placed]
