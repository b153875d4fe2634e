"""Any small cluster with everything in it: nodes of all kinds, running jobs, a queue, and a profile."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.admit.admission import decide
from ares.core.refusal import Admission
from ares.model.job import (
    PRIORITIES,
    DataInput,
    Gang,
    JobSpec,
    JobTerm,
    NodeTerm,
    Preemption,
    Resources,
    Toleration,
    TopologyWish,
)
from ares.model.node import Gpu, NodeInfo, NodeRecord, NumaNode, Taint
from ares.model.profile import BackfillPolicy, OrderPolicy, Pool, PreemptionPolicy, Profile, Share, Weight
from ares.model.state import JobState
from tests.unit.core.schedule.nodes import links

MODELS = ["NVIDIA A100", "NVIDIA A10"]
LABELS = st.sampled_from([{}, {}, {"app": "db"}, {"app": "web"}, {"app": "web", "disk": "ssd"}])
NOW = 100_000.0


@dataclass
class World:
    nodes: list[NodeRecord]
    ready: set[str]
    running: list[tuple[JobState, JobSpec]] = field(default_factory=list[tuple[JobState, JobSpec]])
    waiting: list[tuple[JobState, JobSpec]] = field(default_factory=list[tuple[JobState, JobSpec]])
    profile: Profile = field(default_factory=Profile)


def rare(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Mostly the first."""
    return st.sampled_from([usual] * (6 * len(others)) + list(others))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeRecord:
    sizes = draw(st.sampled_from([(), (1,), (2,), (2, 2), (3, 1), (4,), (1, 1, 2)]))
    model, memory = draw(st.sampled_from(MODELS)), draw(st.sampled_from([24_000, 80_000]))
    places = draw(st.integers(0, 2))
    numa = st.integers(0, max(0, places - 1))
    mig = draw(rare(None, 0))
    gpus = tuple(
        Gpu(index=at, uuid=f"{name}.{at}", model=model, memory_mib=memory, numa_node=draw(numa), mig=at == mig)
        for at in range(sum(sizes))
    )
    cpu, mib = draw(st.integers(2, 8)), draw(st.sampled_from([400, 1000]))
    each = cpu // max(1, places)
    domains = tuple(
        NumaNode(index=at, cpus=tuple(range(at * each, (at + 1) * each)), memory_mib=mib // places)
        for at in range(places)
    )
    taints = [Taint(key="spot"), Taint(key="spot", effect="prefer-not")]
    info = NodeInfo(
        name=name, cpu_milli=cpu * 1000, memory_mib=mib, gpus=gpus, numa=domains, labels=draw(LABELS),
        pool=draw(st.sampled_from(["default", "spot"])), rack=draw(st.sampled_from(["", "r1", "r2"])),
        zone=draw(rare("z1", "", "z2")), region=draw(rare("eu", "", "us")),
        network_gbps=draw(st.sampled_from([0.0, 100.0])),
        taints=draw(rare((), *((taint,) for taint in taints))), datasets=draw(rare((), ("films",))),
        devices=draw(rare({}, {"fpga": ("f0", "f1")}, {"mig-1g.10gb": ("m0", "m1", "m2")})), gpu_links=links(*sizes),
    )  # fmt: skip
    return NodeRecord(info=info, incarnation=1, registered_at=0.0, cordoned=draw(rare(False, True)))


RESOURCES = st.builds(
    Resources,
    cpu_milli=st.sampled_from([1, 500, 1000, 2000, 5000, 9000]),
    memory_mib=st.sampled_from([1, 100, 300, 900]),
    gpus=st.sampled_from([0, 0, 1, 1, 2, 3]),
    gpu_milli=rare(1000, 300, 500),
    gpu_model=rare(None, "A100", "A10", "H100"),
    gpu_memory_mib=rare(0, 40_000),
    devices=rare({}, {"fpga": 1}, {"fpga": 2}, {"mig-1g.10gb": 1}, {"tpu": 1}),
).map(lambda wants: wants if wants.gpus else replace(wants, gpu_milli=1000, gpu_model=None, gpu_memory_mib=0))

GANGS = st.builds(
    Gang, ranks=st.integers(1, 4), min_ranks=st.sampled_from([None, None, 1, 2, 3]), per_node=rare(None, 1, 2)
)
TERMS = st.builds(
    NodeTerm, key=st.sampled_from(["app", "disk"]), op=st.sampled_from(["in", "not-in"]),
    values=st.just(("web",)), required=st.booleans(),
)  # fmt: skip
NEAR = st.builds(
    JobTerm, labels=st.sampled_from([{"app": "db"}, {"app": "web"}]), away=st.booleans(), required=st.booleans(),
    level=st.sampled_from(["node", "rack", "zone", "region"]),
)  # fmt: skip
SPECS = st.builds(
    JobSpec,
    command=st.just(("true",)),
    resources=RESOURCES,
    alternatives=st.one_of(st.just(()), st.just(()), st.lists(RESOURCES, max_size=2).map(tuple)),
    priority=st.sampled_from(PRIORITIES),
    labels=LABELS,
    selector=rare({}, {"app": "web"}),
    gang=st.one_of(st.none(), st.none(), GANGS),
    topology=st.one_of(
        st.none(),
        st.builds(
            TopologyWish, level=st.sampled_from(["nvlink", "node", "rack", "zone", "region"]), required=st.booleans()
        ),
    ),
    numa=rare("none", "preferred", "required", "required"),
    qos=rare("guaranteed", "burstable"),
    licences=rare({}, {"solver": 1}, {"solver": 2}),
    affinity=st.one_of(st.just(()), st.just(()), TERMS.map(lambda one: (one,))),
    job_affinity=st.one_of(st.just(()), st.just(()), st.just(()), NEAR.map(lambda one: (one,))),
    tolerations=rare((), (Toleration(key="spot"),)),
    residency=rare((), ("eu",)),
    inputs=rare((), (DataInput(name="films"),)),
    expected_runtime_s=st.sampled_from([None, None, 150.0, 500.0]),
    deadline_at=rare(None, NOW + 2000.0),
    team=rare(None, "red"),
    preemption=rare(Preemption(), Preemption(allowed=False)),
).filter(lambda spec: isinstance(decide(spec), Admission))

PROFILES = st.builds(
    Profile,
    shares=rare(
        {},
        {"a": Share(hard={"gpu": 2000})},
        {"a": Share(soft={"gpu": 1000, "cpu": 2000}), "b": Share(soft={"gpu": 2000, "cpu": 4000}, hard={"cpu": 6000})},
    ),
    licences=st.sampled_from([{"solver": 2}, {"solver": 1}, {}]),
    pools=st.sampled_from([{}, {"spot": Pool(overcommit_cpu=1.5, overcommit_memory=1.25, gpu_hour=1.0)}]),
    preemption=st.builds(
        PreemptionPolicy,
        gap=st.sampled_from([1, 2]),
        disruption_max=st.sampled_from([1.0, 2.0, 4.0]),
        min_runtime_s=st.sampled_from([0.0, 60.0]),
        cooldown_s=st.just(0.0),
    ),
    order=st.sampled_from(
        [
            OrderPolicy(),
            OrderPolicy(),
            OrderPolicy(primary=(Weight(name="drf", weight=1.0),)),
            OrderPolicy(primary=(Weight(name="priority", weight=1.0),), secondary=(Weight(name="drf", weight=1.0),)),
        ]
    ),
    # Without the scorer that goes by which jobs were seen before: that is history, which a newcomer does not have.
    scorers=st.just(tuple(one for one in Profile().scorers if one.name != "fragmentation")),
    max_placements_per_cycle=rare(512, 3),
    backfill=st.builds(
        BackfillPolicy,
        strategy=st.sampled_from(["greedy", "greedy", "easy", "conservative", "aggressive", "deadline"]),
        order=rare("rank", "shortest"),
    ),
)
# Whoever fits starts, whoever waits: places and reasons are then a matter of room alone.
GREEDY = BackfillPolicy(strategy="greedy")


def job(number: int, tenant: str, spec: JobSpec, at: float) -> tuple[JobState, JobSpec]:
    state = JobState(
        id=f"j{number:02d}", tenant=tenant, name="x", submitted_at=at, queued_at=at, team=spec.team, submitted_by="u"
    )
    return state, spec


@st.composite
def worlds(draw: st.DrawFn, jobs: int = 14, shapes: int = 4) -> World:
    """Nothing runs yet: `histories` let things happen."""
    made = [draw(nodes(f"n{at}")) for at in range(draw(st.integers(1, 4)))]
    ready = {one.info.name for one in made if draw(rare(True, False))}
    specs = draw(st.lists(SPECS, min_size=1, max_size=shapes))
    tenants = st.sampled_from(["a", "b"])
    times = st.integers(0, 5).map(lambda step: NOW - 1000.0 * step)
    waiting = [
        job(number, draw(tenants), draw(st.sampled_from(specs)), draw(times))
        for number in range(draw(st.integers(1, jobs)))
    ]
    return World(made, ready, [], waiting, draw(PROFILES))


_PLAIN = st.builds(
    JobSpec,
    command=st.just(("true",)),
    resources=st.builds(
        Resources,
        cpu_milli=st.sampled_from([500, 1000, 3000]),
        memory_mib=st.just(1),
        gpus=st.sampled_from([0, 1, 2, 3, 4]),
        gpu_milli=rare(1000, 500),
    ).map(lambda wants: wants if wants.gpus else replace(wants, gpu_milli=1000)),
    priority=st.sampled_from(PRIORITIES),
    gang=st.one_of(st.none(), st.none(), GANGS),
    topology=rare(None, TopologyWish(level="rack", required=True), TopologyWish(level="nvlink", required=True)),
    licences=rare({}, {"solver": 1}),
    expected_runtime_s=st.sampled_from([None, 150.0, 500.0, 1000.0]),
).filter(lambda spec: isinstance(decide(spec), Admission))


@st.composite
def crowded(draw: st.DrawFn) -> World:
    """Little room, few wishes about the place, and many who may be asked to leave."""
    made: list[NodeRecord] = []
    for at in range(draw(st.integers(1, 3))):
        sizes = draw(st.sampled_from([(2, 2), (4,), (3, 1)]))
        gpus = tuple(Gpu(index=n, uuid=f"{at}.{n}", model=MODELS[0], memory_mib=80_000) for n in range(4))
        info = NodeInfo(
            name=f"n{at}", cpu_milli=8000, memory_mib=1000, gpus=gpus, gpu_links=links(*sizes),
            rack=draw(st.sampled_from(["r1", "r2"])),
        )  # fmt: skip
        made.append(NodeRecord(info=info, incarnation=1, registered_at=0.0))
    specs, tenants = draw(st.lists(_PLAIN, min_size=2, max_size=6)), st.sampled_from(["a", "b"])
    waiting = [
        job(number, draw(tenants), draw(st.sampled_from(specs)), NOW - 1000.0 * number)
        for number in range(draw(st.integers(4, 16)))
    ]
    return World(made, {one.info.name for one in made}, [], waiting, draw(PROFILES))
