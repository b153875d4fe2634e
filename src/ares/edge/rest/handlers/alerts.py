"""Alerts and the channels they go to, over HTTP."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import Meta

from ares.api.alerts import ChannelView, SavedChannel, TestAnswer
from ares.control.governance.channels import ChannelWish
from ares.core.refusal import Refusal
from ares.edge.rest.answers import answer, empty
from ares.edge.rest.handlers.policies import PlatformQuery, slug_of
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import granted
from ares.model.access import Principal
from ares.model.alert import AlertKind, AlertRecord, AlertState, ChannelKind, Severity
from ares.model.base import Note, Record

_WRITE_ONLY = {"writeOnly": True}
Secret = Annotated[str, Meta(max_length=200, pattern=r"^[\x21-\x7e]*$(?!\n)", extra_json_schema=_WRITE_ONLY)]
MailAddress = Annotated[str, Meta(min_length=3, max_length=254)]


class AlertsQuery(Record, frozen=True):
    """`platform=true`: the platform's own. `all=true`: also those that are over."""

    platform: bool = False
    all: bool = False


class AlertList(Record, frozen=True):
    """The newest first."""

    alerts: tuple[AlertRecord, ...]


class AlertNote(Record, frozen=True):
    note: Note = ""


class ChannelBody(Record, frozen=True):
    """A channel without its name: a webhook has `url`, e-mail has `to`."""

    kind: ChannelKind
    url: Annotated[str, Meta(max_length=2000, extra_json_schema=_WRITE_ONLY)] = ""
    # Signs webhooks. Left out it is drawn anew, or stays what it is.
    secret: Secret = ""
    to: Annotated[tuple[MailAddress, ...], Meta(max_length=20)] = ()
    severity: Severity = "info"
    # All kinds when none is named.
    kinds: Annotated[tuple[AlertKind, ...], Meta(max_length=50)] = ()
    # Of a channel of the platform: also the tenants' alerts.
    all_tenants: bool = False
    enabled: bool = True

    def __repr__(self) -> str:
        return f"ChannelBody({self.kind})"

    def wish(self, name: str) -> ChannelWish:
        return ChannelWish(name=name, **{field: getattr(self, field) for field in ChannelBody.__struct_fields__})


class ChannelList(Record, frozen=True):
    channels: tuple[ChannelView, ...]


async def list_alerts(call: RequestCall[AlertsQuery, None]) -> ASGIApp:
    query = call.query
    found = await call.edge.services.alerts.listed(call.who, platform=query.platform, every=query.all)
    return answer(AlertList(alerts=granted(found, _not_yours(call.who))))


async def acknowledge_alert(call: RequestCall[PlatformQuery, AlertNote]) -> ASGIApp:
    return await _settle(call, "acknowledged")


async def resolve_alert(call: RequestCall[PlatformQuery, AlertNote]) -> ASGIApp:
    return await _settle(call, "resolved")


async def list_channels(call: RequestCall[PlatformQuery, None]) -> ASGIApp:
    found = await call.edge.services.channels.listed(call.who, platform=call.query.platform)
    return answer(ChannelList(channels=granted(found)))


async def put_channel(call: RequestCall[PlatformQuery, ChannelBody]) -> ASGIApp:
    wish = call.body.wish(slug_of(call.path["name"]))
    channel, secret = granted(await call.edge.services.channels.save(call.who, wish, platform=call.query.platform))
    return answer(SavedChannel(channel=channel, secret=secret))


async def delete_channel(call: RequestCall[PlatformQuery, None]) -> ASGIApp:
    return empty(await call.edge.services.channels.delete(call.who, call.path["name"], platform=call.query.platform))


async def test_channel(call: RequestCall[PlatformQuery, None]) -> ASGIApp:
    found = await call.edge.services.channels.test(call.who, call.path["name"], platform=call.query.platform)
    if isinstance(found, Refusal):
        return answer(found)
    return answer(TestAnswer(arrived=found is None, error=found or ""))


async def _settle(call: RequestCall[PlatformQuery, AlertNote], state: AlertState) -> ASGIApp:
    alerts = call.edge.services.alerts
    name, platform = call.path["name"], call.query.platform
    return answer(await alerts.settle(call.who, name, state, platform=platform, note=call.body.note))


def _not_yours(who: Principal) -> Refusal:
    message = f"the role {who.role!r} has nothing to do with the platform's alerts"
    return Refusal(code="forbidden", message=message, reason="role")
