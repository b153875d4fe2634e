"""Which jobs may run in a reservation, and what becomes of it as time passes."""

from typing import NamedTuple

from msgspec.structs import replace

from ares.core.forecast.estimate import stated
from ares.core.lifecycle.ranks import why_not_preemptible
from ares.core.refusal import Refusal
from ares.core.text import clock, span
from ares.model.job import JobSpec
from ares.model.reservation import BOOKED, Reservation, ReservationState, Turn

# Changes kept in the history of one reservation.
_HISTORY_MAX = 50


class Submitter(NamedTuple):
    """The job's owner: the tenant, and its user or, for a token without a user, the token's id. The name of a token
    proves nothing: it may be that of a user."""

    tenant: str
    subject: str


def refusal(one: Reservation | None, spec: JobSpec, who: Submitter, now: float) -> Refusal | None:
    """Why the job may not use the reservation it names. `one` is the record of that name."""
    if one is None or one.tenant != who.tenant:
        message = f"there is no reservation {spec.reservation!r} of tenant {who.tenant}"
        return Refusal(code="reservation-unknown", message=message, fix="`ares reservations` lists them")
    if one.state not in BOOKED or one.until <= now:
        state = "over" if one.state in BOOKED else one.state
        message = f"reservation {one.name} is {state} since {clock(_over_at(one), now)}"
        return Refusal(code="reservation-over", message=message, fix="leave it out, or book another")
    open_to_all = not one.teams and not one.users
    if not (open_to_all or spec.team in one.teams or who.subject in one.users):
        names = ", ".join((*(f"team {team}" for team in one.teams), *one.users))
        message = f"reservation {one.name} is for {names}"
        return Refusal(code="reservation-not-yours", message=message, fix="ask those who booked it, or leave it out")
    return _too_long(one, spec, now) or _too_large(one, spec)


def _too_long(one: Reservation, spec: JobSpec, now: float) -> Refusal | None:
    runs, left_s = stated(spec), one.until - max(one.start, now)
    stays = why_not_preemptible(spec)
    if stays and spec.time_limit_s is None:
        message = f"{stays}, and it has no time limit: nothing would end it when reservation {one.name} does"
        fix = f"give it a time limit of at most {span(left_s)}, or let it be preempted"
        return Refusal(code="reservation-too-short", message=message, fix=fix)
    if runs is None or runs.seconds <= left_s:
        return None
    message = f"it runs {span(runs.seconds)} by {runs.basis}, and reservation {one.name} has {span(left_s)}"
    more_min = -int(-(runs.seconds - left_s) // 60)
    fix = f"choose a shorter run time, or extend it: `ares reservation extend {one.name} --for {more_min}m`"
    return Refusal(code="reservation-too-short", message=message, fix=fix)


def _too_large(one: Reservation, spec: JobSpec) -> Refusal | None:
    ranks = 1 if spec.gang is None else spec.gang.min_ranks or spec.gang.ranks
    wants = min((spec.resources, *spec.alternatives), key=lambda wants: (wants.gpus, wants.cpu_milli, wants.memory_mib))
    pairs = (
        ("GPUs", ranks * wants.gpus * wants.gpu_milli / 1000, one.gpus),
        ("CPUs", ranks * wants.cpu_milli / 1000, one.cpu_milli / 1000),
        ("MiB of memory", ranks * wants.memory_mib, one.memory_mib),
    )
    for what, asked, booked in pairs:
        if asked > booked:
            message = f"it asks for {asked:g} {what}, and reservation {one.name} has {booked:g}"
            return Refusal(code="reservation-too-small", message=message, fix=f"ask for {booked:g} {what} or less")
    return None


def _over_at(one: Reservation) -> float:
    return one.history[-1].at if one.history and one.state not in BOOKED else one.until


def due(one: Reservation, now: float, *, in_use: bool) -> Turn | None:
    """What the reservation should become now. Jobs that wait for it use it as well."""
    if one.state not in BOOKED:
        return None
    if now >= one.until:
        return Turn(at=now, state="ended", why="its window is over")
    if one.state == "planned":
        return Turn(at=now, state="active", why="its window begins") if now >= one.start else None
    unused_s = now - max(one.start, one.used_at or one.start)
    if in_use or not one.unused_release_s or unused_s < one.unused_release_s:
        return None
    return Turn(at=now, state="released", why=f"nobody has used it for {span(unused_s)}")


def turned(one: Reservation, turn: Turn) -> Reservation:
    return replace(one, state=turn.state, history=(*one.history, turn)[-_HISTORY_MAX:])


def cancelled(one: Reservation, by: str, why: str, now: float) -> Reservation:
    state: ReservationState = "cancelled"
    return turned(one, Turn(at=now, state=state, by=by, why=why))
