"""What a cluster says of itself: its nodes by what they have, what is free and where, how many jobs wait and run."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.view import View
from ares.core.capacity.holding import Holding
from ares.core.capacity.node_table import NODE_LABEL, POOL_LABEL
from ares.core.routing.options import Kind
from ares.model.node import NodeRecord
from ares.model.profile import Pool
from ares.model.state import Placement
from ares.model.uplink import (
    DATASETS_MAX,
    LABELS_MAX,
    ROOMS_MAX,
    ClusterReport,
    ReportedEta,
    ReportedRoom,
    ReportedShape,
)
from ares.version import __version__

_SHAPES_MAX = 256
_HOUR_S = 3600.0
# Labels by which nodes say what their processors are.
ARCH_LABELS = ("arch", "kubernetes.io/arch")
_PLAIN = Pool()
_Free = tuple[int, int, int]
Etas = Mapping[Kind, tuple[ReportedEta, ...]]


def report_of(
    live: LiveCluster, view: View, name: str, incarnation: int, seq: int, *, rtt_ms: int = 0, etas: Etas | None = None
) -> ClusterReport:  # fmt: skip
    kinds = kinds_of(live, view)
    drains = _drains(live.cluster.holdings.values(), kinds, view)
    shapes = (
        _shape(kind, nodes, view, live.cluster.profile.pools, drains.get(kind, 0.0), (etas or {}).get(kind, ()))
        for kind, nodes in sorted(kinds.items())
    )
    labels = _labels(record for nodes in kinds.values() for record in nodes)
    datasets = sorted({data for nodes in kinds.values() for record in nodes for data in record.info.datasets})
    uplink = view.kept.uplink.get("")
    return ClusterReport(
        cluster=name, incarnation=incarnation, seq=seq, shapes=tuple(islice(shapes, _SHAPES_MAX)),
        nodes=len(view.nodes), ready_nodes=len(live.cluster.ready_nodes), pending=len(live.cluster.waiting),
        running=len(live.cluster.holdings), rtt_ms=rtt_ms, labels=tuple(labels[:LABELS_MAX]),
        more_labels=len(labels) > LABELS_MAX, datasets=tuple(datasets[:DATASETS_MAX]),
        version=__version__, mode="" if uplink is None else uplink.mode,
    )  # fmt: skip


def kinds_of(live: LiveCluster, view: View) -> dict[Kind, list[NodeRecord]]:
    """Nodes that may take jobs now, by what they are."""
    found: dict[Kind, list[NodeRecord]] = {}
    for node in live.cluster.ready_nodes:
        if (record := view.nodes.get(node)) is not None and not record.cordoned:
            found.setdefault(_kind(record), []).append(record)
    return found


def _kind(record: NodeRecord) -> Kind:
    info = record.info
    arch = next((info.labels[label] for label in ARCH_LABELS if label in info.labels), "")
    model = info.gpus[0].model if info.gpus else ""
    return info.cpu_milli, info.memory_mib, len(info.gpus), model, info.pool, arch


def _shape(
    kind: Kind, nodes: Sequence[NodeRecord], view: View, pools: Mapping[str, Pool], drain_hour: float,
    etas: tuple[ReportedEta, ...],
) -> ReportedShape:  # fmt: skip
    cpu_milli, memory_mib, gpus, model, pool, arch = kind
    free = [_free(view, record) for record in nodes]
    terms = pools.get(pool, _PLAIN)
    due = terms.spot_factor if terms.spot else 1.0
    return ReportedShape(
        cpu_milli=cpu_milli, memory_mib=memory_mib, gpus=gpus, gpu_model=model, pool=pool, arch=arch, nodes=len(nodes),
        gpu_memory_mib=min((gpu.memory_mib for record in nodes for gpu in record.info.gpus), default=0),
        free_cpu_milli=sum(room[0] for room in free), free_memory_mib=sum(room[1] for room in free),
        free_gpus=sum(room[2] for room in free), rooms=rooms_of(free), etas=etas, drain_hour=drain_hour,
        gpu_hour=due * terms.gpu_hour, cpu_hour=due * terms.cpu_hour, memory_gib_hour=due * terms.memory_gib_hour,
        spot=terms.spot, interruptions_hour=terms.interruptions_hour if terms.spot else 0.0,
    )  # fmt: skip


def rooms_of(free: Sequence[_Free]) -> tuple[ReportedRoom, ...]:
    """Machines with the same room together; where there are too many different ones, those alike count as the least of
    them. What is full is left out."""
    groups: dict[_Free, int] = {}
    for room in free:
        if room[0] and room[1]:
            groups[room] = groups.get(room, 0) + 1
    ordered = sorted(((gpus, cpu, memory), count) for (cpu, memory, gpus), count in groups.items())
    each = -(-len(ordered) // ROOMS_MAX) if ordered else 1
    parts = [ordered[at : at + each] for at in range(0, len(ordered), each)]
    return tuple(
        ReportedRoom(
            machines=sum(count for _, count in part), gpus=min(room[0] for room, _ in part),
            cpu_milli=min(room[1] for room, _ in part), memory_mib=min(room[2] for room, _ in part),
        )
        for part in parts
    )  # fmt: skip


def _free(view: View, record: NodeRecord) -> _Free:
    info = record.info
    placed = [place for places in view.by_node.get(info.name, {}).values() for place in places]
    gpus = {gpu for place in placed for gpu in place.gpus}
    cpu_milli = info.cpu_milli - sum(place.cpu_milli for place in placed)
    memory_mib = info.memory_mib - sum(place.memory_mib for place in placed)
    return max(0, cpu_milli), max(0, memory_mib), max(0, len(info.gpus) - len(gpus))


def _drains(holdings: Iterable[Holding], kinds: Mapping[Kind, Sequence[NodeRecord]], view: View) -> dict[Kind, float]:
    """Whole machines of each kind that running jobs give back in an hour, by how long they run."""
    known = {record.info.name: kind for kind, nodes in kinds.items() for record in nodes}
    found: dict[Kind, float] = {}
    for holding in holdings:
        runs_s = holding.runs_s
        if runs_s is None:
            continue
        for place in holding.placements:
            if (kind := known.get(place.node)) is not None:
                found[kind] = found.get(kind, 0.0) + _share(place, kind) * _HOUR_S / max(runs_s, 1.0)
    return found


def _share(place: Placement, kind: Kind) -> float:
    cpu_milli, memory_mib, gpus, *_ = kind
    gpu_share = len(place.gpus) * place.gpu_milli / 1000 / gpus if gpus else 0.0
    return min(1.0, max(gpu_share, place.cpu_milli / max(1, cpu_milli), place.memory_mib / max(1, memory_mib)))


def _labels(records: Iterable[NodeRecord]) -> list[str]:
    """Those of single nodes last, where they are the first to be left out."""
    pairs, names = set[str](), set[str]()
    for record in records:
        info = record.info
        pairs.update(f"{key}={value}" for key, value in info.labels.items())
        pairs.add(f"{POOL_LABEL}={info.labels.get(POOL_LABEL, info.pool)}")
        names.add(f"{NODE_LABEL}={info.labels.get(NODE_LABEL, info.name)}")
    return [*sorted(pairs), *sorted(names)]
