"""Which jobs may run in a reservation, which have to leave it, and what becomes of it as time passes."""

from collections.abc import Collection
from typing import NamedTuple

from msgspec.structs import replace

from ares.core.capacity.holding import Holding
from ares.core.forecast.estimate import stated
from ares.core.lifecycle.ranks import why_not_preemptible
from ares.core.refusal import Refusal
from ares.core.reserve.room import mask
from ares.core.schedule.cluster import Cluster
from ares.core.text import clock, span
from ares.model.job import JobSpec
from ares.model.reservation import BOOKED, Reservation, ReservationState, Turn
from ares.model.state import Placement

# Changes kept in the history of one reservation.
_HISTORY_MAX = 50


class Submitter(NamedTuple):
    """The job's owner: the tenant, and its user or, for a token without a user, the token's id. The name of a token
    proves nothing: it may be that of a user."""

    tenant: str
    subject: str


def refusal(reservation: Reservation | None, spec: JobSpec, who: Submitter, now: float) -> Refusal | None:
    """Why the job may not use the reservation it names. `reservation` is the record of that name."""
    if reservation is None or reservation.tenant != who.tenant:
        message = f"there is no reservation {spec.reservation!r} of tenant {who.tenant}"
        return Refusal(code="reservation-unknown", message=message, fix="`ares reservations` lists them")
    if reservation.state not in BOOKED or reservation.until <= now:
        state = "over" if reservation.state in BOOKED else reservation.state
        message = f"reservation {reservation.name} is {state} since {clock(_over_at(reservation), now)}"
        return Refusal(code="reservation-over", message=message, fix="leave it out, or book another")
    open_to_all = not reservation.teams and not reservation.users
    if not (open_to_all or spec.team in reservation.teams or who.subject in reservation.users):
        names = ", ".join((*(f"team {team}" for team in reservation.teams), *reservation.users))
        message = f"reservation {reservation.name} is for {names}"
        return Refusal(code="reservation-not-yours", message=message, fix="ask those who booked it, or leave it out")
    return _too_long(reservation, spec, now) or _too_large(reservation, spec)


def _too_long(reservation: Reservation, spec: JobSpec, now: float) -> Refusal | None:
    runs, left_s = stated(spec), reservation.until - max(reservation.start, now)
    stays = why_not_preemptible(spec)
    if stays and spec.time_limit_s is None:
        message = f"{stays}, and it has no time limit: nothing would end it when reservation {reservation.name} does"
        fix = f"give it a time limit of at most {span(left_s)}, or let it be preempted"
        return Refusal(code="reservation-too-short", message=message, fix=fix)
    if runs is None or runs.seconds <= left_s:
        return None
    message = f"it runs {span(runs.seconds)} by {runs.basis}, and reservation {reservation.name} has {span(left_s)}"
    more_min = -int(-(runs.seconds - left_s) // 60)
    fix = f"choose a shorter run time, or extend it: `ares reservation extend {reservation.name} --for {more_min}m`"
    return Refusal(code="reservation-too-short", message=message, fix=fix)


def _too_large(reservation: Reservation, spec: JobSpec) -> Refusal | None:
    ranks = 1 if spec.gang is None else spec.gang.min_ranks or spec.gang.ranks
    wants = min((spec.resources, *spec.alternatives), key=lambda wants: (wants.gpus, wants.cpu_milli, wants.memory_mib))
    pairs = (
        ("GPUs", ranks * wants.gpus * wants.gpu_milli / 1000, reservation.gpus),
        ("CPUs", ranks * wants.cpu_milli / 1000, reservation.cpu_milli / 1000),
        ("MiB of memory", ranks * wants.memory_mib, reservation.memory_mib),
    )
    for what, asked, booked in pairs:
        if asked > booked:
            message = f"it asks for {asked:g} {what}, and reservation {reservation.name} has {booked:g}"
            return Refusal(code="reservation-too-small", message=message, fix=f"ask for {booked:g} {what} or less")
    return None


def _over_at(reservation: Reservation) -> float:
    return reservation.history[-1].at if reservation.history and reservation.state not in BOOKED else reservation.until


def due(reservation: Reservation, now: float, *, in_use: bool) -> Turn | None:
    """What the reservation should become now. Jobs that wait for it use it as well."""
    if reservation.state not in BOOKED:
        return None
    if now >= reservation.until:
        return Turn(at=now, state="ended", why="its window is over")
    if reservation.state == "planned":
        return Turn(at=now, state="active", why="its window begins") if now >= reservation.start else None
    unused_s = now - max(reservation.start, reservation.used_at or reservation.start)
    if in_use or not reservation.unused_release_s or unused_s < reservation.unused_release_s:
        return None
    return Turn(at=now, state="released", why=f"nobody has used it for {span(unused_s)}")


def turned(reservation: Reservation, turn: Turn) -> Reservation:
    return replace(reservation, state=turn.state, history=(*reservation.history, turn)[-_HISTORY_MAX:])


def cancelled(reservation: Reservation, by: str, why: str, now: float) -> Reservation:
    state: ReservationState = "cancelled"
    return turned(reservation, Turn(at=now, state=state, by=by, why=why))


# ---- jobs that have to leave


def strangers(cluster: Cluster, reservation: Reservation, booked: Collection[str]) -> tuple[str, ...]:
    """Jobs that hold room of the reservation and belong to none in `booked`, in the order of their ids."""
    found = {job for place in reservation.placements for job in _on(cluster, reservation, place, booked)}
    return tuple(sorted(found))


def _on(cluster: Cluster, reservation: Reservation, place: Placement, booked: Collection[str]) -> list[str]:
    """On one node: jobs on the booked GPUs, then the latest to come as long as CPUs or memory do not suffice."""
    row = cluster.rows.get(place.node)
    if row is None:
        return []
    others = [cluster.holdings[job] for job in cluster.on_node.get(place.node, ())]
    others = [other for other in others if other.reservation is None or other.reservation not in booked]
    cpu, memory = cluster.table.cpu.item(row), cluster.table.memory.item(row)
    gone: list[str] = []
    left: list[Holding] = []
    for other in others:
        on_gpus = any(p.node == place.node and mask(p) & mask(place) for p in other.placements)
        (gone.append(other.job) if on_gpus else left.append(other))
    left.sort(key=lambda other: (other.since, other.job))
    while left and (
        cpu - sum(_held(other, place.node)[0] for other in left) < place.cpu_milli
        or memory - sum(_held(other, place.node)[1] for other in left) < place.memory_mib
    ):
        gone.append(left.pop().job)
    return gone


def _held(holding: Holding, node: str) -> tuple[int, int]:
    places = [place for place in holding.placements if place.node == node]
    return sum(place.cpu_milli for place in places), sum(place.memory_mib for place in places)


def outgoing(cluster: Cluster, reservation: Reservation, now: float) -> tuple[str, ...]:
    """Jobs of the reservation that must be told to leave now, so that they are gone when its window ends."""
    return tuple(
        sorted(
            holding.job
            for holding in cluster.holdings.values()
            if holding.reservation == reservation.name
            and holding.tenant == reservation.tenant
            and not holding.leaving
            and now >= reservation.until - holding.leave_s
        )
    )
