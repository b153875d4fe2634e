"""Sessions in running jobs: opened by a request that is recorded, carried by a WebSocket."""

from typing import Final

import msgspec
from litestar.types import ASGIApp, Receive, Send

from ares.api.job_sessions import SessionBody, SessionList
from ares.core.audit.chain import clean
from ares.edge.rest.answers import answer, empty
from ares.edge.rest.bodies import AttachQuery, NoQuery, RankQuery
from ares.edge.rest.http.audit_middleware import unavailable
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import granted
from ares.edge.rest.http.read_through import conversed
from ares.edge.rest.http.sockets import AGAIN, DROPPED, MALFORMED, Say, SocketOver, converse
from ares.model.audit import AuditDraft
from ares.model.job_session import ClientFrame, SessionExit, SessionTaken
from ares.ports.audit import AuditUnavailable

_decode: Final = msgspec.msgpack.Decoder[ClientFrame](ClientFrame).decode
_encode: Final = msgspec.msgpack.Encoder().encode
# How often it is looked at whether the attempt is still the current one.
_LOOK_S: Final = 1.0


async def open_session(call: RequestCall[NoQuery, SessionBody]) -> ASGIApp:
    sessions, body = call.edge.services.job_sessions, call.body
    opened = granted(await sessions.open(call.who, call.path["id"], body.id, body))
    call.made(f"sessions/{opened.id}", clean(f"{opened.kind}/{opened.port or body.path or ''}"))
    return answer(opened, status=201)


async def list_sessions(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(SessionList(sessions=granted(await call.edge.services.job_sessions.list(call.who, call.path["id"]))))


async def end_session(call: RequestCall[RankQuery, None]) -> ASGIApp:
    path = call.path
    granted(await call.edge.services.job_sessions.end(call.who, path["id"], path["session"], call.query.rank))
    return empty()


async def job_use(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.live_use.of_job(call.who, call.path["id"]))


async def list_use(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.live_use.all(call.who))


async def attach_session(call: RequestCall[AttachQuery, None], receive: Receive, send: Send) -> None:
    services, path, asked = call.edge.services, call.path, call.query
    call.edge.streams.check_room(call.who)
    await _record(call)
    if (elsewhere := conversed("attachSession", call)) is not None:
        await elsewhere.run(receive, send)
        return
    client = granted(
        await services.job_sessions.attach(call.who, path["id"], path["session"], asked.rank, asked.offset)
    )
    assert client.session is not None, "it is attached"
    given = client.session.input_offset

    async def talk(say: Say) -> None:
        # Where the client goes on with its input.
        await say(_encode(SessionTaken(offset=given)))
        ended = False
        async for frame in client.frames():
            await say(_encode(frame))
            ended = ended or isinstance(frame, SessionExit)
        if not ended:
            raise SocketOver(DROPPED if client.dropped else AGAIN, client.dropped or "attach again")

    async def listen(message: bytes) -> None:
        try:
            frame = _decode(message)
        except (ValueError, RecursionError) as error:
            raise SocketOver(MALFORMED, f"malformed: {str(error)[:80]}") from None
        await client.send(frame)

    async def until_revoked() -> None:
        while services.job_sessions.granted(client):
            await services.clock.sleep(_LOOK_S)
        # What the session still has to say comes from its node, if that can be reached.
        await services.clock.sleep(_LOOK_S)
        raise SocketOver(DROPPED, "the attempt is no longer the current one")

    try:
        await converse(call, receive, send, talk, listen, until_revoked())
    finally:
        await client.leave()


async def _record(call: RequestCall[AttachQuery, None]) -> None:
    """Who enters a job is recorded before it does."""
    who = call.who
    client = call.scope["client"]
    draft = AuditDraft(
        operation="attachSession", outcome="ALLOW", token=who.token_id, user=clean(who.user), role=who.role,
        proof=who.proof, tenant=who.tenant, home=who.home, method="WS", path="/jobs/{id}/sessions/{session}",
        object=clean(f"jobs/{call.path['id']}"), made=(clean(f"sessions/{call.path['session']}"),),
        remote=client[0] if client else "",
    )  # fmt: skip
    try:
        await call.edge.services.audit.note(draft)
    except AuditUnavailable as error:
        raise unavailable(error) from None
