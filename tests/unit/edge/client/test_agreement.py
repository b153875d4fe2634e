"""The client's answers are read from what the server writes, and both clients from one file: they must not drift."""

from typing import Any

import msgspec
import pytest

from ares.api.jobs import SubmitBody
from ares.edge.client.calls import answers
from ares.edge.rest import answers as server
from ares.edge.rest import bodies
from ares.edge.rest.handlers import identity as server_identity
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
