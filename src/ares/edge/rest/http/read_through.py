"""Requests about a job that a cluster of the federation has: answered there, by this server's link to it."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from ares.control.federation.asking import PIECE_BYTES, AskAnswer, AskStreams
from ares.core.federation.reports import reach
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import KINDS, MEDIA_TYPE, Problem
from ares.edge.rest.http.sockets import AGAIN, BROKEN, CLOSES, DROPPED, LAGGED, MALFORMED, Say, SocketOver, converse
from ares.edge.rest.http.wire import header, until_gone
from ares.model.access import Principal
from ares.model.cluster_link import AskStart, ReadAsk
from ares.model.state import TERMINAL

# Operations whose answer only the owner has. All others are answered from this server's own records.
THROUGH = frozenset(
    {
        "getJobLogs", "searchJobLogs", "listOutputs", "getOutput", "listCheckpoints", "explainJob", "getJobUse",
        "updateJob", "requeueJob", "holdJob", "releaseJob", "retryJob", "openSession", "listSessions", "endSession",
    }
)  # fmt: skip
# Conversations with a process of the job, where it runs.
SOCKETS_THROUGH = frozenset({"attachSession"})
# Of a job that has ended these are decided here, as of any other.
_LIVE_ONLY = frozenset(
    {
        "updateJob", "requeueJob", "holdJob", "releaseJob", "retryJob", "explainJob", "getJobUse", "openSession",
        "listSessions", "endSession", "attachSession",
    }
)  # fmt: skip
# The end of a log comes here with the job's end: better that than nothing.
_KEPT_HERE = frozenset({"getJobLogs"})
_HEADERS_DOWN = (b"idempotency-key", b"x-ares-break-glass", b"range", b"content-type", b"if-none-match", b"accept")
# What is taken over of a cluster's answer, and in which form: it is given out under this server's own name. The type of
# the content is this server's own, by the operation; a cluster may be in the hands of an attacker.
_HEADERS_UP = {
    "content-length": re.compile(r"[0-9]{1,15}"),
    "content-range": re.compile(r"bytes [0-9*]{1,15}(-[0-9]{1,15})?/[0-9*]{1,15}"),
    "accept-ranges": re.compile(r"bytes|none"), "etag": re.compile(r'"[A-Za-z0-9._-]{1,128}"'),
    "retry-after": re.compile(r"[0-9]{1,5}"), "x-ares-attempt": re.compile(r"[0-9]{1,9}"),
    "x-ares-log-offset": re.compile(r"[0-9]{1,15}"),
}  # fmt: skip
# Of a conversation: that it has begun, and how it may end, in this server's words.
_ACCEPTED, _DONE = 200, 1000
_CLOSES = {
    _DONE: "complete", 1001: CLOSES["shutdown"][1], 1011: BROKEN[1], AGAIN: "attach again", MALFORMED: "malformed",
    4401: CLOSES["revoked"][1], LAGGED[0]: LAGGED[1], DROPPED: "the session is not there any more",
}  # fmt: skip
_STATUSES = frozenset({200, 201, 202, 204, 206, 304})
_TYPE = (b"content-type", b"content-disposition")
# Operations that answer with what a job wrote: never anything that a browser would run. All others answer with JSON.
_MEDIA: dict[str, Callable[[Any], tuple[str, ...]]] = {
    "getJobLogs": lambda query: ("application/jsonl" if query.pieces else "text/plain; charset=utf-8",),
    "getOutput": lambda _query: ("application/octet-stream", "attachment"),
}
# Neither has an end that is known before: a job writes as long as it runs.
_BYTES_MAX = {"getJobLogs": 2**53, "getOutput": 2**53}
_JSON_BYTES_MAX = 64 * 1024 * 1024
_REFUSAL_BYTES_MAX = 256 * 1024


def _as_json(_query: Any) -> tuple[str, ...]:
    return ("application/json",)


def through(operation: str, call: RequestCall[Any, Any]) -> "ASGIApp | None":
    """What answers in the owner's stead; None when this server answers by itself. Raises Problem when the cluster that
    has the answer cannot be reached."""
    asked = _asked(operation, call)
    return None if asked is None else _Passed(operation, call, call.edge.services.federation.asks, *asked)


def conversed(operation: str, call: RequestCall[Any, Any]) -> "Conversed | None":
    """As `through`, for a conversation."""
    asked = _asked(operation, call)
    return None if asked is None else Conversed(call, call.edge.services.federation.asks, *asked)


def _asked(operation: str, call: RequestCall[Any, Any]) -> tuple[str, AskAnswer] | None:
    """The cluster, and its answer on the way."""
    services = call.edge.services
    entry = services.view.entries.get(call.path["id"])
    owner = None if entry is None else entry.state.owner
    if entry is None or owner is None or owner.stage != "CONFIRMED" or entry.state.tenant != call.who.tenant:
        return None
    if operation in _LIVE_ONLY and entry.state.phase in TERMINAL:
        return None
    asks, cluster = services.federation.asks, owner.cluster
    answer = asks.ask(cluster, _made(operation, call))
    if answer is None:
        if operation in _KEPT_HERE and entry.state.phase in TERMINAL:
            return None
        raise _unreachable(cluster, services.federation.clusters.age_s(cluster))
    return cluster, answer


def _made(operation: str, call: RequestCall[Any, Any]) -> Callable[[int], ReadAsk]:
    passed = {name: header(call.scope, name) for name in _HEADERS_DOWN}
    headers = {name.decode(): value for name, value in passed.items() if value is not None}
    who = msgspec.json.encode(msgspec.structs.replace(call.who, proof="federation", expires_at=None))

    def made(number: int) -> ReadAsk:
        return ReadAsk(
            id=number, operation=operation, path=call.path, query=call.scope["query_string"], headers=headers,
            body=call.raw, who=who,
        )  # fmt: skip

    return made


def _unreachable(cluster: str, age_s: float | None) -> Problem:
    if age_s is not None and reach(age_s) == "REACHABLE":
        return Problem(
            "node-elsewhere", detail=f"cluster {cluster} is connected to another replica of the global plane"
        )
    since = "" if age_s is None else f", silent for {age_s:.0f} s"
    return Problem("cluster-unreachable", detail=f"cluster {cluster} has the answer{since}")


class _Passed:
    """An answer on its way from its cluster to the client."""

    def __init__(
        self, operation: str, call: RequestCall[Any, Any], asks: AskStreams, cluster: str, answer: AskAnswer
    ) -> None:  # fmt: skip
        self._operation, self._call, self._asks = operation, call, asks
        self._cluster, self._answer = cluster, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams = self._call.edge.streams
        try:
            start = await self._answer.begun()
            if start is None:
                raise _unreachable(self._cluster, None)

            if start.status not in _STATUSES and not 400 <= start.status <= 599:
                raise _nonsense(self._cluster, f"status {start.status}")
            room = _room(self._operation, start)

            async def work() -> None:
                left = room
                await send(_begin(start, self._operation, self._call.query))
                async for piece in self._answer.pieces():
                    left -= len(piece)
                    if left < 0:
                        # What is begun cannot be taken back: the client sees a broken answer, as of a server that died.
                        raise ConnectionError(f"cluster {self._cluster} answers with more than it may")
                    await streams.send(send({"type": "http.response.body", "body": piece, "more_body": True}))
                await send({"type": "http.response.body", "body": b"", "more_body": False})

            await streams.run(self._call.token, self._call.who, work(), until_gone(receive))
        finally:
            self._asks.forget(self._cluster, self._answer)


class Conversed:
    """A conversation between the client and a process in the cluster: messages both ways, each whole, and so many bytes
    of them on their way and no more."""

    def __init__(self, call: RequestCall[Any, Any], asks: AskStreams, cluster: str, answer: AskAnswer) -> None:
        self._call, self._asks, self._cluster, self._answer = call, asks, cluster, answer

    async def run(self, receive: Receive, send: Send) -> None:
        try:
            start = await self._answer.begun()
            if start is None:
                raise _unreachable(self._cluster, None)
            if start.status != _ACCEPTED:
                raise await self._refusal(start)
            await converse(self._call, receive, send, self._talk, self._listen)
        finally:
            self._asks.forget(self._cluster, self._answer)

    async def _talk(self, say: Say) -> None:
        try:
            async for message in self._answer.pieces():
                await say(message)
        except ConnectionError:
            raise SocketOver(AGAIN, "attach again") from None
        closed = self._answer.closed
        if closed is None or closed.code not in _CLOSES:
            raise SocketOver(AGAIN, "attach again")
        if closed.code != _DONE:
            # The cluster's own words are not given out under this server's name.
            raise SocketOver(closed.code, _CLOSES[closed.code])

    async def _listen(self, message: bytes) -> None:
        if len(message) > PIECE_BYTES:
            raise SocketOver(MALFORMED, f"malformed: {len(message)} bytes, at most {PIECE_BYTES} are allowed")
        await self._answer.feed(message)

    async def _refusal(self, start: AskStart) -> Problem:
        """By its code alone: the words are this server's."""
        said, left = b"", _REFUSAL_BYTES_MAX
        async for piece in self._answer.pieces():
            said, left = said + piece, left - len(piece)
            if left < 0:
                break
        try:
            told = msgspec.json.decode(said, type=_ToldProblem)
        except (ValueError, RecursionError):
            return _nonsense(self._cluster, f"status {start.status}")
        known = told.code in KINDS and KINDS[told.code].status == start.status
        return Problem(told.code, detail=told.detail[:1000]) if known else _nonsense(self._cluster, told.code[:100])


class _ToldProblem(msgspec.Struct):
    code: str
    detail: str = ""


def _begin(start: AskStart, operation: str, query: Any) -> Any:
    headers = [(name.encode(), value.encode()) for name, value in _taken_over(start).items()]
    media = (MEDIA_TYPE,) if start.status >= 400 else _MEDIA.get(operation, _as_json)(query)
    headers += [(name, value.encode()) for name, value in zip(_TYPE, media, strict=False)]
    return {"type": "http.response.start", "status": start.status, "headers": headers}


def _taken_over(start: AskStart) -> dict[str, str]:
    said = {name.lower(): value for name, value in start.headers.items()}
    return {name: said[name] for name, form in _HEADERS_UP.items() if form.fullmatch(said.get(name, ""))}


def _room(operation: str, start: AskStart) -> int:
    """How many bytes the answer may have: no more than it says, nor than this server's own would have."""
    most = _REFUSAL_BYTES_MAX if start.status >= 400 else _BYTES_MAX.get(operation, _JSON_BYTES_MAX)
    return min(most, int(_taken_over(start).get("content-length", most)))


def _nonsense(cluster: str, what: str) -> Problem:
    return Problem("cluster-unreachable", detail=f"cluster {cluster} answered with {what}, which is no answer")


def vouched(ask: ReadAsk) -> Principal:
    """The person that the global plane let in. Raises msgspec.ValidationError."""
    return msgspec.json.decode(ask.who, type=Principal)
