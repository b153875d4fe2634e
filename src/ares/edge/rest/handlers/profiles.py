"""The profile scheduling goes by, its versions, and what can be named in it."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import Meta

from ares.control.scheduler.profiles import seen_by
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall
from ares.model.base import Note, Record
from ares.model.profile import Profile, ProfileRecord

Version = Annotated[int, Meta(ge=0, le=10**9)]
SettingName = Annotated[str, Meta(min_length=1, max_length=500)]
SettingValue = Annotated[str, Meta(max_length=4000)]


class ProfileBody(Record, frozen=True):
    """A whole profile. With `expectedVersion` only if that is in force now."""

    profile: Profile
    note: Note = ""
    expected_version: Version | None = None


class SettingsBody(Record, frozen=True):
    """Single settings on top of what is in force, by dotted names. An empty value takes one away."""

    settings: Annotated[dict[SettingName, SettingValue], Meta(min_length=1, max_length=200)]
    note: Note = ""
    expected_version: Version | None = None


class NoteBody(Record, frozen=True):
    """Why, for those who look at the versions."""

    note: Note = ""


class ProfileList(Record, frozen=True):
    """The newest first."""

    profiles: tuple[ProfileRecord, ...]


async def get_profile(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(seen_by(await call.edge.services.profiles.current(), call.who))


async def list_profiles(call: RequestCall[NoQuery, None]) -> ASGIApp:
    records = await call.edge.services.profiles.versions()
    return answer(ProfileList(profiles=tuple(seen_by(record, call.who) for record in records)))


async def put_profile(call: RequestCall[NoQuery, ProfileBody]) -> ASGIApp:
    body = call.body
    profiles = call.edge.services.profiles
    return answer(await profiles.put(call.who, body.profile, body.note, body.expected_version))


async def patch_profile(call: RequestCall[NoQuery, SettingsBody]) -> ASGIApp:
    body = call.body
    profiles = call.edge.services.profiles
    return answer(await profiles.change(call.who, body.settings, body.note, body.expected_version))


async def revert_profile(call: RequestCall[NoQuery, NoteBody]) -> ASGIApp:
    version = int(call.path["version"])
    return answer(await call.edge.services.profiles.revert(call.who, version, call.body.note))


async def list_plugins(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.plugins.list())
