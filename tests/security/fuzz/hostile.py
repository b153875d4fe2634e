"""Requests made to break a server: what its own OpenAPI document describes, and what nothing describes, bent by chance.

The same seed makes the same requests, apart from ids that the server's answers bring in.
"""

import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote

from tests.security.fuzz.wires import handshake, heads, trailers

ODD_TEXTS = (
    "", " ", "\x00", "a\x00b", "\n", "\r\nx-injected: 1", "../../etc/passwd", "..%2f..%2f", "%252e%252e/", "\\..\\",
    "$(id)", "; rm -rf /", "{{7*7}}", "${jndi:ldap://x}", "%s%n%x", "' OR 1=1 --", "<script>alert(1)</script>",
    "\x1b[31mred", "\u202egnp.exe", "\ufeff", "\ud7ff\ue000", "é" * 50, "🙂" * 300, "A" * 5_000, "null", "NaN", "-0",
    "1e309", "0x10", "acme-prod", "system", "default", "*", "/", "//", ".", "..", "~", "a b", "a/b", "\u0130\u0131",
    "\u212a",
)  # fmt: skip
ODD_NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 0.1, -0.0, 1e308, 5e-324, 1.5, 1e-9,
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": ""}, {"a": {"b": {"c": []}}}, "x", 7)
LITERALS = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"01",
    b"+1",
    b"0x1",
    b"'x'",
    b'"\\ud800"',
    b'"\\x"',
    b"tru",
    b"1" * 400,
)
METHODS = (
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PROPFIND",
    "get",
    "BREW",
    "",
)
ODD_HEADERS: tuple[tuple[str, str], ...] = (
    ("content-type", "text/plain"), ("content-type", "application/json; charset=utf-16"), ("content-type", ""),
    ("content-type", "multipart/form-data; boundary=x"), ("content-encoding", "gzip"), ("content-encoding", "br"),
    ("accept", "text/html;q=0"), ("accept-encoding", "*;q=0"), ("expect", "100-continue"), ("expect", "417-please"),
    ("host", "evil.example"), ("host", ""), ("host", "localhost:99999999"), ("origin", "https://evil.example"),
    ("origin", "null"), ("origin", "http://[::1"), ("origin", "http://[bad]:x"), ("x-ares-tenant", "other"),
    ("x-ares-tenant", "../x"), ("x-ares-break-glass", "an emergency, honestly"), ("idempotency-key", "k" * 201),
    ("idempotency-key", "a b"), ("idempotency-key", "same"), ("traceparent", "00-zz-zz-01"),
    ("traceparent", "0" * 500), ("range", "bytes=5-1"), ("range", "bytes=-0"), ("range", "bytes=0-,1-"),
    ("last-event-id", "junk"), ("authorization", "Basic YTpi"), ("authorization", "Bearer"),
    ("authorization", "Bearer ares_0_0"), ("authorization", "Bearer eyJhbGciOiJub25lIn0.e30."),
    ("authorization", "Bearer " + "a." * 500), ("cookie", "a=b;" * 200), ("x-forwarded-for", "127.0.0.1"),
    ("connection", "close"), ("connection", "upgrade, keep-alive"), ("upgrade", "h2c"), ("upgrade", "websocket"),
    ("sec-websocket-key", "x"), ("te", "trailers"), ("trailer", "x"), ("if-match", "*"),
    ("x-http-method-override", "DELETE"), ("x-odd", "\x80\xff"), ("x-long", "v" * 8_000),
)  # fmt: skip
ODD_PATHS = (
    "/", "//", "/v1", "/v1/../v1/jobs", "/v1/%2e%2e/jobs", "/v1/jobs/%00", "/v1/jobs/..%2f..", "/v1//jobs",
    "/v1/jobs/%ff%fe", "/v1/jobs/" + "a" * 4_000, "/v1/jobs?", "/v1/jobs?&&&=&=", "/v1/jobs?limit=%F0%9F%99%82",
    "/v1/jobs;a=b", "/v1/jobs#x", "*", "http://evil.example/v1/jobs", "/v1/jobs/%", "/v1/jobs/%zz", "/%76%31/jobs",
    "/v1/jobs?cursor=" + "A" * 3_000, "/api/v1/jobs", "/v1/jobs?phase=" + "QUEUED," * 500, "/openapi.json",
    "/v1/openapi.json", "/metrics", "/healthz?x=1", "/v1/\u200bjobs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attack:
    """Bytes to send. Unless it is `whole`, the server cannot know that nothing more will come, and owes no answer.
    `last`: what it says comes after it would be taken for a part of it. `endless`: the answer has no end."""

    name: str
    data: bytes
    whole: bool = True
    answers: int = 1
    endless: bool = False
    last: bool = False


@dataclass
class Known:
    """What answers taught about the server."""

    ids: list[str] = field(default_factory=lambda: ["0000000000000000"])
    names: list[str] = field(default_factory=lambda: ["train", "nobody"])


class Hostile:
    """Makes attacks from the server's own document."""

    def __init__(self, document: dict[str, Any], tokens: list[str], seed: int) -> None:
        self._schemas: dict[str, Any] = document["components"]["schemas"]
        self._operations = [
            (method.upper(), path, entry)
            for path, methods in document["paths"].items()
            for method, entry in methods.items()
        ]
        self._tokens = tokens
        self._rng = random.Random(seed)
        self.known = Known()
        kinds: list[tuple[int, Callable[[], Attack]]] = [
            (20, self._plain), (25, self._bent_value), (15, self._bent_bytes), (12, self._bent_target),
            (12, self._bent_headers), (6, self._bent_method), (10, self._bent_protocol),
        ]  # fmt: skip
        self._weights = [weight for weight, _ in kinds]
        self._kinds = [kind for _, kind in kinds]

    def next(self) -> Attack:
        (kind,) = self._rng.choices(self._kinds, self._weights)
        return kind()

    # ---- kinds

    def _plain(self) -> Attack:
        method, path, entry = self._pick()
        return self._request("plain", method, self._target(path, entry), self._encoded(self._body(entry)))

    def _bent_value(self) -> Attack:
        method, path, entry = self._pick(with_body=True)
        body = self._body(entry)
        for _ in range(self._rng.randint(1, 3)):
            body = self._bend(body)
        return self._request("value", method, self._target(path, entry), self._encoded(body))

    def _bent_bytes(self) -> Attack:
        method, path, entry = self._pick(with_body=True)
        raw = bytearray(self._encoded(self._body(entry)) or b"{}")
        for _ in range(self._rng.randint(1, 6)):
            at = self._rng.randrange(len(raw) + 1)
            what = self._rng.randrange(8)
            if what == 0:
                del raw[at:]
            elif what == 1:
                raw[at:at] = bytes(self._rng.randrange(256) for _ in range(self._rng.randint(1, 8)))
            elif what == 2:
                raw[at:at] = self._rng.choice(LITERALS)
            elif what == 3:
                raw[at:at] = self._rng.choice((b"[", b'{"a":')) * self._rng.choice((1, 33, 5_000, 100_000))
            elif what == 4:
                raw = bytearray(bytes(raw).replace(b'":', b'":1,"x":', 1))
            elif what == 5 and b'"' in raw:
                # The same key twice.
                key = bytes(raw).split(b'"')[1]
                raw = bytearray(bytes(raw).replace(b"{", b'{"' + key + b'":null,', 1))
            elif what == 6:
                raw += b" " * self._rng.choice((1, 70_000, 1_100_000))
            elif raw:
                raw[at % len(raw)] ^= 1 << self._rng.randrange(8)
        return self._request("bytes", method, self._target(path, entry), bytes(raw))

    def _bent_target(self) -> Attack:
        method, path, entry = self._pick()
        target = self._rng.choice(ODD_PATHS) if self._rng.random() < 0.4 else self._target(path, entry, odd=True)
        return self._request("target", method, target, self._encoded(self._body(entry)))

    def _bent_headers(self) -> Attack:
        method, path, entry = self._pick()
        odd = self._rng.choices(ODD_HEADERS, k=self._rng.choice((1, 1, 2, 3, 120)))
        return self._request("headers", method, self._target(path, entry), self._encoded(self._body(entry)), odd)

    def _bent_method(self) -> Attack:
        _, path, entry = self._pick()
        method = self._rng.choice(METHODS)
        return self._request("method", method, self._target(path, entry), self._encoded(self._body(entry)))

    def _bent_protocol(self) -> Attack:
        good = self._request("good", "GET", "/v1/jobs?limit=1", None).data
        post = self._request("good", "POST", "/v1/jobs", b'{"spec":{"command":["x"]}}').data
        head, _, body = post.partition(b"\r\n\r\n")
        bare = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length"))
        chunked = bare + b"\r\ntransfer-encoding: chunked\r\n\r\n"
        one = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        rubbish = bytes(self._rng.randrange(256) for _ in range(self._rng.randint(1, 600)))
        cut = self._rng.randrange(len(post))
        return self._rng.choice((
            Attack("rubbish", rubbish, whole=False),
            Attack("cut", post[:cut], whole=False),
            Attack("pipelined", good * 5, answers=5),
            Attack("pipelined flood", good * 200, whole=False),
            Attack("length too short", head.replace(b"content-length: ", b"content-length: 0"), whole=False),
            Attack("length negative", bare + b"\r\ncontent-length: -1\r\n\r\n" + body),
            Attack("length huge", bare + b"\r\ncontent-length: 99999999999999999999\r\n\r\n" + body),
            Attack("length large", bare + b"\r\ncontent-length: 4000000000\r\n\r\n" + body, last=True),
            Attack("two lengths", head + b"\r\ncontent-length: 1\r\n\r\n" + body),
            Attack("length and chunks", head + b"\r\ntransfer-encoding: chunked\r\n\r\n" + one),
            Attack("chunked", chunked + one),
            Attack("bad chunk", chunked + b"zz\r\n" + body),
            Attack("huge chunk", chunked + b"ffffffffffffffffff\r\n" + body),
            Attack("endless chunks", chunked + (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * 20, whole=False),
            Attack("chunk extension", chunked + b"1;" + b"x" * 9_000 + b"\r\n{\r\n0\r\n\r\n", whole=False),
            Attack("odd transfer", bare + b"\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", whole=False),
            Attack("obsolete fold", good.replace(b"\r\n\r\n", b"\r\nx-fold: a\r\n b\r\n\r\n")),
            Attack("lines of LF", good.replace(b"\r\n", b"\n"), whole=False),
            Attack("no host", b"GET /v1/jobs HTTP/1.1\r\n\r\n"),
            Attack("HTTP/1.0", good.replace(b"HTTP/1.1", b"HTTP/1.0")),
            Attack("HTTP/0.9", b"GET /v1/jobs\r\n\r\n", whole=False),
            Attack("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 40, whole=False),
            Attack("HTTP/9.9", good.replace(b"HTTP/1.1", b"HTTP/9.9"), whole=False),
            Attack("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rubbish, whole=False),
            Attack("space before colon", good.replace(b"host:", b"host :", 1), whole=False),
            Attack("many headers", good.replace(b"\r\n\r\n", b"\r\n" + b"a: b\r\n" * 5_000 + b"\r\n"), whole=False),
            Attack("long header", good.replace(b"\r\n\r\n", b"\r\nx: " + b"y" * 90_000 + b"\r\n\r\n"), whole=False),
            Attack("socket", self._socket(), whole=False),
            Attack("trailers", trailers(self._rng, chunked, body), whole=False),
            Attack("head", heads(self._rng, good), whole=False),
            Attack("handshake", handshake(self._rng), whole=False),
        ))  # fmt: skip

    def _socket(self) -> bytes:
        """A WebSocket that is opened and then spoken to in rubbish."""
        asked = [("upgrade", "websocket"), ("connection", "upgrade"), ("sec-websocket-version", "13")]
        key = ("sec-websocket-key", self._rng.choice(("dGhlIHNhbXBsZSBub25jZQ==", "x", "")))
        target = self._rng.choice(("/v1/events", f"/v1/jobs/{self._id()}/logs", "/v1/nowhere", "/v1/events?cursor=x"))
        frames = bytes(self._rng.randrange(256) for _ in range(self._rng.choice((0, 10, 2_000))))
        return self._request("socket", "GET", target, None, [*asked, key]).data + frames

    # ---- parts of a request

    def _pick(self, *, with_body: bool = False) -> tuple[str, str, dict[str, Any]]:
        while True:
            method, path, entry = self._rng.choice(self._operations)
            if "requestBody" in entry or not with_body:
                return method, path, entry

    def _id(self) -> str:
        return self._rng.choice(self.known.ids[-200:])

    def _target(self, path: str, entry: dict[str, Any], *, odd: bool = False) -> str:
        pairs: list[str] = []
        for parameter in entry.get("parameters", ()):
            name, place = parameter["name"], parameter["in"]
            value = self._odd_text() if odd and self._rng.random() < 0.6 else self._parameter(name, parameter["schema"])
            if place == "path":
                safe = self._rng.choice(("", "/", "%")) if odd else ""
                path = path.replace(f"{{{name}}}", quote(value, safe=safe, errors="replace"))
            elif place == "query" and (parameter.get("required") or self._rng.random() < 0.3):
                pairs += [f"{name}={quote(value, errors='replace')}"] * (1 + (odd and self._rng.random() < 0.2))
        return path + ("?" + "&".join(pairs) if pairs else "")

    def _parameter(self, name: str, schema: dict[str, Any]) -> str:
        if name == "id":
            return self._id()
        if name in ("name", "tenant", "user", "node"):
            return self._rng.choice(self.known.names[-200:])
        return str(self._sample(schema, 2))

    def _body(self, entry: dict[str, Any]) -> Any:
        if "requestBody" not in entry:
            return None
        content = entry["requestBody"]["content"].get("application/json", {})
        if "example" in content and self._rng.random() < 0.6:
            return json.loads(json.dumps(content["example"]))
        return self._sample(content.get("schema", {}), 0)

    def _encoded(self, body: Any) -> bytes | None:
        return (
            None if body is None else json.dumps(body, ensure_ascii=self._rng.random() < 0.5).encode("utf-8", "replace")
        )

    def _request(
        self, name: str, method: str, target: str, body: bytes | None, odd: list[tuple[str, str]] | None = None
    ) -> Attack:
        fields = {"host": "localhost", "authorization": f"Bearer {self._rng.choice(self._tokens)}"}
        if body is not None:
            fields["content-type"] = "application/json"
        lines = [f"{key}: {value}" for key, value in fields.items() if key not in dict(odd or ())]
        lines += [f"{key}: {value}" for key, value in odd or ()]
        if body is not None:
            lines.append(f"content-length: {len(body)}")
        data = "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode("utf-8", "replace") + (body or b"")
        upgrades = any(key in ("upgrade", "connection") for key, _ in odd or ())
        endless = "/events" in target or "/logs" in target
        # What a proxy or parser may see differently has no answer of its own to wait for.
        whole = not (upgrades or "\r" in target or " " in target or method in ("CONNECT", "HEAD", ""))
        return Attack(f"{name} {method} {target[:200]}", data, whole=whole, endless=endless)

    # ---- values

    def _odd_text(self) -> str:
        if self._rng.random() < 0.2:
            return "".join(
                chr(self._rng.choice((self._rng.randrange(32, 127), self._rng.randrange(0xD7FF)))) for _ in range(9)
            )
        return self._rng.choice(ODD_TEXTS)

    def _odd(self) -> Any:
        return self._rng.choice((
            self._odd_text, lambda: self._rng.choice(ODD_NUMBERS), lambda: self._rng.choice(ODD_VALUES),
            lambda: [self._odd_text()[:200]] * self._rng.choice((1, 3, 300)),
            lambda: {self._odd_text(): self._rng.choice(ODD_NUMBERS)}, self._nested,
        ))()  # fmt: skip

    def _nested(self) -> Any:
        value: Any = 1
        for _ in range(self._rng.choice((5, 31, 40, 200))):
            value = [value] if self._rng.random() < 0.5 else {"a": value}
        return value

    def _bend(self, value: Any, *, grow: bool = True) -> Any:
        """The same value, wrong in one place. Only the outermost list may grow, or it would without bound."""
        if isinstance(value, dict) and value and self._rng.random() < 0.85:
            fields = cast("dict[str, Any]", value)
            key = self._rng.choice(sorted(fields))
            what = self._rng.random()
            if what < 0.1:
                return {k: v for k, v in fields.items() if k != key}
            if what < 0.2:
                return {**fields, self._odd_text(): self._odd()}
            return {**fields, key: self._bend(fields[key], grow=grow)}
        if isinstance(value, list) and value and self._rng.random() < 0.7:
            items = cast("list[Any]", value)
            at = self._rng.randrange(len(items))
            many = self._rng.choice((1, 1, 1, 30)) if grow and len(items) < 10 else 1
            return [*items[:at], self._bend(items[at], grow=False), *items[at + 1 :]] * many
        return self._odd()

    def _sample(self, schema: dict[str, Any], depth: int) -> Any:
        """Something that nearly fits."""
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        if "enum" in schema:
            return self._rng.choice(schema["enum"])
        if "anyOf" in schema:
            return None if depth > 9 else self._sample(self._rng.choice(schema["anyOf"]), depth + 1)
        kind = schema.get("type")
        if kind == "object":
            wanted = set(schema.get("required", ()))
            chosen = {
                name: self._sample(inner, depth + 1)
                for name, inner in schema.get("properties", {}).items()
                if (name in wanted and depth < 9) or (depth < 4 and self._rng.random() < 0.25)
            }
            more = schema.get("additionalProperties")
            if isinstance(more, dict) and depth < 5:
                inner = cast("dict[str, Any]", more)
                chosen |= {self._word(): self._sample(inner, depth + 1) for _ in range(self._rng.randrange(3))}
            return chosen
        if kind == "array":
            # Types may hold themselves.
            many = 0 if depth > 6 else self._rng.randint(0, 2) + (depth < 3)
            return [self._sample(schema.get("items", {}), depth + 1) for _ in range(many)]
        if kind in ("integer", "number"):
            low, high = schema.get("minimum", 0), schema.get("maximum", 10_000)
            return self._rng.choice((low, high, self._rng.randint(int(low), max(int(low), min(int(high), 10**6)))))
        if kind == "boolean":
            return self._rng.random() < 0.5
        return None if kind == "null" else self._word()

    def _word(self) -> str:
        words = ("train", "default", "acme", "gpu", "5", "0s", "1h", "NORMAL", "QUEUED", *self.known.names[-5:])
        letters = string.ascii_lowercase + string.digits
        return self._rng.choice((*words, "".join(self._rng.choices(letters, k=self._rng.randint(1, 12)))))
