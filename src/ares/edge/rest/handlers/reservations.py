"""Advance reservations: booked, looked at, extended and given back."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import Meta

from ares.api.jobs import YEAR_S
from ares.api.reservations import ReservationView
from ares.control.scheduler.reservations import ReservationWish
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery, ReasonQuery
from ares.edge.rest.http.operation import RequestCall
from ares.model.base import Name, Note, Record, Slug
from ares.model.reservation import Moment, RoomAsked


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
    # Released when no job has used it for so long; 0: never.
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
    return answer(await call.edge.services.reservations.get(call.who, call.path["name"]))


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
    return answer(await call.edge.services.reservations.reserve(call.who, wish), status=201)


async def extend_reservation(call: RequestCall[NoQuery, ExtendBody]) -> ASGIApp:
    service = call.edge.services.reservations
    return answer(await service.extend(call.who, call.path["name"], call.body.more_s))


async def cancel_reservation(call: RequestCall[ReasonQuery, None]) -> ASGIApp:
    service = call.edge.services.reservations
    return answer(await service.cancel(call.who, call.path["name"], call.query.reason))
