"""What clients get. Values are written out whole: a reader need not know our defaults."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from ares.api.deadlines import DeadlineSeen
from ares.api.decisions import PrioRow
from ares.api.identity import TokenView
from ares.api.jobs import JobWarning
from ares.api.nodes import ClusterView, LeaseView, NodeView
from ares.api.quotas import LevelUse
from ares.control.state.pacing import WORKED_ON, breathe
from ares.core.refusal import Refusal
from ares.edge.rest.http.problems import MEDIA_TYPE, NOT_FOUND, Problem, granted, problem_of
from ares.edge.rest.http.request_context import noted
from ares.model.base import Record, Shown
from ares.model.state import LedgerEvent, SpecUpdate

JSON = "application/json"
_JSON = JSON.encode()
_CONTAINERS = frozenset({tuple, list, dict})
_encode = msgspec.json.Encoder().encode


class Created(Shown, frozen=True):
    """A submitted job. `replayed`: an earlier request with the same id made it."""

    id: str
    replayed: bool
    tasks: int
    links: dict[str, str]
    warnings: tuple[JobWarning, ...] = ()
    # Whether it will meet its deadline, by the estimates.
    deadline: DeadlineSeen | None = None


class ProblemDocument(Record, frozen=True):
    """RFC 9457. `code` is stable, `fix` says what to do next, `path` points into the request."""

    type: str
    title: str
    status: int
    code: str
    fix: str
    detail: str | None = None
    instance: str | None = None
    path: str | None = None
    # Of a job that does not fit into a quota: each level's use of what is in the way.
    quota: tuple[LevelUse, ...] = ()


class BatchOutcome(Shown, frozen=True):
    """One job of a batch: an id, or an error."""

    id: str = ""
    replayed: bool = False
    tasks: int = 0
    error: ProblemDocument | None = None
    warnings: tuple[JobWarning, ...] = ()
    deadline: DeadlineSeen | None = None


class BatchAnswer(Shown, frozen=True):
    """Outcomes in the order of the jobs sent."""

    results: list[BatchOutcome]
    created: int
    replayed: int
    rejected: int


class Ids(Shown, frozen=True):
    ids: tuple[str, ...]


class Events(Record, frozen=True):
    events: tuple[LedgerEvent, ...]


class PrioList(Record, frozen=True):
    """Waiting jobs, the first to be placed first."""

    jobs: tuple[PrioRow, ...]


class NodeList(Record, frozen=True):
    nodes: tuple[NodeView, ...]


class ClusterList(Record, frozen=True):
    clusters: tuple[ClusterView, ...]


class LeaseList(Record, frozen=True):
    leases: tuple[LeaseView, ...]


class TokenList(Shown, frozen=True):
    tokens: tuple[TokenView, ...]


class HealthView(Shown, frozen=True):
    status: str
    checks: dict[str, str] = {}


class Answer:
    """A whole response. Header names are lower case."""

    __slots__ = ("_body", "_headers", "_status")

    def __init__(
        self, body: bytes, *, status: int = 200, media_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        self._body = body
        self._status = status
        self._headers = [
            (b"content-type", _JSON if media_type is JSON else media_type.encode("latin-1")),
            (b"content-length", b"%d" % len(body)),
        ]
        if headers:
            self._headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The same messages also refuse a WebSocket handshake, under the extension's names.
        prefix: Any = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
        start: Any = {"type": f"{prefix}.start", "status": self._status, "headers": self._headers}
        body: Any = {"type": f"{prefix}.body", "body": self._body, "more_body": False}
        await send(start)
        await send(body)


def answer(
    outcome: Any, *, status: int = 200, headers: Mapping[str, str] | None = None, missing: Refusal = NOT_FOUND
) -> ASGIApp:
    """What a service answered, be it a refusal or, with None, that there is no such object."""
    value = granted(outcome, missing)
    if isinstance(value, msgspec.Struct):
        for part in msgspec.structs.astuple(value):
            if part.__class__ in _CONTAINERS and len(part) > WORKED_ON:
                return _Long(value, status, headers)
    return Answer(_encode(value if isinstance(value, Shown) else whole(value)), status=status, headers=headers)


class _Long:
    """A list or a table that is written out in strides."""

    def __init__(self, value: msgspec.Struct, status: int, headers: Mapping[str, str] | None) -> None:
        self._value = value
        self._status = status
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _in_strides(self._value)
        await Answer(body, status=self._status, headers=self._headers)(scope, receive, send)


def empty(no: Refusal | None = None) -> ASGIApp:
    """Done, unless it was refused."""
    if no is not None:
        raise problem_of(no)
    return Answer(b"", status=204)


def refuse(problem: Problem, instance: str = "") -> ASGIApp:
    answer = Answer(problem.body(instance), status=problem.kind.status, media_type=MEDIA_TYPE, headers=problem.headers)

    async def refusal(scope: Scope, receive: Receive, send: Send) -> None:
        noted(scope).problem = problem
        await answer(scope, receive, send)

    return refusal


# ---- writing values out whole

_names: dict[type, list[str]] = {}
# Most values by far, beside empty ones: that is seen without a call.
_PLAIN = frozenset({str, int, float, bool, type(None)})


def whole(value: Any) -> Any:
    """Records as objects with every field, also those at their default."""
    if isinstance(value, msgspec.Struct):
        names = _names.get(type(value))
        if names is None:
            names = _names[type(value)] = [field.encode_name for field in msgspec.structs.fields(type(value))]
        fields = zip(names, msgspec.structs.astuple(value), strict=True)
        if type(value) is SpecUpdate:
            # It says only what is another than before.
            return {name: whole(item) for name, item in fields if item is not msgspec.UNSET}
        return {name: item if not item or type(item) in _PLAIN else whole(item) for name, item in fields}
    if isinstance(value, tuple | list):
        return [whole(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, dict):
        return {key: whole(item) for key, item in cast("dict[str, Any]", value).items()}
    return value


# ---- in strides


async def _in_strides(value: msgspec.Struct) -> bytes:
    """The same bytes as at once."""
    parts: list[bytes] = []
    shape = _as_it_is if isinstance(value, Shown) else whole
    for field in msgspec.structs.fields(type(value)):
        part = getattr(value, field.name)
        is_long = part.__class__ in _CONTAINERS and len(part) > WORKED_ON
        text = await _pieces(part, shape) if is_long else _encode(shape(part))
        parts.append(b'"%b":%b' % (field.encode_name.encode(), text))
    return b"{%b}" % b",".join(parts)


async def _pieces(value: Any, shape: Callable[[Any], Any]) -> bytes:
    found: list[bytes] = []
    is_table = isinstance(value, dict)
    items: list[Any] = list(cast("dict[str, Any]", value).items() if is_table else value)
    for first in range(0, len(items), WORKED_ON):
        some = items[first : first + WORKED_ON]
        found.append(_encode(dict(map(_shaped(shape), some)) if is_table else list(map(shape, some)))[1:-1])
        await breathe()
    return (b"{%b}" if is_table else b"[%b]") % b",".join(found)


def _shaped(shape: Callable[[Any], Any]) -> Callable[[tuple[str, Any]], tuple[str, Any]]:
    return lambda item: (item[0], shape(item[1]))


def _as_it_is(value: Any) -> Any:
    return value
