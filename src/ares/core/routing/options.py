"""A cluster's report as one job meets it: what of its room the job could have, when, and at which price."""

from collections.abc import Callable, Mapping

from ares.core.forecast.estimate import runs_on
from ares.core.routing.facts import DataRoute, RouteAsk, RouteOption, ShapeRoom
from ares.core.routing.terms import fits
from ares.model.cluster import ClusterRecord
from ares.model.uplink import ClusterReport, ReportedShape

_MIB_PER_GIB = 1024
_HOUR_S = 3600.0
# A cluster that does not say when jobs would start there: for each job that waits before it, on each node.
_STEP_S = 60.0
_MANY = 1 << 40

# What tells one kind of machine from another, in every report of a cluster.
Kind = tuple[int, int, int, str, str, str]
# CPU (thousandths), memory (MiB) and GPUs that offers since the last report will take.
RoomSum = tuple[int, int, int]
NOTHING: RoomSum = (0, 0, 0)
Routes = Callable[[str], tuple[DataRoute, dict[str, DataRoute]]]


def kind_of(shape: ReportedShape) -> Kind:
    return shape.cpu_milli, shape.memory_mib, shape.gpus, shape.gpu_model, shape.pool, shape.arch


def option_of(
    record: ClusterRecord, report: ClusterReport | None, age_s: float | None, ask: RouteAsk,
    offered: Mapping[Kind, RoomSum], declined: str = "", route: DataRoute = DataRoute(),  # noqa: B008 - frozen
    routes: Mapping[str, DataRoute] | None = None,
) -> RouteOption:  # fmt: skip
    if report is None or age_s is None:
        return RouteOption(cluster=record.name, state=record.state, region=record.region, report_age_s=None)
    return RouteOption(
        cluster=record.name, state=record.state, region=record.region,
        shapes=tuple(_room(ask, report, shape, offered.get(kind_of(shape), NOTHING)) for shape in report.shapes),
        incarnation=report.incarnation, seq=report.seq, report_age_s=age_s, rtt_s=report.rtt_ms / 1000,
        declined=declined, labels=None if report.more_labels else frozenset(report.labels),
        datasets=frozenset(report.datasets), route=route, routes=dict(routes or {}),
    )  # fmt: skip


def chosen_kind(ask: RouteAsk, report: ClusterReport, words: str) -> Kind | None:
    """The kind of machine that a decision names by these words."""
    plain = (_plain(ask, shape) for shape in report.shapes)
    return next((kind_of(shape) for shape, room in zip(report.shapes, plain, strict=True) if room.words == words), None)


def taken(ask: RouteAsk) -> RoomSum:
    """All ranks together."""
    return ask.cpu_milli * ask.ranks, ask.memory_mib * ask.ranks, ask.gpus * ask.ranks


def _room(ask: RouteAsk, report: ClusterReport, shape: ReportedShape, offered: RoomSum) -> ShapeRoom:
    plain = _plain(ask, shape)
    if not fits(ask, plain):
        return plain
    sums = (shape.free_cpu_milli, shape.free_memory_mib, shape.free_gpus)
    by_sums = _ranks(ask, sums)
    left = _ranks(ask, (sums[0] - offered[0], sums[1] - offered[1], sums[2] - offered[2]))
    each = _on_one(ask, (shape.cpu_milli, shape.memory_mib, shape.gpus))
    free = by_sums
    if shape.rooms:
        free = sum(room.machines * _on_one(ask, (room.cpu_milli, room.memory_mib, room.gpus)) for room in shape.rooms)
    return ShapeRoom(
        cpu_milli=shape.cpu_milli, memory_mib=shape.memory_mib, gpus=shape.gpus, gpu_model=shape.gpu_model,
        gpu_memory_mib=shape.gpu_memory_mib, arch=shape.arch, pool=shape.pool,
        free=free, offered=max(0, by_sums - left), holds=each * shape.nodes, eta80_s=_eta(ask, report, shape),
        queued=bool(shape.etas),
        drain_per_s=shape.drain_hour * each / _HOUR_S, price_per_hour=_price(ask, shape), boot_s=shape.boot_s,
        spot=shape.spot, interruptions_per_hour=shape.interruptions_hour, speed=_speed(ask, shape.gpu_model),
    )  # fmt: skip


def _plain(ask: RouteAsk, shape: ReportedShape) -> ShapeRoom:
    """Without what takes a look at its room."""
    return ShapeRoom(
        cpu_milli=shape.cpu_milli, memory_mib=shape.memory_mib, gpus=shape.gpus, gpu_model=shape.gpu_model,
        gpu_memory_mib=shape.gpu_memory_mib, arch=shape.arch, pool=shape.pool, spot=shape.spot,
    )  # fmt: skip


def _ranks(ask: RouteAsk, room: tuple[int, int, int]) -> int:
    """How many ranks fit so much room, as one heap; below 0 when more was offered than there is."""
    wants = (ask.cpu_milli, ask.memory_mib, ask.gpus)
    return min(there // want for there, want in zip(room, wants, strict=True) if want)


def _on_one(ask: RouteAsk, room: tuple[int, int, int]) -> int:
    return min(_ranks(ask, room), ask.per_node or _MANY)


def _eta(ask: RouteAsk, report: ClusterReport, shape: ReportedShape) -> float:
    """Of the sizes that the cluster speaks of and that are no smaller, the soonest; of none, the latest of all."""
    if not shape.etas:
        return _STEP_S * (1 + report.pending / max(1, report.ready_nodes))
    longest = max(eta.run_s for eta in shape.etas)
    larger = [
        eta.eta80_s
        for eta in shape.etas
        if eta.cpu_milli >= ask.cpu_milli and eta.memory_mib >= ask.memory_mib and eta.gpus >= ask.gpus
        and eta.ranks >= ask.ranks and eta.run_s >= min(ask.run_s, longest)
    ]  # fmt: skip
    return min(larger) if larger else max(eta.eta80_s for eta in shape.etas)


def _price(ask: RouteAsk, shape: ReportedShape) -> float:
    memory = ask.memory_mib / _MIB_PER_GIB * shape.memory_gib_hour
    return ask.gpus * shape.gpu_hour + ask.cpu_milli / 1000 * shape.cpu_hour + memory


def _speed(ask: RouteAsk, model: str) -> float:
    if not ask.runs or not ask.run_s:
        return 1.0
    return ask.run_s / max(runs_on(ask.runs, model), 1e-3)
