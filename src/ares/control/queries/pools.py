"""Pools of nodes: their resources, present and future holders, and when a job of some size would start there."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from ares.api.nodes import NodeView
from ares.api.pools import PoolBooking, PoolPromise, PoolView, Shape, ShapeEta
from ares.control.queries.nodes import Nodes
from ares.control.scheduler.cluster_view import LiveCluster, unsubmitted
from ares.control.state.pacing import WORKED_ON, breathe, stepped
from ares.control.state.view import View
from ares.core.access.table import sees_all
from ares.core.capacity.power import draw_of_pools
from ares.core.schedule.cluster import Cluster
from ares.core.starts.shapes import common_shapes, shape_etas
from ares.model.access import Principal
from ares.model.profile import Pool
from ares.model.reservation import BOOKED, Reservation
from ares.model.state import Placement
from ares.ports.clock import Clock

# How long a job of unknown kind is taken to run.
RUNS_S = 3600.0
# Kinds of waiting jobs that are looked at, and promises that are told.
_CLASSES_MAX = 512
_PROMISES_MAX = 20
_PLAIN = Pool()


class Pools:
    """Derived from the view and the planner's picture at the moment of the call."""

    def __init__(self, view: View, nodes: Nodes, planner: LiveCluster, clock: Clock) -> None:
        self._view = view
        self._nodes = nodes
        self._planner = planner
        self._clock = clock

    async def list(
        self, who: Principal, asked: Shape | None = None, runs_s: float = RUNS_S, name: str | None = None
    ) -> tuple[PoolView, ...]:
        """With `asked` only that size is answered; with `name` only that pool, if it is there."""
        nodes = await self._nodes.nodes(who)
        self._planner.refresh_ready()
        names = sorted({node.info.pool for node in nodes} & ({name} if name else {node.info.pool for node in nodes}))
        found: list[PoolView] = []
        for pool in names:
            here = [node for node in nodes if node.info.pool == pool]
            now = self._clock.wall()
            shapes = (asked,) if asked is not None else tuple(common_shapes([node.info for node in here]))
            steps = shape_etas.steps(self._planner.cluster, unsubmitted(who, now), pool, shapes, runs_s, now)
            etas = await stepped(steps)
            found.append(await self._pool(who, pool, here, tuple(etas)))
            # With thousands of nodes each pool takes its time: others get their turn on the loop.
            await breathe()
        return tuple(found)

    async def _pool(self, who: Principal, name: str, nodes: "list[NodeView]", shapes: tuple[ShapeEta, ...]) -> PoolView:
        cluster = self._planner.cluster
        gpus = [gpu for node in nodes for gpu in node.info.gpus]
        models = dict(Counter(gpu.model for gpu in gpus))
        here = {node.name for node in nodes}
        held = [place for node in here for places in self._view.by_node.get(node, {}).values() for place in places]
        kept = [place for hold in cluster.reserved.values() for place in hold.placements]
        bookings, pending = self._bookings(who, here), await _pending(cluster, here)
        return PoolView(
            name=name,
            nodes=len(nodes),
            ready_nodes=sum(node.ready for node in nodes),
            cordoned_nodes=sum(node.cordoned and not node.drained_by for node in nodes),
            drained_nodes=sum(bool(node.drained_by) for node in nodes),
            cpu_milli=sum(node.info.cpu_milli for node in nodes),
            cpu_milli_free=sum(node.cpu_milli_free for node in nodes),
            memory_mib=sum(node.info.memory_mib for node in nodes),
            memory_mib_free=sum(node.memory_mib_free for node in nodes),
            gpus=len(gpus),
            gpus_free=sum(node.gpus_free for node in nodes),
            gpus_held=_gpus(held, here),
            gpus_kept=_gpus(kept, here),
            gpus_reserved=sum(booking.gpus for booking in bookings if booking.state == "active"),
            gpu_models=models,
            mock_gpus=sum(gpu.vendor == "mock" for gpu in gpus),
            running_jobs=len({job for node in here for job in self._view.by_node.get(node, ())}),
            pending_jobs=pending,
            reservations=bookings,
            promises=self._promises(who, here),
            terms=cluster.profile.pools.get(name, _PLAIN),
            power_watts=draw_of_pools(cluster.table).get(name, 0.0),
            shapes=shapes,
        )

    def _bookings(self, who: Principal, here: set[str]) -> tuple[PoolBooking, ...]:
        records = [reservation for reservation, _ in self._view.reservations.values() if reservation.state in BOOKED]
        return tuple(
            _booking(reservation, who, [place for place in reservation.placements if place.node in here])
            for reservation in sorted(records, key=lambda reservation: (reservation.start, reservation.name))
            if any(place.node in here for place in reservation.placements)
        )

    def _promises(self, who: Principal, here: set[str]) -> tuple[PoolPromise, ...]:
        found: list[PoolPromise] = []
        for promise in sorted(
            self._planner.cluster.promises.values(), key=lambda promise: (promise.start, promise.job)
        ):
            places = [place for place in promise.placements if place.node in here]
            entry = self._view.entries.get(promise.job)
            if not places or entry is None:
                continue
            mine = sees_all(who) or entry.state.tenant == who.tenant
            gpus = sum(len(place.gpus) * place.gpu_milli for place in places) / 1000
            nodes = len({place.node for place in places})
            job = promise.job if mine else ""
            found.append(PoolPromise(job=job, start=promise.start, until=promise.until, gpus=gpus, nodes=nodes))
        return tuple(found[:_PROMISES_MAX])


def _booking(reservation: Reservation, who: Principal, places: "list[Placement]") -> PoolBooking:
    mine = sees_all(who) or reservation.tenant == who.tenant
    return PoolBooking(
        name=reservation.name if mine else "",
        state=reservation.state,
        start=reservation.start,
        until=reservation.until,
        gpus=sum(len(place.gpus) for place in places),
        cpu_milli=sum(place.cpu_milli for place in places),
    )


def _gpus(places: Iterable[Placement], here: set[str]) -> int:
    """Each counts once, however many share it."""
    return len({(place.node, gpu) for place in places if place.node in here for gpu in place.gpus})


async def _pending(cluster: Cluster, here: set[str]) -> int:
    """Waiting jobs that some node of the pool could take if nothing ran on it."""
    rows = sorted(cluster.rows[name] for name in here if name in cluster.rows)
    found = 0
    for number, job_class in enumerate(tuple(islice(cluster.waiting.active.values(), _CLASSES_MAX)), start=1):
        if rows and any(cluster.evaluations.possible(ask)[rows].any() for ask in job_class.key.asks):
            found += len(job_class.line)
        if number % WORKED_ON == 0:
            await breathe()
    return found
