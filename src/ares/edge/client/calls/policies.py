"""Requests about policies, as values like those in `calls`, and what they are answered."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import msgspec

from ares.api.policies import CheckAnswer, Tried
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.policy import PolicyRecord


class PolicyFields(TypedDict, total=False):
    """Keyword arguments that describe a policy."""

    when: str
    action: str
    message: str
    set: Mapping[str, str]
    enabled: bool


def policies() -> Call[tuple[PolicyRecord, ...]]:
    return Call(Request("GET", "/v1/policies"), tuple[PolicyRecord, ...], "policies")


def policy(name: str, *, platform: bool = False) -> Call[PolicyRecord]:
    return Call(Request("GET", _path(name), _whose(platform)), PolicyRecord)


def policy_versions(name: str, *, platform: bool = False) -> Call[tuple[PolicyRecord, ...]]:
    return Call(Request("GET", f"{_path(name)}/versions", _whose(platform)), tuple[PolicyRecord, ...], "policies")


def put_policy(
    name: str, rule: Mapping[str, Any], *, platform: bool = False, note: str = "", expected_version: int | None = None
) -> Call[PolicyRecord]:
    body = {**rule, "note": note, "expectedVersion": expected_version}
    return _send("PUT", _path(name), PolicyRecord, body, platform=platform, repeatable=True)


def revert_policy(name: str, version: int, *, platform: bool = False, note: str = "") -> Call[PolicyRecord]:
    body = {"version": version, "note": note}
    return _send("POST", f"{_path(name)}/revert", PolicyRecord, body, platform=platform, repeatable=True)


def switch_policy(name: str, *, on: bool, platform: bool = False, note: str = "") -> Call[PolicyRecord]:
    path = f"{_path(name)}/{'enable' if on else 'disable'}"
    return _send("POST", path, PolicyRecord, {"note": note}, platform=platform, repeatable=True)


def delete_policy(name: str, *, platform: bool = False) -> Call[None]:
    return Call(Request("DELETE", _path(name), _whose(platform), repeatable=False), None)


def check_policy(rule: Mapping[str, Any]) -> Call[CheckAnswer]:
    return _send("POST", "/v1/policies/check", CheckAnswer, rule, repeatable=True)


def try_policy(
    rule: Mapping[str, Any], *, platform: bool = False, since_s: float | None = None, limit: int | None = None
) -> Call[Tried]:
    more = (("sinceS", since_s), ("limit", limit))
    params = tuple((name, str(value)) for name, value in more if value is not None)
    return _send("POST", "/v1/policies/dry-run", Tried, rule, platform=platform, params=params, repeatable=True)


def _send(
    method: str, path: str, kind: Any, body: Mapping[str, Any], *, platform: bool = False,
    params: tuple[tuple[str, str], ...] = (), repeatable: bool = False,
) -> Call[Any]:  # fmt: skip
    given = {key: value for key, value in body.items() if value is not None}
    data = msgspec.json.encode(given)
    return Call(Request(method, path, (*_whose(platform), *params), data, JSON, repeatable), kind)


def _whose(platform: bool) -> tuple[tuple[str, str], ...]:
    return (("platform", "true"),) if platform else ()


def _path(name: str) -> str:
    return f"/v1/policies/{part(name)}"


class AsyncPolicyMethods(AsyncSends):
    """Policies, of the asynchronous client. `platform`: policies for every tenant, for operators."""

    async def policies(self) -> tuple[PolicyRecord, ...]:
        """Policies that apply to the tenant's jobs, in the order they do."""
        return await self.send(policies())

    async def set_policy(
        self, name: str, *, platform: bool = False, note: str = "", expected_version: int | None = None,
        **rule: Unpack[PolicyFields],
    ) -> PolicyRecord:  # fmt: skip
        """Makes or changes a policy: when="job.gpus > 8", action="reject", message="ask first"."""
        return await self.send(put_policy(name, rule, platform=platform, note=note, expected_version=expected_version))

    async def check_policy(self, **rule: Unpack[PolicyFields]) -> CheckAnswer:
        """What is wrong with a policy, and where."""
        return await self.send(check_policy(rule))

    async def try_policy(
        self,
        *,
        platform: bool = False,
        since_s: float | None = None,
        limit: int | None = None,
        **rule: Unpack[PolicyFields],
    ) -> Tried:
        """What a policy would have made of recent jobs."""
        return await self.send(try_policy(rule, platform=platform, since_s=since_s, limit=limit))

    async def revert_policy(self, name: str, version: int, *, platform: bool = False, note: str = "") -> PolicyRecord:
        """Puts an old version in force again."""
        return await self.send(revert_policy(name, version, platform=platform, note=note))

    async def delete_policy(self, name: str, *, platform: bool = False) -> None:
        """Takes a policy back, with its versions."""
        await self.send(delete_policy(name, platform=platform))


class PolicyMethods(Sends):
    """Policies, of the blocking client, generated. `platform`: policies for every tenant, for operators."""

    def policies(self) -> tuple[PolicyRecord, ...]:
        """Policies that apply to the tenant's jobs, in the order they do."""
        return self.send(policies())

    def set_policy(
        self, name: str, *, platform: bool = False, note: str = "", expected_version: int | None = None,
        **rule: Unpack[PolicyFields],
    ) -> PolicyRecord:  # fmt: skip
        """Makes or changes a policy: when="job.gpus > 8", action="reject", message="ask first"."""
        return self.send(put_policy(name, rule, platform=platform, note=note, expected_version=expected_version))

    def check_policy(self, **rule: Unpack[PolicyFields]) -> CheckAnswer:
        """What is wrong with a policy, and where."""
        return self.send(check_policy(rule))

    def try_policy(
        self,
        *,
        platform: bool = False,
        since_s: float | None = None,
        limit: int | None = None,
        **rule: Unpack[PolicyFields],
    ) -> Tried:
        """What a policy would have made of recent jobs."""
        return self.send(try_policy(rule, platform=platform, since_s=since_s, limit=limit))

    def revert_policy(self, name: str, version: int, *, platform: bool = False, note: str = "") -> PolicyRecord:
        """Puts an old version in force again."""
        return self.send(revert_policy(name, version, platform=platform, note=note))

    def delete_policy(self, name: str, *, platform: bool = False) -> None:
        """Takes a policy back, with its versions."""
        self.send(delete_policy(name, platform=platform))
