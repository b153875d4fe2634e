"""Routes about workflows."""

from ares.api.flows import FlowBody, FlowCreated, FlowDetail, FlowRetryBody
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery, ReasonBody
from ares.edge.rest.handlers import flows
from ares.edge.rest.http.operation import Body, Operation
from ares.edge.rest.http.problems import ADMISSION_CODES, QUOTA_CODES

_TAKEN = ("request-conflict", "queue-full", *QUOTA_CODES, *ADMISSION_CODES)

FLOW_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "submitFlow", "POST", "/flows", "jobs:submit", "Submit a workflow: up to 10,000 jobs, all of them or none.",
        flows.submit_flow, {201: (JSON, FlowCreated), 200: (JSON, FlowCreated)}, NoQuery,
        Body(FlowBody, typed=False, batch=True), ("request-id-mismatch", *_TAKEN), tag="flows",
        headers=("Idempotency-Key", "traceparent"),
    ),
    Operation(
        "getFlow", "GET", "/flows/{id}", "jobs:read", "A workflow: its jobs, what they wait for, and how they stand.",
        flows.get_flow, {200: (JSON, FlowDetail)}, NoQuery, tag="flows",
    ),
    Operation(
        "cancelFlow", "POST", "/flows/{id}/cancel", "jobs:cancel",
        "Cancel all jobs of a workflow, except those that run when the others have ended.", flows.cancel_flow,
        {200: (JSON, FlowDetail)}, NoQuery, Body(ReasonBody, required=False), ("not-allowed",), tag="flows",
    ),
    Operation(
        "retryFlow", "POST", "/flows/{id}/retry", "jobs:retry",
        "Run some jobs of a workflow again, with all that come after them, as a new workflow.", flows.retry_flow,
        {201: (JSON, FlowCreated), 200: (JSON, FlowCreated)}, NoQuery, Body(FlowRetryBody, required=False),
        ("not-allowed", *_TAKEN), tag="flows", headers=("Idempotency-Key",),
    ),
)  # fmt: skip
