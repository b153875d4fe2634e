"""The shadow profile: what is tried on the jobs that come without being in force."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import Meta

from ares.core.refusal import Refusal
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers.profiles import NoteBody, SettingName, SettingValue
from ares.edge.rest.http.operation import RequestCall
from ares.model.base import Note, Record
from ares.model.profile import Profile, ShadowObjective, ShadowPolicy


class ShadowBody(Record, frozen=True):
    """A whole profile, or settings on top of the one in force; `promotes` says when it comes into force by itself."""

    profile: Profile | None = None
    settings: Annotated[dict[SettingName, SettingValue], Meta(max_length=200)] = {}
    objective: ShadowObjective = "slowdown"
    promotes: ShadowPolicy = "by-hand"
    note: Note = ""


async def get_shadow(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.shadows.show())


async def put_shadow(call: RequestCall[NoQuery, ShadowBody]) -> ASGIApp:
    body = call.body
    if (body.profile is None) == (not body.settings):
        return answer(Refusal(code="profile-invalid", message="give either a profile or settings, and not both"))
    tried = body.settings if body.profile is None else body.profile
    shadows = call.edge.services.shadows
    return answer(await shadows.begin(call.who, tried, body.objective, body.promotes, body.note))


async def promote_shadow(call: RequestCall[NoQuery, NoteBody]) -> ASGIApp:
    return answer(await call.edge.services.shadows.promote(call.who, call.body.note))


async def delete_shadow(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.shadows.end(call.who))
