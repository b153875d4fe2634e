"""Clusters of a federation: what a global plane knows of them, and how a cluster stands with its global plane."""

from litestar.types import ASGIApp

from ares.api.nodes import DeadBody, MemberList, UplinkBody
from ares.control.federation.membership import NO_UPLINK
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery, ReasonBody
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem
from ares.model.base import Record


class LeaveQuery(Record, frozen=True):
    """`force`: although jobs of the global plane are here that have not ended."""

    force: bool = False


async def list_members(call: RequestCall[NoQuery, None]) -> ASGIApp:
    found = await call.edge.services.federation.clusters.list(call.who)
    return answer(MemberList(clusters=tuple(found)))


async def get_member(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.federation.clusters.show(call.who, call.path["cluster"]))


async def drain_member(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    clusters = call.edge.services.federation.clusters
    return answer(await clusters.drain(call.who, call.path["cluster"], call.body.reason))


async def resume_member(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.federation.clusters.resume(call.who, call.path["cluster"]))


async def declare_dead(call: RequestCall[NoQuery, DeadBody]) -> ASGIApp:
    name = call.path["cluster"]
    if call.body.confirm != name:
        detail = f"to declare cluster {name} dead, give its name once more: {call.body.confirm!r} is another one"
        raise Problem("invalid", detail=detail, path="$.confirm")
    return answer(await call.edge.services.federation.clusters.declare_dead(call.who, name, call.body.reason))


async def get_uplink(call: RequestCall[NoQuery, None]) -> ASGIApp:
    membership = call.edge.services.federation.membership
    await call.edge.services.view.catch_up()
    return answer(NO_UPLINK if membership.record is None else membership.view_of(membership.record))


async def join_global_plane(call: RequestCall[NoQuery, UplinkBody]) -> ASGIApp:
    joined = await call.edge.services.federation.membership.join(call.who, call.body)
    call.made(f"clusters/{call.body.name}")
    return answer(joined)


async def leave_global_plane(call: RequestCall[LeaveQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.federation.membership.forget(call.who, force=call.query.force))
