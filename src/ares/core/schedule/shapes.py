"""When a job of some size would start if it were submitted now: for common sizes, or the one that is asked about."""

from collections.abc import Iterator, Sequence
from math import inf

from ares.core.predict.eta import Eta
from ares.core.queue.waiting import class_key
from ares.core.reserve.words import count, span
from ares.core.schedule.bookings import claim_of
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.columns import POOL_LABEL
from ares.core.schedule.eta import start_estimate
from ares.core.schedule.explain import infeasible
from ares.core.schedule.openings import earliest
from ares.core.schedule.round import Round
from ares.model.base import Record
from ares.model.job import Gang, JobSpec, Resources
from ares.model.node import NodeInfo
from ares.model.state import JobState

_SIZES = (1, 2, 4, 8)
_NODES_MAX = 8
# With each GPU of a common size.
_CPU_MILLI, _MEMORY_MIB = 1000, 1024
_SOON_S = 2.0


class Shape(Record, frozen=True):
    """A size of job. Resources are those of one rank; `words` name it."""

    words: str
    resources: Resources
    ranks: int = 1


class ShapeEta(Record, frozen=True):
    """Without `starts` it can never run there, and `never` says why."""

    shape: Shape
    starts: Eta | None = None
    never: str = ""


def common_shapes(nodes: Sequence[NodeInfo]) -> Iterator[Shape]:
    """Of nodes like these: some GPUs, one of them whole, and several."""
    whole = max(nodes, key=lambda one: (len(_gpus(one)), one.cpu_milli, one.memory_mib))
    most = len(_gpus(whole))
    for gpus in _SIZES:
        if gpus <= most:
            cpu, memory = min(gpus * _CPU_MILLI, whole.cpu_milli), min(gpus * _MEMORY_MIB, whole.memory_mib)
            yield Shape(words=count(gpus, "GPU"), resources=Resources(cpu_milli=cpu, memory_mib=memory, gpus=gpus))
    if not most:
        yield Shape(words="1 CPU", resources=Resources(cpu_milli=min(_CPU_MILLI, whole.cpu_milli)))
    each = Resources(cpu_milli=max(1, whole.cpu_milli), memory_mib=max(1, whole.memory_mib), gpus=most)
    yield Shape(words="1 whole node", resources=each)
    alike = sum((len(_gpus(one)), one.cpu_milli, one.memory_mib) >= (most, *_size(whole)) for one in nodes)
    if alike > 1:
        ranks = min(alike, _NODES_MAX)
        yield Shape(words=f"{ranks} whole nodes", resources=each, ranks=ranks)


def _gpus(info: NodeInfo) -> list[int]:
    return [gpu.index for gpu in info.gpus if not gpu.mig]


def _size(info: NodeInfo) -> tuple[int, int]:
    return info.cpu_milli, info.memory_mib


def shape_eta(cluster: Cluster, tenant: str, pool: str | None, shape: Shape, runs_s: float, now: float) -> ShapeEta:
    """By the estimates of those who run, around what is booked and promised, for a job that runs so long."""
    cluster.prepare()
    round_ = Round(cluster, cluster.profile, now)
    for promise in cluster.promises.values():
        claim = claim_of(cluster, promise)
        if claim is not None:
            round_.claims.add(claim)
    found = _eta(round_, tenant, pool, shape, runs_s)
    round_.close()
    return found


def _eta(round_: Round, tenant: str, pool: str | None, shape: Shape, runs_s: float) -> ShapeEta:
    cluster, now = round_.cluster, round_.now
    spec = JobSpec(
        command=("true",),
        resources=shape.resources,
        gang=None if shape.ranks == 1 else Gang(ranks=shape.ranks),
        selector={} if pool is None else {POOL_LABEL: pool},
    )
    key = class_key(JobState(id="", tenant=tenant, name=""), spec)
    never = infeasible(cluster, key, now)
    if never is not None:
        return ShapeEta(shape=shape, never=never.message)
    if round_.gate(key, key.asks[0]) is not None:
        return ShapeEta(shape=shape, starts=start_estimate(round_, key, key.asks[0], 0))
    opening = earliest(cluster, round_.txn, round_.claims, key.asks[0], now, runs_s)
    if opening is None or opening.start == inf:
        eta = start_estimate(round_, key, key.asks[0], 0)
        basis = eta.basis if eta.latest is None else "what is free is booked, or held for jobs that wait"
        return ShapeEta(shape=shape, starts=Eta(earliest=now, latest=None, basis=basis, computed_at=now))
    at = opening.start
    basis = "there is room now" if at <= now else "by the estimates of those who run and what is held for others"
    words = f"{basis}, for a job of {span(runs_s)}"
    latest = now + _SOON_S if at <= now else at
    return ShapeEta(shape=shape, starts=Eta(earliest=at, latest=latest, basis=words, computed_at=now))
