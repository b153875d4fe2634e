"""Requests about quotas, as values like those in `calls`, and what they are answered."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from ares.api.quotas import QuotaView, TransfersView
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.edge.client.errors import InvalidQuota, InvalidSpec
from ares.edge.client.sending import AsyncSends, Sends
from ares.edge.client.units import cpu_milli, memory_mib
from ares.model.job import PRIORITIES
from ares.model.quota import OverBudget

_GIB = frozenset({"memory", "storage", "egress"})
_SOFT = "soft."


def quota_of(tenant: str | None = None) -> Call[QuotaView]:
    return Call(Request("GET", "/v1/quota" if tenant is None else _path(tenant)), QuotaView)


def quotas() -> Call[tuple[QuotaView, ...]]:
    return Call(Request("GET", "/v1/quotas"), tuple[QuotaView, ...], "quotas")


def transfers() -> Call[TransfersView]:
    """Bulk bytes on their way now."""
    return Call(Request("GET", "/v1/transfers"), TransfersView)


def set_quota(tenant: str, settings: Mapping[str, str | float], level: str, name: str, note: str) -> Call[QuotaView]:
    body = {**_change(settings), "level": level, "note": note, **({"name": name} if name else {})}
    return Call(Request("PATCH", _path(tenant), (), msgspec.json.encode(body), JSON), QuotaView)


def unset_quota(tenant: str, names: Sequence[str], level: str, name: str) -> Call[QuotaView]:
    """Single limits, or all of them when none is named."""
    if not names and level == "tenant":
        return Call(Request("DELETE", _path(tenant)), QuotaView)
    body: dict[str, Any] = {
        "level": level,
        "amounts": dict.fromkeys(measure for measure in names if measure != "priority"),
    }
    if "priority" in names:
        body["priority"] = None
    body |= {"name": name} if name else {}
    return Call(Request("PATCH", _path(tenant), (), msgspec.json.encode(body), JSON), QuotaView)


def _change(settings: Mapping[str, str | float]) -> dict[str, Any]:
    """`gpus=8`, `soft.gpus=6`, `memory=512G`, `priority=HIGH`, `threshold=1`, `over-budget=stop`, `lend=0.2`."""
    amounts: dict[str, dict[str, float]] = {}
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if key == "priority":
            found["priority"] = _priority(str(value))
        elif key in ("threshold", "lend"):
            found[key] = _number(key, value)
        elif key == "over-budget":
            found["overBudget"] = _over_budget(str(value))
        else:
            measure, kind = key.removeprefix(_SOFT), "soft" if key.startswith(_SOFT) else "hard"
            amounts.setdefault(measure, {})[kind] = _amount(measure, value)
    return {**found, "amounts": amounts} if amounts else found


def _priority(value: str) -> str:
    if value.upper() not in PRIORITIES:
        raise InvalidQuota(f"there is no priority {value!r}", fix=f"choose one of {', '.join(PRIORITIES)}")
    return value.upper()


def _over_budget(value: str) -> str:
    if value not in get_args(OverBudget):
        raise InvalidQuota(f"over-budget cannot be {value!r}", fix=f"choose one of {', '.join(get_args(OverBudget))}")
    return value


def _amount(measure: str, value: str | float) -> float:
    try:
        if measure in _GIB and isinstance(value, str):
            return memory_mib(value) / 1024
        if measure == "cpu" and isinstance(value, str):
            return cpu_milli(value) / 1000
    except InvalidSpec as error:
        raise InvalidQuota(error.detail, fix=error.fix) from error
    return _number(measure, value)


def _number(key: str, value: str | float) -> float:
    try:
        return float(value)
    except ValueError:
        raise InvalidQuota(f"{key}={value!s} is not a number", fix=f"write it like {key}=8") from None


def _path(tenant: str) -> str:
    return f"/v1/tenants/{part(tenant)}/quota"


class AsyncQuotaMethods(AsyncSends):
    """Quotas, of the asynchronous client."""

    async def quota(self, tenant: str | None = None) -> QuotaView:
        """A tenant's limits and what is used of them; without a name, of one's own tenant."""
        return await self.send(quota_of(tenant))

    async def quotas(self) -> tuple[QuotaView, ...]:
        """Of all tenants that have limits."""
        return await self.send(quotas())

    async def transfers(self) -> TransfersView:
        """Bulk bytes on their way now: who moves what, on which node."""
        return await self.send(transfers())

    async def set_quota(
        self, tenant: str, settings: Mapping[str, str | float], *, team: str = "", user: str = "", note: str = ""
    ) -> QuotaView:
        """Single limits on top of those there are: `{"gpus": 8, "soft.gpus": 6, "memory": "512G"}`."""
        level, name = level_of(team, user)
        return await self.send(set_quota(tenant, settings, level, name, note))

    async def unset_quota(self, tenant: str, names: Sequence[str] = (), *, team: str = "", user: str = "") -> QuotaView:
        """Takes single limits away, or all of the tenant's."""
        level, name = level_of(team, user)
        return await self.send(unset_quota(tenant, names, level, name))


class QuotaMethods(Sends):
    """Quotas, of the blocking client, generated."""

    def quota(self, tenant: str | None = None) -> QuotaView:
        """A tenant's limits and what is used of them; without a name, of one's own tenant."""
        return self.send(quota_of(tenant))

    def quotas(self) -> tuple[QuotaView, ...]:
        """Of all tenants that have limits."""
        return self.send(quotas())

    def transfers(self) -> TransfersView:
        """Bulk bytes on their way now: who moves what, on which node."""
        return self.send(transfers())

    def set_quota(
        self, tenant: str, settings: Mapping[str, str | float], *, team: str = "", user: str = "", note: str = ""
    ) -> QuotaView:
        """Single limits on top of those there are: `{"gpus": 8, "soft.gpus": 6, "memory": "512G"}`."""
        level, name = level_of(team, user)
        return self.send(set_quota(tenant, settings, level, name, note))

    def unset_quota(self, tenant: str, names: Sequence[str] = (), *, team: str = "", user: str = "") -> QuotaView:
        """Takes single limits away, or all of the tenant's."""
        level, name = level_of(team, user)
        return self.send(unset_quota(tenant, names, level, name))


# Every team or user that has no limits of its own.
EVERY = "*"


def level_of(team: str, user: str) -> tuple[str, str]:
    """`*` names the limits of every team or user that has none of its own."""
    if team and user:
        raise InvalidQuota("a limit is of a team or of a user, not of both", fix="set it for one of the two")
    level, name = ("team", team) if team else ("user", user) if user else ("tenant", "")
    return level, "" if name == EVERY else name
