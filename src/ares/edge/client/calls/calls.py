"""Requests of the API as values, and how an answer is read. No I/O here.

Here are those about jobs, which every command loads; the others lie beside, each with the records of its answers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import urandom
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from ares.api.jobs import JobDetail, JobPage, LogMatches, SubmitBody
from ares.edge.client.calls import answers
from ares.edge.client.errors import BadAnswer, api_error
from ares.edge.client.reader import read
from ares.model.job import JobSpec
from ares.model.state import JobState, LedgerEvent

T = TypeVar("T")
Params = Mapping[str, object]
BATCH_JOBS = 1000
BATCH_BYTES = 8 * 1024 * 1024

# The header of a body.
JSON = (("content-type", "application/json"),)


class Request(msgspec.Struct, frozen=True):
    """One HTTP request, without a host."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    # Sending it twice does no harm: it only reads, it sets, or it carries a request id.
    repeatable: bool = True


class Call(msgspec.Struct, Generic[T], frozen=True):
    """A request and the type of its answer."""

    request: Request
    type: Any
    # Name of the answer's field that holds the value, when it is wrapped.
    field: str = ""

    def raw(self) -> "Call[Any]":
        """The same request, answered with the API's objects as they are."""
        return cast("Call[Any]", replace(self, type=object, field=""))

    def read(self, raw: Any) -> T:
        """The value of an answer got by `raw`."""
        return cast("T", read(raw[self.field] if self.field else raw, self.type))


class Reply(msgspec.Struct, frozen=True):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


def read_answer(call: Call[T], reply: Reply) -> T:
    """The value of a good answer; an exception for any other."""
    if reply.status >= 400:
        raise read_problem(reply, call.request)
    if call.type is None:
        return cast("T", None)
    if call.type is bytes:
        return cast("T", reply.body)
    try:
        return cast("T", _decoded(_field(reply.body, call.field) if call.field else reply.body, call.type))
    except (msgspec.DecodeError, KeyError, UnicodeError) as error:
        path = f"{call.request.method} {call.request.path}"
        raise BadAnswer(f"{path} answered {reply.status} with {reply.body[:80]!r} ({error})") from error


def _decoded(body: bytes | msgspec.Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        return read(msgspec.json.decode(body), kind)


def _field(body: bytes, name: str) -> msgspec.Raw:
    return msgspec.json.decode(body, type=dict[str, msgspec.Raw])[name]


def read_problem(reply: Reply, asked: Request, tried: str = "") -> Exception:
    """The exception for an error answer, with the server's own words where it gave them, and the addresses `tried`."""
    try:
        problem = msgspec.json.decode(reply.body, type=answers.ErrorBody)
    except (msgspec.DecodeError, UnicodeError):
        problem = answers.ErrorBody(detail=reply.body[:200].decode("utf-8", "replace").strip())
    words = problem.detail or problem.title or _not_ready(reply) or f"HTTP {reply.status}"
    if reply.status == 404:
        # What is not there cannot say its name: the path does. An answer without a code is a proxy's page.
        words = f"{asked.path}: {problem.detail}" if problem.code and problem.detail else asked.path
    detail = "".join((words, f" (at {problem.path})" if problem.path else "", f" ({tried})" if tried else ""))
    return api_error(reply.status, detail, code=problem.code, fix=problem.fix, retry_after_s=retry_after_s(reply))


def _not_ready(reply: Reply) -> str:
    """What a replica that cannot serve says about itself."""
    try:
        checks = msgspec.json.decode(reply.body, type=answers.Readiness).checks
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return "; ".join(f"{check}: {said}" for check, said in checks.items())


def retry_after_s(reply: Reply) -> float | None:
    """Seconds the server asks to wait. The date form of the header is not one Ares uses."""
    text = reply.headers.get("retry-after", "")
    return float(text) if text.replace(".", "", 1).isdecimal() else None


# ---- jobs


def new_request_id() -> str:
    return urandom(16).hex()


def submit(spec: JobSpec, request_id: str) -> Call[answers.Submitted]:
    return _post("/v1/jobs", answers.Submitted, SubmitBody(spec=spec, request_id=request_id), repeatable=True)


def batches(jobs: Iterable[tuple[JobSpec, str]]) -> Iterator[Call[tuple[answers.BatchItem, ...]]]:
    """Requests of many jobs each, within what the server takes at once."""
    encoded = (msgspec.json.encode(SubmitBody(spec=spec, request_id=request_id)) for spec, request_id in jobs)
    batch: list[msgspec.Raw] = []
    size = 0
    for job in encoded:
        if batch and (len(batch) == BATCH_JOBS or size + len(job) > BATCH_BYTES):
            yield _batch(batch)
            batch, size = [], 0
        batch.append(msgspec.Raw(job))
        size += len(job)
    if batch:
        yield _batch(batch)


def _batch(jobs: Sequence[msgspec.Raw]) -> Call[tuple[answers.BatchItem, ...]]:
    return _post("/v1/jobs/batch", tuple[answers.BatchItem, ...], {"jobs": jobs}, field="results", repeatable=True)


def job(job_id: str) -> Call[JobDetail]:
    return _get(f"/v1/jobs/{part(job_id)}", JobDetail)


def jobs(params: Params) -> Call[JobPage]:
    return _get("/v1/jobs", JobPage, params)


def job_filters(
    *,
    phase: Iterable[str],
    name: str | None,
    label: Mapping[str, str] | None,
    array: str | None,
    node: str | None,
    sort: str,
    limit: int,
    arrays: str = "tasks",
    user: str | None = None,
    since: float | None = None,
    until: float | None = None,
) -> Params:
    """The parameters of `jobs`."""
    labels = [f"{key}={value}" for key, value in (label or {}).items()]
    return {
        "phase": list(phase),
        "name": name,
        "label": labels,
        "array": array,
        "node": node,
        "user": user,
        "since": since,
        "until": until,
        "arrays": arrays,
        "sort": sort,
        "limit": limit,
    }


def resolve(prefix: str) -> Call[tuple[str, ...]]:
    return _get("/v1/jobs/resolve", tuple[str, ...], {"prefix": prefix}, field="ids")


def cancel(job_id: str, reason: str) -> Call[JobState]:
    return Call(Request("DELETE", f"/v1/jobs/{part(job_id)}", query({"reason": reason})), JobState)


def hold(job_id: str, reason: str) -> Call[JobState]:
    return _post(f"/v1/jobs/{part(job_id)}/hold", JobState, {"reason": reason}, repeatable=False)


def release(job_id: str, reason: str) -> Call[JobState]:
    return _post(f"/v1/jobs/{part(job_id)}/release", JobState, {"reason": reason}, repeatable=False)


def retry(job_id: str, reason: str, request_id: str) -> Call[JobState]:
    """Under a request id it is one retry, however often it is sent."""
    call = _post(f"/v1/jobs/{part(job_id)}/retry", JobState, {"reason": reason}, repeatable=True)
    return replace(call, request=replace(call.request, headers=(*JSON, ("idempotency-key", request_id))))


def job_events(job_id: str) -> Call[tuple[LedgerEvent, ...]]:
    return _get(f"/v1/jobs/{part(job_id)}/events", tuple[LedgerEvent, ...], field="events")


def job_logs(job_id: str, params: Params) -> Request:
    return Request("GET", f"/v1/jobs/{part(job_id)}/logs", query(params))


def search_logs(job_id: str, params: Params) -> Call[LogMatches]:
    return _get(f"/v1/jobs/{part(job_id)}/logs/search", LogMatches, params)


def event_stream(cursor: str, job_id: str | None) -> Request:
    headers = (("accept", "text/event-stream"), *((("last-event-id", cursor),) if cursor else ()))
    return Request("GET", "/v1/events", query({"job": job_id}), headers=headers)


# ---- the platform


def readiness() -> Call[dict[str, str]]:
    """What a replica says about itself. One that cannot serve refuses with the same."""
    return _get("/readyz", dict[str, str], field="checks")


# ---- building blocks


def _get(path: str, kind: Any, params: Params = {}, *, field: str = "") -> Call[Any]:  # noqa: B006
    return Call(Request("GET", path, query(params)), kind, field)


def _post(path: str, kind: Any, body: object, *, field: str = "", repeatable: bool = False) -> Call[Any]:
    return Call(Request("POST", path, (), msgspec.json.encode(body), JSON, repeatable), kind, field)


def query(params: Params) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for key, value in params.items():
        values = cast("Sequence[object]", value) if isinstance(value, tuple | list) else (value,)
        pairs.extend((key, _text(item)) for item in values if item is not None and item != "")
    return tuple(pairs)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def part(text: str) -> str:
    """One step of a path."""
    return quote(text, safe="")
