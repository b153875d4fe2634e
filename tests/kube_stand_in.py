"""A stand-in for the API server of Kubernetes. The contract suite holds it to the real one (tests/contract/kubernetes).

It starts in milliseconds, and does what a real one does only by accident: it forgets its history, is restored from a
backup, cuts a watch in the middle of a line. What is left out: checks of fields, rights, admission, all controllers.
"""

import asyncio
import copy
import json
import re
import ssl
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from tests.kube_rules import REASONS, Json, Refused, Request, Server, Store, Where, selected

_PATH = re.compile(
    r"(?P<base>/api/v1|/apis/[^/]+/v1)(/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<kind>[^/]+)(/(?P<name>[^/]+))?"
    r"(/(?P<part>[^/]+))?"
)
_BOOKMARK_EVERY_S = 2.0


class StandIn:
    """The server behind a port of this machine, on a loop of its own. It can be killed, and started again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.server = Server()
        # What happens to the answer of the next watches, one each: see `_watch`.
        self.mishaps: list[str] = []
        # So many requests are answered as by a server that does not know its roles yet.
        self.forbids = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kubernetes stand-in", daemon=True)
        self._listening: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def do(self, work: Callable[[Server], Any]) -> Any:
        """On its own loop: no request comes between."""

        async def doing() -> Any:
            return work(self.server)

        return self.run(doing())

    def start(self) -> None:
        async def starting() -> None:
            self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

        self.run(starting())

    def kill(self) -> None:
        """Every connection is cut. What was written stays."""

        async def ending() -> None:
            if self._listening is not None:
                self._listening.close()
                self._listening = None
            for task in [*self._open]:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

        self.run(ending())

    def backup(self) -> Store:
        return self.do(lambda server: copy.deepcopy(server.store))

    def restore(self, store: Store) -> None:
        """As an etcd that comes back from its backup: later versions never were."""
        self.kill()
        self.do(lambda server: setattr(server, "store", copy.deepcopy(store)))
        self.start()

    # ---- HTTP

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # Gone, or cut off: nothing waits for this task.
            pass
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length") or 0))
        method, target, _ = first.split(" ")
        parts = urlsplit(target)
        found, params = _PATH.fullmatch(parts.path), dict(parse_qsl(parts.query))
        if parts.path == "/readyz" or found is None:
            await _reply(writer, 200 if parts.path == "/readyz" else 404, {})
            return True
        where = Where(found["base"], found["kind"], found["namespace"] or "")
        content = json.loads(body) if body else None
        ask = Request(
            method, where, found["name"] or "", found["part"] or "", params, headers.get("content-type", ""), content
        )
        try:
            if self.forbids:
                self.forbids -= 1
                raise Refused(403, f'"{ask.name}" is forbidden: User "agent" cannot {method} resource "{where.kind}"')
            if params.get("watch") in ("1", "true"):
                await self._watch(ask, writer)
                return False
            if ask.part == "log":
                await self._log(ask, writer)
                return False
            await _reply(writer, *self.server.answer(ask))
        except Refused as refusal:
            await _reply(writer, refusal.code, _status(refusal))
        return True

    async def _watch(self, ask: Request, writer: asyncio.StreamWriter) -> None:
        """With a mishap: `refuse` closes the connection before an answer, `silent` says nothing, `half` ends in the
        middle of the next event, `bookmark` ends after one."""
        mishap = self.mishaps.pop(0) if self.mishaps else ""
        if mishap == "refuse":
            return None
        server, at = self.server, int(ask.params["resourceVersion"] or 0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        if at < server.store.forgotten:
            _chunk(writer, {"type": "ERROR", "object": _status(Refused(410, f"too old resource version: {at}"))})
            return await _end(writer)
        loop = asyncio.get_running_loop()
        until = loop.time() + float(ask.params.get("timeoutSeconds") or 1800)
        while loop.time() < until:
            changed = server.changed
            for version, where, event, thing, before in [*server.store.history]:
                if version <= at or not ask.where.holds(where) or mishap == "silent":
                    continue
                at = version
                if (kind := _as_selected(event, thing, before, ask.params)) is None:
                    continue
                if mishap == "half":
                    line = json.dumps({"type": kind, "object": thing}).encode() + b"\n"
                    writer.write(f"{len(line):x}\r\n".encode() + line[: len(line) // 2])
                    await writer.drain()
                    return None
                _chunk(writer, {"type": kind, "object": thing})
            if ask.params.get("allowWatchBookmarks") == "true" and mishap != "silent":
                at = max(at, server.store.version)
                _chunk(writer, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(at)}}})
                if mishap == "bookmark":
                    await writer.drain()
                    return None
            await writer.drain()
            try:
                await asyncio.wait_for(changed.wait(), min(_BOOKMARK_EVERY_S, max(0.01, until - loop.time())))
            except TimeoutError:
                continue
        return await _end(writer)

    async def _log(self, ask: Request, writer: asyncio.StreamWriter) -> None:
        """By the kubelet of the pod's node, whose answer is handed on as it is."""
        pod = self.server.answer(Request("GET", ask.where, ask.name, "", {}, "", None))[1]
        node = self.server.store.objects.get((Where("/api/v1", "nodes"), pod["spec"].get("nodeName", "")))
        if node is None:
            raise Refused(422, "the pod is on no node", "BadRequest")
        port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        query = "&".join(f"{key}={value}" for key, value in ask.params.items() if key != "container")
        path = f"/containerLogs/{ask.where.namespace}/{ask.name}/{ask.params['container']}?{query}"
        source, out = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            out.write(f"GET {path} HTTP/1.1\r\nHost: kubelet\r\n\r\n".encode())
            while piece := await source.read(65536):
                writer.write(piece)
                await writer.drain()
        finally:
            out.close()


def _as_selected(event: str, thing: Json, before: Json | None, params: dict[str, str]) -> str | None:
    """What a change is to a watch that selects: an object that comes to fit was added, whatever it was before."""
    now, then = selected(thing, params), before is not None and selected(before, params)
    if event == "DELETED":
        return event if then else None
    return (event if then else "ADDED") if now else ("DELETED" if then else None)


def _status(refusal: Refused) -> Json:
    return {
        "kind": "Status",
        "status": "Failure",
        "code": refusal.code,
        "reason": refusal.reason,
        "message": str(refusal),
    }


def _chunk(writer: asyncio.StreamWriter, thing: Json) -> None:
    line = json.dumps(thing).encode() + b"\n"
    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _reply(writer: asyncio.StreamWriter, code: int, thing: Json) -> None:
    body = json.dumps(thing).encode()
    head = f"HTTP/1.1 {code} {REASONS.get(code, 'OK')}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
