"""A small cluster to schedule on, said in few words."""

from typing import Any

from msgspec.structs import replace

from ares.core.capacity.capacity import Reserved
from ares.core.capacity.holding import holding
from ares.core.forecast.estimate import stated
from ares.core.lifecycle.ranks import held
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plan import Plan
from ares.model.job import JobSpec, Resources
from ares.model.node import NodeRecord, Taint
from ares.model.profile import Profile
from ares.model.state import JobState, Phase, Placement
from tests.unit.core.schedule import nodes

NOW = 10_000.0


def node(
    name: str, *, cpu: int = 8, memory: int = 1024, gpus: int = 0, model: str = nodes.A100, gpu_memory: int = 80_000,
    numa: int = 0, links: tuple[int, ...] = (), cordoned: bool = False, incarnation: int = 1,
    taints: tuple[Taint, ...] = (), **info: Any,
) -> NodeRecord:  # fmt: skip
    """`links` are the sizes of its NVLink domains."""
    info |= {"gpu_links": nodes.links(*links)} if links else {}
    made = nodes.node(
        name, cpu=cpu, memory=memory, gpus=sum(links) or gpus, model=model, gpu_memory=gpu_memory, numa=numa,
        taints=taints, cordoned=cordoned, info=info,
    )  # fmt: skip
    return replace(made.record, incarnation=incarnation)


def wants(*, cpu: float = 1, memory: int = 1, gpus: int = 0, model: str | None = None, **more: Any) -> Resources:
    return Resources(cpu_milli=int(cpu * 1000), memory_mib=memory, gpus=gpus, gpu_model=model, **more)


_RESOURCES = {"cpu", "memory", "gpus", "model", "gpu_milli", "gpu_memory_mib", "devices"}


def spec(**said: Any) -> JobSpec:
    """Words about resources and about the job, side by side."""
    resources = wants(**{key: value for key, value in said.items() if key in _RESOURCES})
    others = {key: value for key, value in said.items() if key not in _RESOURCES}
    return JobSpec(command=("true",), resources=resources, **others)


def state(job: str, at: float = 0.0, tenant: str = "t", **more: Any) -> JobState:
    return JobState(id=job, tenant=tenant, name="x", submitted_at=at, queued_at=at, **more)


def placed(name: str, *, cpu: float = 1, memory: int = 1, gpus: tuple[int, ...] = (), **more: Any) -> Placement:
    made = Placement(node=name, incarnation=1, cpu_milli=int(cpu * 1000), memory_mib=memory, gpus=gpus)
    return replace(made, **more)


def cluster(*records: NodeRecord, profile: Profile = Profile()) -> Cluster:
    """All nodes ready."""
    made = Cluster(profile)
    for one in records:
        made.put_node(one)
        made.set_ready(one.info.name, True)
    return made


def run(
    made: Cluster, job: str, wanted: JobSpec, *places: Placement, tenant: str = "t", phase: Phase = "RUNNING",
    since: float = 0.0, **more: Any,
) -> JobState:  # fmt: skip
    """The job runs there; in another phase it is on its way out."""
    lingers = phase not in ("RUNNING", "STAGING")
    now = state(job, tenant=tenant, phase=phase, placements=places, bound_at=since, lingering=lingers, **more)
    runs = stated(wanted)
    made.hold(holding(now, wanted, held(now), None if runs is None else runs.seconds))
    return now


def reserve(made: Cluster, job: str, *places: Placement, evicting: tuple[str, ...] = (), alternative: int = 0) -> None:
    made.reserve(job, Reserved(places, evicting, alternative))


def cycle_at(made: Cluster, profile: Profile, now: float, **more: Any) -> Plan:
    """What the scheduler does around a cycle: another profile applies, and time goes on to `now`."""
    if made.profile != profile:
        made.configure(profile)
    made.advance(now)
    return cycle(made, now, **more)


def plan(made: Cluster, now: float = NOW, **changes: Any) -> Plan:
    return cycle_at(made, replace(made.profile, **changes), now)


def places(made: Plan) -> dict[str, Placement]:
    return {one.job: one.placements[0] for one in made.placed}


def nodes_of(made: Plan) -> list[tuple[str, str]]:
    """(job, node) in the order of the plan."""
    return [(one.job, one.placements[0].node) for one in made.placed]


def left_out(made: Plan) -> dict[str, int]:
    """The first of each class left out, and how many of it there are."""
    return {one.first_job: one.jobs for one in made.left}
