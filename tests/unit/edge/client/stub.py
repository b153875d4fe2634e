"""A real HTTP server that answers by script and remembers what it was asked."""

import json
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

JOB = "0123456789abcdef"


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Say:
    """One answer. With `pieces` it is chunked; `break_off` leaves out its end, `hang_up` gives no answer at all."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Iterable[bytes] | None = None
    break_off: bool = False
    hang_up: bool = False
    before: Callable[[], object] | None = None


def problem(status: int, code: str, detail: str = "", fix: str = "", **headers: str) -> Say:
    body = {"status": status, "code": code, "title": "Title", "detail": detail, "fix": fix}
    return Say(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that closes its connection with something unread is no fault, and no output of the command's."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Stub:
    """`on` queues answers for a route; the last one stays."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._script: dict[tuple[str, str], list[Say]] = {}
        self._changed = threading.Condition()
        self._server = _QuietServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def on(self, method: str, path: str, *answers: Any) -> None:
        self._script[method, path] = [answer if isinstance(answer, Say) else Say(answer) for answer in answers]

    def requests(self, method: str, path: str) -> list[Asked]:
        with self._changed:
            return [asked for asked in self.asked if (asked.method, asked.path) == (method, path)]

    def wait_for(self, method: str, path: str, count: int = 1) -> None:
        with self._changed:
            done = self._changed.wait_for(
                lambda: sum((a.method, a.path) == (method, path) for a in self.asked) >= count, timeout=20
            )
        assert done, f"no {method} {path} came; asked for {[(a.method, a.path) for a in self.asked]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_answer(self, asked: Asked) -> Say:
        with self._changed:
            self.asked.append(asked)
            self._changed.notify_all()
            answers = self._script.get((asked.method, asked.path))
            if not answers:
                return problem(404, "not-found", "No such object")
            return answers.pop(0) if len(answers) > 1 else answers[0]

    def _handler(stub) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                raw = self.rfile.read(length)
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(raw) if raw else None
                say = stub.next_answer(Asked(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body))
                if say.before is not None:
                    say.before()
                self.close_connection = self.close_connection or say.hang_up or say.break_off
                if say.hang_up:
                    return
                try:
                    self.write(say)
                except OSError:
                    self.close_connection = True

            def write(self, say: Say) -> None:
                self.send_response(say.status)
                for name, value in say.headers.items():
                    self.send_header(name, value)
                if say.pieces is None:
                    data = b"" if say.body is None else json.dumps(say.body).encode()
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                    return
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in say.pieces:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                if not say.break_off:
                    self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        return Handler


def state(phase: str = "PENDING", **fields: Any) -> dict[str, Any]:
    return {"id": JOB, "tenant": "default", "name": "train", "phase": phase, "submittedAt": 1000.0, **fields}


def detail(phase: str = "PENDING", **fields: Any) -> dict[str, Any]:
    known = {"result", "progress", "queuePosition", "arrayCounts", "waiting"}
    outer = {key: fields.pop(key) for key in known & fields.keys()}
    spec = fields.pop("spec", {"command": ["python", "train.py"], "name": "train"})
    return {"spec": spec, "state": state(phase, **fields), **outer}


def event(seq: int, phase: str, kind: str = "started", job: str = JOB, cursor: str = "") -> bytes:
    entry = {"job": job, "tenant": "default", "seq": seq, "kind": kind, "phase": phase, "at": 1000.0 + seq}
    return f"id: {cursor or seq}\nevent: {kind}\ndata: {json.dumps(entry)}\n\n".encode()
