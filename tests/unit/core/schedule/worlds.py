"""Any few nodes, any running jobs, any ask: for properties of filters and scorers."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

from ares.core.ask import Ask, Near
from ares.core.capacity.node_slice import Matching, NodeSlice
from ares.core.capacity.node_table import NodeTable
from ares.model.job import NodeTerm
from ares.model.node import Taint
from ares.model.profile import Pool
from tests.unit.core.schedule.nodes import Node, facts, links, matching, node, table

MODELS = ["NVIDIA A100", "NVIDIA A10"]
LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2", "x"]))
PLACE = st.sampled_from(["", "p", "q"])
TENANTS = st.sampled_from(["t", "u"])
KINDS = st.sampled_from(["tpu", "fpga"])


class World(NamedTuple):
    nodes: list[Node]
    running: list[tuple[str, dict[str, str], tuple[int, ...]]]
    ask: Ask
    table: NodeTable

    def rows(self, at: Any = slice(None), *, emptied: bool = False) -> NodeSlice:
        return NodeSlice(self.table, self.ask, at, facts(*self.nodes), self.matching, emptied)

    @property
    def matching(self) -> Matching:
        return matching(*self.running)


@st.composite
def _nodes(draw: st.DrawFn) -> Node:
    sizes = draw(st.sampled_from([(), (1, 1), (2, 2), (4,), (3, 1)]))
    gpus, numa = sum(sizes), draw(st.integers(0, 2))
    devices = draw(st.dictionaries(KINDS, st.integers(1, 3)))
    effects = st.sampled_from(["no-schedule", "prefer-not"])
    price = st.sampled_from([0.0, 0.3, 1.7])
    info = {
        "labels": draw(LABELS), "rack": draw(PLACE), "zone": draw(PLACE), "region": draw(PLACE),
        "network_gbps": draw(st.sampled_from([0.0, 25.0, 400.0])),
        "taints": tuple(draw(st.lists(st.builds(Taint, key=st.just("k"), effect=effects), max_size=1))),
        "datasets": tuple(draw(st.sets(st.sampled_from(["d", "e"])))),
        "devices": {kind: tuple(map(str, range(count))) for kind, count in devices.items()},
        "gpu_links": links(*sizes),
    }  # fmt: skip
    return node(
        "n", cpu=draw(st.integers(2, 8)), memory=draw(st.integers(100, 900)), gpus=gpus,
        model=draw(st.sampled_from(MODELS)), gpu_memory=draw(st.sampled_from([24_000, 80_000])), numa=numa, info=info,
        cordoned=draw(st.booleans()), ready=draw(st.booleans()),
        pool=Pool(gpu_hour=draw(price), cpu_hour=draw(price), gpu_watts=draw(st.sampled_from([0.0, 300.0, 700.0]))),
        cpu_used=draw(st.integers(0, 2000)), memory_used=draw(st.integers(0, 100)),
        gpus_used={at: draw(st.sampled_from([0, 400, 1000])) for at in range(gpus)},
        devices_used={kind: draw(st.integers(0, count)) for kind, count in devices.items()},
        numa_used={at: (draw(st.integers(0, 1000)), draw(st.integers(0, 50))) for at in range(numa)},
    )  # fmt: skip


_PAIRS = LABELS.map(lambda labels: tuple(sorted(labels.items())))
_TERMS = st.builds(
    NodeTerm,
    key=st.sampled_from(["a", "b"]),
    op=st.sampled_from(["in", "not-in", "exists", "absent", "gt", "lt"]),
    values=st.lists(st.sampled_from(["1", "2", "x"]), max_size=2).map(tuple),
    required=st.booleans(),
    weight=st.integers(1, 9),
)
_NEAR = st.builds(
    Near,
    labels=_PAIRS.filter(bool),
    level=st.sampled_from(["node", "rack", "zone", "region"]),
    away=st.booleans(),
    required=st.booleans(),
    weight=st.integers(1, 9),
    own=st.booleans(),
    # Terms of other jobs are only about what they keep away.
    theirs=st.just(False),
)
_ASKS = st.builds(
    Ask,
    cpu_milli=st.integers(1, 8000),
    memory_mib=st.integers(1, 900),
    gpus=st.integers(0, 4),
    gpu_milli=st.sampled_from([1000, 1000, 300]),
    gpu_model=st.sampled_from([None, None, "A100", "H100"]),
    gpu_memory_mib=st.sampled_from([0, 0, 40_000]),
    devices=st.dictionaries(KINDS, st.integers(1, 3)).map(lambda wants: tuple(sorted(wants.items()))),
    ranks=st.sampled_from([1, 1, 4]),
    level=st.sampled_from([None, "nvlink", "rack"]),
    level_required=st.booleans(),
    numa=st.sampled_from(["none", "preferred", "required"]),
    selector=_PAIRS,
    terms=st.lists(_TERMS, max_size=2).map(tuple),
    near=st.lists(_NEAR, max_size=2).map(tuple),
    tenant=TENANTS,
    tolerations=st.sampled_from([(), (("k", None),)]),
    residency=st.sampled_from([(), (), ("p",), ("p", "z")]),
    inputs=st.sampled_from([(), (("d", 3),), (("d", 1), ("e", 7), ("f", 2))]),
    runs=st.sampled_from([(), (("A100", 10.0), ("H100", 0.0)), (("", 60.0), ("A100 80GB", 30.0))]),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    made = draw(st.lists(_nodes(), min_size=1, max_size=5))
    places = st.lists(st.integers(0, len(made) - 1), min_size=1, max_size=2).map(tuple)
    return World(made, draw(st.lists(st.tuples(TENANTS, LABELS, places), max_size=3)), draw(_ASKS), table(*made))
