"""Requests about alerts and channels, as values like those in `calls`, and what they are answered."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ares.api.alerts import ChannelView, SavedChannel, TestAnswer
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.alert import AlertRecord


def alerts(*, platform: bool = False, every: bool = False) -> Call[tuple[AlertRecord, ...]]:
    params = (*_whose(platform), *((("all", "true"),) if every else ()))
    return Call(Request("GET", "/v1/alerts", params), tuple[AlertRecord, ...], "alerts")


def acknowledge_alert(alert: str, *, platform: bool = False, note: str = "") -> Call[AlertRecord]:
    return _send("POST", f"/v1/alerts/{part(alert)}/acknowledge", AlertRecord, {"note": note}, platform)


def resolve_alert(alert: str, *, platform: bool = False, note: str = "") -> Call[AlertRecord]:
    return _send("POST", f"/v1/alerts/{part(alert)}/resolve", AlertRecord, {"note": note}, platform)


def channels(*, platform: bool = False) -> Call[tuple[ChannelView, ...]]:
    return Call(Request("GET", "/v1/channels", _whose(platform)), tuple[ChannelView, ...], "channels")


def put_channel(name: str, body: Mapping[str, Any], *, platform: bool = False) -> Call[SavedChannel]:
    return _send("PUT", f"/v1/channels/{part(name)}", SavedChannel, body, platform)


def delete_channel(name: str, *, platform: bool = False) -> Call[None]:
    return Call(Request("DELETE", f"/v1/channels/{part(name)}", _whose(platform), repeatable=False), None)


def test_channel(name: str, *, platform: bool = False) -> Call[TestAnswer]:
    path = f"/v1/channels/{part(name)}/test"
    return Call(Request("POST", path, _whose(platform), repeatable=False), TestAnswer)


def _send(method: str, path: str, kind: Any, body: Mapping[str, Any], platform: bool) -> Call[Any]:
    return Call(Request(method, path, _whose(platform), msgspec.json.encode(body), JSON), kind)


def _whose(platform: bool) -> tuple[tuple[str, str], ...]:
    return (("platform", "true"),) if platform else ()


class AsyncAlertMethods(AsyncSends):
    """Alerts, of the asynchronous client. `platform`: alerts of the platform, for operators."""

    async def alerts(self, *, platform: bool = False, every: bool = False) -> tuple[AlertRecord, ...]:
        """Alerts, the newest first; with `every` also those that are over."""
        return await self.send(alerts(platform=platform, every=every))

    async def acknowledge_alert(self, alert: str, *, platform: bool = False, note: str = "") -> AlertRecord:
        """Acknowledges an alert: a person takes care of it."""
        return await self.send(acknowledge_alert(alert, platform=platform, note=note))

    async def resolve_alert(self, alert: str, *, platform: bool = False, note: str = "") -> AlertRecord:
        """Says that it is over."""
        return await self.send(resolve_alert(alert, platform=platform, note=note))

    async def channels(self, *, platform: bool = False) -> tuple[ChannelView, ...]:
        """Where alerts are sent."""
        return await self.send(channels(platform=platform))


class AlertMethods(Sends):
    """Alerts, of the blocking client, generated. `platform`: alerts of the platform, for operators."""

    def alerts(self, *, platform: bool = False, every: bool = False) -> tuple[AlertRecord, ...]:
        """Alerts, the newest first; with `every` also those that are over."""
        return self.send(alerts(platform=platform, every=every))

    def acknowledge_alert(self, alert: str, *, platform: bool = False, note: str = "") -> AlertRecord:
        """Acknowledges an alert: a person takes care of it."""
        return self.send(acknowledge_alert(alert, platform=platform, note=note))

    def resolve_alert(self, alert: str, *, platform: bool = False, note: str = "") -> AlertRecord:
        """Says that it is over."""
        return self.send(resolve_alert(alert, platform=platform, note=note))

    def channels(self, *, platform: bool = False) -> tuple[ChannelView, ...]:
        """Where alerts are sent."""
        return self.send(channels(platform=platform))
