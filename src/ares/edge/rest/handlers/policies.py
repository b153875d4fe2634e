"""Policies over HTTP: checked, saved, tried on recent jobs, taken back."""

from typing import Annotated

import msgspec
from litestar.types import ASGIApp
from msgspec import UNSET, Meta, UnsetType

from ares.api.policies import CheckAnswer, NameView
from ares.control.governance.policies import TRIED_MAX
from ares.core.policy.facts import NAMES
from ares.edge.rest.answers import answer, empty
from ares.edge.rest.bodies import NoQuery, given
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem
from ares.model.base import LabelValue, Note, Record, Slug
from ares.model.policy import SETS_MAX, Action, Expression, FieldPath, Policy, PolicyRecord

Version = Annotated[int, Meta(ge=0, le=10**9)]


class PlatformQuery(Record, frozen=True):
    """`platform=true`: what is for every tenant; without, what is the caller's tenant's."""

    platform: bool = False


class TrialQuery(Record, frozen=True):
    """Jobs submitted within the last `sinceS` seconds, at most `limit` of them, the newest first."""

    platform: bool = False
    since_s: Annotated[float, Meta(ge=0.0, le=3_153_600_000.0)] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=TRIED_MAX)] = 500


class PolicyBody(Record, frozen=True):
    """A policy without its name. `when` and the values of `set` are CEL, `message` is plain text."""

    when: Expression
    action: Action
    message: LabelValue = ""
    set: Annotated[dict[FieldPath, Expression], Meta(max_length=SETS_MAX)] = {}
    enabled: bool = True
    note: Note = ""
    # The version it must still have; 0: there is none of this name yet.
    expected_version: Version | None = None

    def policy(self, name: str) -> Policy:
        return Policy(
            name=name, when=self.when, action=self.action, message=self.message, set=self.set, enabled=self.enabled
        )


class DraftBody(Record, frozen=True):
    """A policy that need not be saved."""

    when: Expression
    action: Action
    name: Slug = "draft"
    message: LabelValue = "draft"
    set: Annotated[dict[FieldPath, Expression], Meta(max_length=SETS_MAX)] = {}

    def policy(self) -> Policy:
        return Policy(name=self.name, when=self.when, action=self.action, message=self.message, set=self.set)


class RevertBody(Record, frozen=True):
    version: Version
    note: Note = ""


class PolicyNote(Record, frozen=True):
    """Why, for those who look at the versions."""

    note: Note = ""


class PolicyList(Record, frozen=True):
    """The platform's first, then the tenant's, by name: the order they are applied in."""

    policies: tuple[PolicyRecord, ...]


_NAMES = tuple(NameView(name=name, type=kind, about=about) for name, (kind, about) in NAMES.items())


async def list_policies(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(PolicyList(policies=await call.edge.services.policies.listed(call.who)))


async def get_policy(call: RequestCall[PlatformQuery, None]) -> ASGIApp:
    found = await call.edge.services.policies.show(call.who, call.path["name"], platform=call.query.platform)
    return answer(found)


async def put_policy(call: RequestCall[PlatformQuery, PolicyBody]) -> ASGIApp:
    body = call.body
    name = slug_of(call.path["name"])
    outcome = await call.edge.services.policies.save(
        call.who, body.policy(name), platform=call.query.platform, note=body.note,
        expected_version=body.expected_version,
    )  # fmt: skip
    return answer(outcome)


async def delete_policy(call: RequestCall[PlatformQuery, None]) -> ASGIApp:
    return empty(await call.edge.services.policies.delete(call.who, call.path["name"], platform=call.query.platform))


async def list_policy_versions(call: RequestCall[PlatformQuery, None]) -> ASGIApp:
    found = await call.edge.services.policies.versions(call.who, call.path["name"], platform=call.query.platform)
    return answer(PolicyList(policies=found) if found else None)


async def revert_policy(call: RequestCall[PlatformQuery, RevertBody]) -> ASGIApp:
    body, platform = call.body, call.query.platform
    policies = call.edge.services.policies
    return answer(await policies.revert(call.who, call.path["name"], body.version, platform=platform, note=body.note))


async def enable_policy(call: RequestCall[PlatformQuery, PolicyNote]) -> ASGIApp:
    return await _switch(call, on=True)


async def disable_policy(call: RequestCall[PlatformQuery, PolicyNote]) -> ASGIApp:
    return await _switch(call, on=False)


async def check_policy(call: RequestCall[NoQuery, DraftBody]) -> ASGIApp:
    mistakes = call.edge.services.policies.check(call.body.policy())
    return answer(CheckAnswer(ok=not mistakes, mistakes=mistakes, names=_NAMES))


async def try_policy(call: RequestCall[TrialQuery, DraftBody]) -> ASGIApp:
    query, services = call.query, call.edge.services
    since_s = given(query.since_s)
    since = 0.0 if since_s is None else services.clock.wall() - since_s
    return answer(
        await services.policies.try_out(
            call.who, call.body.policy(), platform=query.platform, since=since, limit=query.limit
        )
    )


async def _switch(call: RequestCall[PlatformQuery, PolicyNote], *, on: bool) -> ASGIApp:
    policies = call.edge.services.policies
    name, platform = call.path["name"], call.query.platform
    return answer(await policies.switch(call.who, name, on=on, platform=platform, note=call.body.note))


def slug_of(text: str) -> str:
    """A new name; what a path may name is wider."""
    try:
        return msgspec.convert(text, Slug)
    except msgspec.ValidationError:
        detail = f"{text[:80]!r}: names have small letters, digits and dashes, at most 63"
        raise Problem("invalid", detail=detail, path="path.name") from None
