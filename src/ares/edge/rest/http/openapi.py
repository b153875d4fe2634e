"""The OpenAPI 3.1 document, made from the table of routes and the types they use."""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, cast

import msgspec

from ares import __version__
from ares.core.access.table import TABLE
from ares.edge.rest.answers import ProblemDocument
from ares.edge.rest.http.operation import PUBLIC, Operation
from ares.edge.rest.http.problems import KINDS, MEDIA_TYPE
from ares.model.base import RequestId

_REF = "#/components/schemas/{name}"
_REFERENCE = re.compile(r"#/components/schemas/(\w+)")
# Python's end-of-text needs help that other languages do not.
_PYTHON_ONLY = r"(?!\n)"

_HEADERS: dict[str, tuple[Any, str]] = {
    "Idempotency-Key": (RequestId, "The request id: the same id with the same payload gives the same job."),
    "Range": (str, "One range of bytes, such as `bytes=100-199`."),
    "traceparent": (str, "W3C trace context of the caller."),
    "Last-Event-ID": (str, "Resume after this event; like `cursor`."),
}
_EXAMPLES: dict[str, Any] = {
    "FeedbackBody": {"verdict": "no-anomaly", "note": "the nightly import"},
    "ReportBody": {"first": "2026-11-01", "last": "2026-11-30", "format": "html"},
    "LoginBody": {"provider": "corp"},
    "LoginCodeBody": {"code": "4/0AbC", "state": "qF3y"},
    "PartsBody": {"version": "5f" * 32, "parts": ["9a" * 32]},
    "ProjectManifest": {
        "entries": [["run.py", "link", 511, 0, [], "src/empty.py"], ["src", "dir", 493], ["src/empty.py", "file"]]
    },
    "SubmitBody": {
        "requestId": "nightly-2026-11-15",
        "tenantId": "research",
        "spec": {
            "name": "train",
            "command": ["python", "train.py"],
            "resources": {"memoryMib": 8192, "gpus": 2},
            "timeLimitS": 3600,
        },
        "inputRefs": ["s3://datasets/imagenet/train"],
        "priority": 1,
        "estimateCores": 4,
        "expectedRuntime": 1800,
        "costEstimate": 12.5,
    },
    "FlowBody": {
        "name": "nightly",
        "jobs": {
            "prep": {"command": ["true"]},
            "train": {"command": ["true"], "needs": [{"job": "prep", "on": "success"}]},
        },
    },
    "FlowRetryBody": {"jobs": ["train"]},
    "BatchBody": {"jobs": [{"spec": {"command": ["true"]}}, {"requestId": "two", "spec": {"command": ["true"]}}]},
    "ReasonBody": {"reason": "the input was fixed"},
    "JobUpdate": {"priority": "HIGH", "timeLimitS": 7200, "resources": {"memoryMib": 16384}, "reason": "more data"},
    "DeadBody": {"reason": "the site has burned down", "confirm": "alpha"},
    "UplinkBody": {"api": "https://global.example.org:8642", "token": "TOKEN", "name": "alpha", "region": "eu-north"},
    "BulkBody": {"filter": {"name": "sweep", "phases": ["PENDING"]}, "dryRun": True},
    "BulkUpdateBody": {"filter": {"user": "ada", "labels": {"exp": "7"}}, "update": {"priority": "LOW"}},
    "CronBody": {
        "schedule": "30 3 * * *",
        "zone": "Europe/Berlin",
        "overlap": "forbid",
        "spec": {"name": "report", "command": ["python", "report.py"]},
    },
    "ReplayBody": {"weights": {"cost": 30}},
    "SessionBody": {"id": "0f3a9c5e7b2d4f60", "kind": "exec", "command": ["nvidia-smi"], "rank": 0},
    "SecretBody": {"value": "s3cr3t", "expectedVersion": 2},
    "TokenBody": {"role": "submitter", "name": "ci", "ttlS": 86400, "user": "ci-bot"},
    "OwnTokenBody": {"name": "laptop", "ttlS": 86400, "permissions": ["jobs:read", "logs:read"]},
    "TenantBody": {"name": "research", "note": "the third floor"},
    "TenantChange": {"disabled": True},
    "QuotaBody": {"quota": {"own": {"amounts": {"gpus": {"hard": 8, "soft": 6}}, "priority": "HIGH"}}},
    "QuotaChange": {"level": "user", "name": "ada", "amounts": {"gpus": {"hard": 2}}},
    "UserBody": {"name": "ada", "role": "submitter", "team": "vision", "identity": "https://login.example.com 4711"},
    "UserChange": {"role": "tenant-admin", "team": None},
    "JoinTokenBody": {"node": "gpu-07"},
    "JoinBody": {"name": "gpu-07", "request": "-----BEGIN CERTIFICATE REQUEST-----\n..."},
    "PolicyBody": {"when": "job.gpus > 8", "action": "reject", "message": "ask the operators first"},
    "DraftBody": {"when": "job.time_limit_s == 0.0", "action": "set", "set": {"timeLimitS": "86400.0"}},
    "RevertBody": {"version": 3, "note": "too strict"},
    "PolicyNote": {"note": "for the demo"},
    "AlertNote": {"note": "seen to"},
    "ChannelBody": {"kind": "webhook", "url": "https://hooks.example/ares", "severity": "warning"},
    "ProfileBody": {"profile": {"preemption": {"gap": 1}, "shares": {"alpha": {"weight": 2.0}}}, "expectedVersion": 3},
    "ShadowBody": {"settings": {"backfill.order": "shortest"}, "objective": "slowdown", "promotes": "when-better"},
    "SettingsBody": {"settings": {"weight.cost": "0.3", "shares.alpha.hard.gpu": "64000"}, "note": "for the sweep"},
    "NoteBody": {"note": "it was better before"},
    "Taint": {"key": "maintenance", "value": "disk", "effect": "no-schedule"},
    "ConsolidationBody": {"gpus": 8, "nodes": 2},
    "ReservationBody": {
        "asked": {"gpus": 64, "gpuModel": "H100"},
        "start": 1_795_010_400.0,
        "lengthS": 14_400,
        "tenant": "alpha",
        "name": "demo",
    },
    "ExtendBody": {"moreS": 3600},
    "TreeModel": {
        "base": 6.2,
        "features": ["limit"],
        "trees": [
            {
                "feature": [0, -1, -1], "threshold": [8.0, 0.0, 0.0], "left": [1, 0, 0], "right": [2, 0, 0],
                "value": [0.0, -0.4, 0.3], "unknownLeft": [1, 0, 0],
            }
        ],
        "heldOut": {
            "jobs": 300, "modelMaeS": 210.0, "modelDistance": 0.4, "historyMaeS": 240.0, "historyDistance": 0.5,
        },
    },
}  # fmt: skip
_DESCRIPTION = """Ares runs jobs to exactly one committed result.

Every path under `/v1` is also served under `/api/v1`. Errors are problem documents (RFC 9457) with a
stable `code`. `GET /v1/events` and `GET /v1/jobs/{id}/logs` are also WebSockets with the same query."""


def document(operations: Iterable[Operation], path_parameters: Mapping[str, str]) -> bytes:
    operations = tuple(operations)
    schemas, components = _schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        entry = _operation(operation, schemas, components, path_parameters)
        paths.setdefault(f"/v1{operation.path}", {})[operation.method.lower()] = entry
    for operation in operations:
        components.pop(operation.query.__name__, None)
    _close_requests(operations, components)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Ares", "version": __version__, "description": _DESCRIPTION},
            "servers": [{"url": "/"}],
            "security": [{"token": []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "ares_<id>_<secret>"}
                },
            },
        }
    )


def _schemas(operations: Iterable[Operation]) -> tuple[dict[Any, Any], dict[str, Any]]:
    types: list[Any] = [ProblemDocument, *(kind for kind, _ in _HEADERS.values())]
    for operation in operations:
        types += [operation.query, *(kind for _, kind in operation.answers.values() if kind is not None)]
        types += [operation.body.type] if operation.body is not None and not operation.body.binary else []
    found, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = {repr(kind): _portable(schema) for kind, schema in zip(types, found, strict=True)}
    return by_type, {name: _portable(schema) for name, schema in sorted(components.items())}


def _portable(schema: Any) -> Any:
    if isinstance(schema, dict):
        fields = cast("dict[str, Any]", schema)
        return {k: v.replace(_PYTHON_ONLY, "") if k == "pattern" else _portable(v) for k, v in fields.items()}
    if isinstance(schema, list):
        return [_portable(item) for item in cast("list[Any]", schema)]
    return schema


def _operation(
    operation: Operation, schemas: dict[Any, Any], components: dict[str, Any], path_parameters: Mapping[str, str]
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "x-ares-permission": operation.access,
        "parameters": _parameters(operation, schemas, components, path_parameters),
        "responses": _responses(operation, schemas),
    }
    if operation.access == PUBLIC:
        entry["security"] = []
    if operation.body is not None and operation.body.binary:
        content: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        entry["requestBody"] = {"required": operation.body.required, "content": content}
    elif operation.body is not None:
        name = operation.body.type.__name__
        content = {"schema": schemas[repr(operation.body.type)], "example": _EXAMPLES[name]}
        entry["requestBody"] = {"required": operation.body.required, "content": {"application/json": content}}
    return entry


def _parameters(
    operation: Operation, schemas: dict[Any, Any], components: dict[str, Any], path_parameters: Mapping[str, str]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in re.findall(r"\{(\w+)\}", operation.path):
        schema = {"type": "string", "pattern": path_parameters[name]}
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    query = components[operation.query.__name__]
    for name, schema in query.get("properties", {}).items():
        required = name in query.get("required", ())
        found.append({"name": name, "in": "query", "required": required, "schema": _parameter_schema(schema)})
    for name in operation.headers:
        kind, description = _HEADERS[name]
        found.append({"name": name, "in": "header", "description": description, "schema": schemas[repr(kind)]})
    return found


def _parameter_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A query string has no null: leaving the parameter out says it."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        return choices[0]
    return schema


def _responses(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, (media_type, kind) in operation.answers.items():
        # One of several types, by what was asked for.
        content = {media: {"schema": schemas[repr(kind)]} for media in media_type.split(", ") if media}
        answers[str(status)] = {"description": HTTPStatus(status).phrase, **({"content": content} if content else {})}
    by_status: dict[int, list[str]] = {}
    for code in _codes(operation):
        by_status.setdefault(KINDS[code].status, []).append(code)
    problem = {MEDIA_TYPE: {"schema": schemas[repr(ProblemDocument)]}}
    for status, codes in sorted(by_status.items()):
        said = "; ".join(f"`{code}`: {KINDS[code].title}" for code in codes)
        known = answers.setdefault(str(status), {"description": said, "content": {}})
        known["content"] = {**known.get("content", {}), **problem}
    return answers


def _codes(operation: Operation) -> list[str]:
    codes = [
        "bad-request", "bad-origin", "wrong-host", "head-too-large", "invalid", "unknown-field", "internal",
        *operation.problems,
        *(("break-glass",) if "glass" in TABLE.get(cast("Any", operation.access), {}).values() else ()),
    ]  # fmt: skip
    if operation.access != PUBLIC:
        codes += ["unauthenticated", "forbidden", "rate-limited", "overloaded", "store-unavailable", "store-full"]
    if operation.method != "GET" and not operation.reads:
        codes += ["audit-unavailable", "audit-full"]
    if "{" in operation.path:
        codes.append("not-found")
    if operation.body is not None:
        codes += [
            "malformed-json",
            "duplicate-key",
            "too-deep",
            "request-timeout",
            "too-large",
            "unsupported-media-type",
        ]
    return codes


def _close_requests(operations: Iterable[Operation], components: dict[str, Any]) -> None:
    """Requests may hold no fields but the known ones."""
    bodies = [operation.body for operation in operations if operation.body is not None]
    waiting = [body.type.__name__ for body in bodies if not body.binary]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            schema = components[name]
            if "properties" in schema:
                schema["additionalProperties"] = False
            waiting += _REFERENCE.findall(msgspec.json.encode(schema).decode())
