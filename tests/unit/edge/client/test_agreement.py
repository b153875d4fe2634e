"""The client's answers are read from what the server writes: their fields must not drift apart."""

from typing import Any

import msgspec
import pytest

from ares.edge.client import answers
from ares.edge.rest import answers as server
from ares.edge.rest import bodies
from ares.services import jobs as service_jobs
from ares.services import listing as service_listing
from ares.services import nodes as service_nodes

PAIRS: list[tuple[Any, Any]] = [
    (answers.Submitted, server.Created),
    (answers.BatchItem, server.BatchOutcome),
    (answers.Refusal, server.ProblemDocument),
    (answers.Problem, server.ProblemDocument),
    (answers.JobDetail, service_jobs.JobDetail),
    (answers.JobPage, service_listing.JobPage),
    (answers.Waiting, service_listing.Waiting),
    (answers.NodeView, service_nodes.NodeView),
    (answers.PoolView, service_nodes.PoolView),
    (answers.LeaseView, service_nodes.LeaseView),
    (answers.TokenView, server.TokenView),
    (answers.NewToken, server.NewToken),
    (answers.WhoAmI, server.WhoAmI),
    (answers.StreamEvent, server.StreamedEvent),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_field_read_is_a_field_written(ours: Any, theirs: Any) -> None:
    written = {field.encode_name for field in msgspec.structs.fields(theirs)}
    assert {field.encode_name for field in msgspec.structs.fields(ours)} <= written


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (bodies.TokenBody, {"role", "name", "tenant", "ttlS"}),
        (bodies.JoinTokenBody, {"node", "ttlS"}),
        (bodies.SubmitBody, {"spec", "requestId"}),
        (bodies.JobsQuery, {"phase", "name", "label", "array", "node", "arrays", "sort", "limit", "cursor"}),
        (bodies.LogsQuery, {"tail", "follow", "attempt", "rank", "offset"}),
        (bodies.EventsQuery, {"job"}),
        (bodies.LeasesQuery, {"job"}),
        (bodies.ResolveQuery, {"prefix"}),
    ],
)
def test_every_field_sent_is_a_field_known(kind: Any, fields: set[str]) -> None:
    assert fields <= {field.encode_name for field in msgspec.structs.fields(kind)}
