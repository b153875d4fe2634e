"""The client's answers are read from what the server writes, and both clients from one file: they must not drift."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ares.api.jobs import SubmitBody
from ares.edge.client.calls import answers
from ares.edge.rest import answers as server
from ares.edge.rest import bodies
from ares.edge.rest.handlers import identity as server_identity
from ares.edge.rest.routes.routes import OPERATIONS, SOCKETS
from scripts import sync_client

PAIRS: list[tuple[Any, Any]] = [
    (answers.Submitted, server.Created),
    (answers.BatchItem, server.BatchOutcome),
    (answers.RefusedJob, server.ProblemDocument),
    (answers.ErrorBody, server.ProblemDocument),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_field_read_is_a_field_written(ours: Any, theirs: Any) -> None:
    written = {field.encode_name for field in msgspec.structs.fields(theirs)}
    assert {field.encode_name for field in msgspec.structs.fields(ours)} <= written


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (server_identity.TokenBody, {"role", "name", "tenant", "ttlS", "user", "permissions"}),
        (server_identity.OwnTokenBody, {"role", "name", "ttlS", "permissions"}),
        (bodies.JoinTokenBody, {"node", "ttlS"}),
        (SubmitBody, {"spec", "requestId"}),
        (bodies.JobsQuery, {"phase", "name", "label", "array", "node", "arrays", "sort", "limit", "cursor"}),
        (bodies.LogsQuery, {"tail", "follow", "attempt", "rank", "offset"}),
        (bodies.EventsQuery, {"job"}),
        (bodies.LeasesQuery, {"job"}),
        (bodies.ResolveQuery, {"prefix"}),
        (bodies.PrioQuery, {"limit"}),
        (bodies.UsageQuery, {"by", "sinceS", "limit"}),
        (bodies.ReplayBody, {"weights"}),
    ],
)
def test_every_field_sent_is_a_field_known(kind: Any, fields: set[str]) -> None:
    assert fields <= {field.encode_name for field in msgspec.structs.fields(kind)}


def test_blocking_client_is_what_the_script_writes() -> None:
    """Else `make fmt` was not run after a change of aio.py, or sync.py was changed by hand."""
    written = sync_client.blocking(sync_client.SOURCE.read_text(encoding="utf-8"))
    assert sync_client.TARGET.read_text(encoding="utf-8") == written


@pytest.mark.parametrize("module", sync_client.GROUPS, ids=lambda module: module.stem)
def test_blocking_groups_of_methods_are_what_the_script_writes(module: Path) -> None:
    """Else `make fmt` was not run after a change of an asynchronous group, or the blocking one was changed by hand."""
    source = module.read_text(encoding="utf-8")
    assert sync_client.grouped(source) == source


def paths_asked() -> Iterator[tuple[str, str]]:
    """Every path that the client's source names, with `{}` for what is put in, and where."""
    for module in sorted(sync_client.CLIENT.rglob("*.py")):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node] if id(node) not in inside else []
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
            if text.startswith("/v1/"):
                yield text.partition("?")[0], f"{module.name}:{node.lineno}"


def is_of(asked: str, path: str) -> bool:
    mine, theirs = asked.split("/"), path.split("/")
    pairs = zip(mine, theirs, strict=False)
    return len(mine) == len(theirs) and all(a == b or "{}" in a or b.startswith("{") for a, b in pairs)


def test_every_path_asked_for_is_a_route() -> None:
    """The client does not know the table of routes; this test does."""
    routes = [f"/v1{route.path}" for route in (*OPERATIONS, *SOCKETS)]
    asked = list(paths_asked())
    assert len(asked) > 60
    lost = [f"{where}: {path}" for path, where in asked if not any(is_of(path, route) for route in routes)]
    assert not lost
