"""Requests that the global plane reads through to this cluster, answered by the cluster's own operations.

The global plane has authenticated the person, and is trusted for that: it is what the cluster joined. What the person
may do is judged here once more, by the same table, and only jobs of the global plane can be asked about.
"""

import asyncio
from typing import Any

from litestar import Litestar
from litestar.types import ASGIApp, Message, Receive

from ares.control.federation.asking import AskReply
from ares.control.state.view import View
from ares.edge.rest.app import BROKEN, DIRECT
from ares.edge.rest.direct import handlers_of
from ares.edge.rest.http.audit_middleware import FORM
from ares.edge.rest.http.gate import VOUCHED
from ares.edge.rest.http.operation import Operation, Socket
from ares.edge.rest.http.problems import not_found
from ares.edge.rest.http.read_through import SOCKETS_THROUGH, THROUGH, vouched
from ares.edge.rest.routes.routes import OPERATIONS, PREFIX, SOCKETS
from ares.model.cluster_link import ReadAsk

_FORM = "federation"
# What says that a conversation has begun, as of any other answer.
_ACCEPTED = 200


class RelayedRequests:
    """`control.federation.asking.Answerer` over the app of this server."""

    def __init__(self, app: Litestar, view: View) -> None:
        self._serve: ASGIApp = app.state[DIRECT]
        self._view = view
        self._known: dict[str, Operation | Socket] = {
            known.id: known for known in (*OPERATIONS, *SOCKETS) if known.id in THROUGH | SOCKETS_THROUGH
        }
        self._handlers = {handler.name: handler for route in app.routes for handler in handlers_of(route)}

    async def __call__(self, ask: ReadAsk, reply: AskReply) -> None:
        async def send(message: Message) -> None:
            said: Any = message
            match said["type"].removeprefix("websocket."):
                case "accept":
                    await reply.begin(_ACCEPTED, {})
                case "send":
                    await reply.body(said["bytes"] or said["text"].encode(), more=True)
                case "close":
                    await reply.close(said["code"], said.get("reason") or "")
                case "http.response.start":
                    await reply.begin(said["status"], {name.decode(): text.decode() for name, text in said["headers"]})
                case "http.response.body":
                    await reply.body(said.get("body", b""), said.get("more_body", False))
                case _:
                    pass

        heard = _heard(reply) if ask.operation in SOCKETS_THROUGH else _whole(ask)
        await self._serve(self._scope(ask), heard, send)

    def _scope(self, ask: ReadAsk) -> Any:
        known, who = self._known[ask.operation], vouched(ask)
        mine = ask.path.get("id", "") in self._view.kept.taken
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in ask.headers.items()]
        if ask.body:
            headers.append((b"content-length", b"%d" % len(ask.body)))
        return {
            "type": "http" if isinstance(known, Operation) else "websocket",
            "method": known.method if isinstance(known, Operation) else "GET",
            "path": PREFIX + known.path,
            "path_params": ask.path,
            "query_string": ask.query,
            "headers": headers,
            "subprotocols": [],
            "client": ("", 0),
            "state": {FORM: _FORM, BROKEN: None if mine else not_found(), VOUCHED: who},
            "route_handler": self._handlers[ask.operation],
        }


def _whole(ask: ReadAsk) -> Receive:
    """The body, once. The task is cancelled when the person is gone."""
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": ask.body, "more_body": False}
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    return receive


def _heard(reply: AskReply) -> Receive:
    greeted = False

    async def receive() -> Any:
        nonlocal greeted
        if not greeted:
            greeted = True
            return {"type": "websocket.connect"}
        return {"type": "websocket.receive", "bytes": await reply.heard(), "text": None}

    return receive
