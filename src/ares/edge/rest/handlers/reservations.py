"""Advance reservations: booked, looked at, extended and given back."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import Meta

from ares.control.scheduler.reservations import ReservationRefused, ReservationView, ReservationWish
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import YEAR_S, NoQuery, ReasonQuery
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem
from ares.model.base import Name, Note, Record, Slug
from ares.model.reservation import Moment, RoomAsked


def _none() -> Problem:
    return Problem("not-found", detail="no reservation of yours has this name; `ares reservations` lists them")


class ReservationBody(Record, frozen=True):
    """Room to book. Without `start` from now on; without `name` one is drawn."""

    asked: RoomAsked
    length_s: Annotated[float, Meta(ge=1.0, le=YEAR_S)]
    # The administrator's own if not given.
    tenant: Slug | None = None
    start: Moment | None = None
    name: Slug | None = None
    # Whose jobs may use it: of the whole tenant where neither is given.
    teams: Annotated[tuple[Slug, ...], Meta(max_length=64)] = ()
    users: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()
    note: Note = ""
    # Given up when nobody has used it for so long; 0: never.
    unused_release_s: Annotated[float, Meta(ge=0.0, le=YEAR_S)] = 600.0


class ExtendBody(Record, frozen=True):
    """How much longer it is to last."""

    more_s: Annotated[float, Meta(ge=1.0, le=YEAR_S)]


class ReservationsQuery(Record, frozen=True):
    """`over=true` lists those that have ended as well."""

    over: bool = False


class ReservationList(Record, frozen=True):
    """By start. Those of other tenants have no name."""

    reservations: tuple[ReservationView, ...]


async def list_reservations(call: RequestCall[ReservationsQuery, None]) -> ASGIApp:
    found = await call.edge.services.reservations.list(call.who, over=call.query.over)
    return answer(ReservationList(reservations=found))


async def get_reservation(call: RequestCall[NoQuery, None]) -> ASGIApp:
    found = await call.edge.services.reservations.get(call.who, call.path["name"])
    if found is None:
        raise _none()
    return answer(found)


async def create_reservation(call: RequestCall[NoQuery, ReservationBody]) -> ASGIApp:
    body = call.body
    wish = ReservationWish(
        asked=body.asked,
        length_s=body.length_s,
        tenant=body.tenant or call.who.tenant,
        start=body.start,
        name=body.name or "",
        teams=body.teams,
        users=body.users,
        note=body.note,
        unused_release_s=body.unused_release_s,
    )
    return _answer(await call.edge.services.reservations.reserve(call.who, wish), status=201)


async def extend_reservation(call: RequestCall[NoQuery, ExtendBody]) -> ASGIApp:
    service = call.edge.services.reservations
    return _answer(await service.extend(call.who, call.path["name"], call.body.more_s))


async def cancel_reservation(call: RequestCall[ReasonQuery, None]) -> ASGIApp:
    service = call.edge.services.reservations
    return _answer(await service.cancel(call.who, call.path["name"], call.query.reason))


def _answer(outcome: ReservationView | ReservationRefused, status: int = 200) -> ASGIApp:
    if isinstance(outcome, ReservationView):
        return answer(outcome, status=status)
    if outcome.code == "not-found":
        raise _none()
    raise Problem(outcome.code, detail=outcome.message, fix=outcome.fix)
