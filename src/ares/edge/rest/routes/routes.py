"""Every route of the API, in one table."""

from ares.api.deadlines import SlaList
from ares.api.decisions import Explanation, PlanAnswer, ReplayAnswer, RouteSeen
from ares.api.identity import NewToken
from ares.api.jobs import CheckpointList, JobDetail, JobPage, LogMatches, OutputList, SubmitBody
from ares.api.nodes import ClusterView, GpuMap, NodeView, Overview
from ares.api.telemetry.traces import JobTrace
from ares.api.usage import UsageReport
from ares.edge.rest.answers import (
    JSON,
    BatchAnswer,
    ClusterList,
    Created,
    Events,
    HealthView,
    Ids,
    LeaseList,
    NodeList,
    PrioList,
)
from ares.edge.rest.bodies import (
    BatchBody,
    EventsQuery,
    GpuQuery,
    JobsQuery,
    JoinTokenBody,
    LeasesQuery,
    LogSearchQuery,
    LogsQuery,
    NoQuery,
    PrioQuery,
    ReasonBody,
    ReasonQuery,
    ReplayBody,
    ResolveQuery,
    SlaQuery,
    TraceQuery,
    UsageQuery,
)
from ares.edge.rest.handlers import checkpoints, decisions, events, jobs, logs, outputs, platform, predictions, submit
from ares.edge.rest.http.operation import PUBLIC, Body, Operation, Socket
from ares.edge.rest.http.problems import ADMISSION_CODES, QUOTA_CODES
from ares.edge.rest.routes.books import BOOK_OPERATIONS
from ares.edge.rest.routes.data import DATASET_OPERATIONS
from ares.edge.rest.routes.federation import FEDERATION_OPERATIONS
from ares.edge.rest.routes.governance import AUDIT_OPERATIONS, POLICY_OPERATIONS, QUOTA_OPERATIONS, SECRET_OPERATIONS
from ares.edge.rest.routes.identity import IDENTITY_OPERATIONS, MACHINE_OPERATIONS
from ares.edge.rest.routes.jobs import (
    CRON_OPERATIONS,
    FLOW_OPERATIONS,
    JOB_SESSION_OPERATIONS,
    JOB_SESSION_SOCKETS,
    PROJECT_OPERATIONS,
    STEERING_OPERATIONS,
)
from ares.edge.rest.routes.operator import OPERATOR_OPERATIONS
from ares.model.state import JobState

PREFIX = "/v1"
# What a path parameter may look like. Anything else names nothing, so it is a 404.
PATH_PARAMETERS = {
    "id": r"^[0-9a-z]{1,24}(_[0-9]{1,6})?$",
    "name": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$",
    "cluster": r"^[a-z0-9-]{1,63}$",
    "token": r"^[0-9a-z]{1,32}$",
    "user": r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$",
    "version": r"^[0-9]{1,9}$",
    "session": r"^[0-9a-z]{16,64}$",
    "secret": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
    "dataset": r"^[a-z0-9]([a-z0-9._-]{0,126}[a-z0-9])?$",
    "cron": r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    # All that is left of the URL, slashes included. It is only ever looked for in a list.
    "path": r"^[^\x00-\x1f\x7f]{1,600}$",
}

BYTES = "application/octet-stream"
_STEER = ("job-finished", "not-allowed")
_REASON = Body(ReasonBody, required=False)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "submitJob", "POST", "/jobs", "jobs:submit", "Submit a job.", submit.submit_job,
        {201: (JSON, Created), 200: (JSON, Created)}, NoQuery, Body(SubmitBody, shared="spec"),
        ("request-id-mismatch", "tenant-mismatch", "request-conflict", "queue-full", *QUOTA_CODES, *ADMISSION_CODES),
        headers=("Idempotency-Key", "traceparent"),
    ),
    Operation(
        "submitBatch", "POST", "/jobs/batch", "jobs:submit", "Submit up to 10,000 jobs, each with its own outcome.",
        submit.submit_batch, {200: (JSON, BatchAnswer)}, NoQuery, Body(BatchBody, typed=False, batch=True),
        headers=("traceparent",),
    ),
    Operation(
        "listJobs", "GET", "/jobs", "jobs:read", "List jobs, page by page.", jobs.list_jobs,
        {200: (JSON, JobPage)}, JobsQuery, problems=("bad-cursor",),
    ),
    Operation(
        "resolveJob", "GET", "/jobs/resolve", "jobs:read", "Ids that begin with some characters.", jobs.resolve_job,
        {200: (JSON, Ids)}, ResolveQuery,
    ),
    Operation(
        "getJob", "GET", "/jobs/{id}", "jobs:read", "A job or an array: specification, state and result.",
        jobs.get_job, {200: (JSON, JobDetail)}, NoQuery,
    ),
    Operation(
        "deleteJob", "DELETE", "/jobs/{id}", "jobs:cancel", "Cancel a job. It is final at once.", jobs.delete_job,
        {200: (JSON, JobState)}, ReasonQuery, problems=_STEER,
    ),
    Operation(
        "cancelJob", "POST", "/jobs/{id}/cancel", "jobs:cancel", "Cancel a job. It is final at once.",
        jobs.cancel_job, {200: (JSON, JobState)}, NoQuery, _REASON, _STEER,
    ),
    Operation(
        "holdJob", "POST", "/jobs/{id}/hold", "jobs:hold", "Keep a job that has not begun from being started.",
        jobs.hold_job, {200: (JSON, JobState)}, NoQuery, _REASON, _STEER,
    ),
    Operation(
        "releaseJob", "POST", "/jobs/{id}/release", "jobs:hold", "Let a held job go on.",
        jobs.release_job, {200: (JSON, JobState)}, NoQuery, _REASON, _STEER,
    ),
    Operation(
        "retryJob", "POST", "/jobs/{id}/retry", "jobs:retry",
        "Try a waiting job now, or run a finished one again as a new job.",
        jobs.retry_job, {200: (JSON, JobState)}, NoQuery, _REASON,
        (*_STEER, "retry-budget-exhausted", "request-conflict", *QUOTA_CODES), headers=("Idempotency-Key",),
    ),
    Operation(
        "listJobEvents", "GET", "/jobs/{id}/events", "events:read", "The job's ledger: everything that happened to it.",
        jobs.job_events, {200: (JSON, Events)}, NoQuery,
    ),
    Operation(
        "explainJob", "GET", "/jobs/{id}/explain", "jobs:read", "Why a job waits, and what would start it.",
        decisions.explain_job, {200: (JSON, Explanation)}, NoQuery, tag="decisions",
    ),
    Operation(
        "getJobRoute", "GET", "/jobs/{id}/route", "jobs:read",
        "Which cluster of a federation a job goes to: every cluster's terms, and what would change the choice.",
        decisions.get_job_route, {200: (JSON, RouteSeen)}, NoQuery, tag="decisions",
    ),
    Operation(
        "getTrace", "GET", "/jobs/{id}/trace", "jobs:read",
        "The job's way as spans, from its ledger; what still lasts has no end.", decisions.get_trace,
        {200: (JSON, JobTrace)}, TraceQuery, tag="decisions",
    ),
    Operation(
        "listPreemptions", "GET", "/jobs/{id}/preemptions", "jobs:read",
        "When the job was displaced by others, or others by it, and why.", decisions.list_preemptions,
        {200: (JSON, Events)}, NoQuery, tag="decisions",
    ),
    Operation(
        "planJob", "POST", "/plan", "jobs:read", "What would happen if this were submitted. Changes nothing.",
        decisions.plan_job, {200: (JSON, PlanAnswer)}, NoQuery, Body(SubmitBody),
        ("tenant-mismatch", *ADMISSION_CODES), tag="decisions", reads=True,
    ),
    Operation(
        "listPriorities", "GET", "/prio", "jobs:read", "Waiting jobs in order, with the factors that sum to each rank.",
        decisions.list_prio, {200: (JSON, PrioList)}, PrioQuery, tag="decisions",
    ),
    Operation(
        "listClasses", "GET", "/sla", "jobs:read", "Classes of service, and how many jobs met their deadline.",
        predictions.list_classes, {200: (JSON, SlaList)}, SlaQuery, tag="decisions",
    ),
    Operation(
        "replayDecision", "POST", "/decisions/{name}/replay", "jobs:read",
        "Make a past decision again with other weights. Changes nothing.", decisions.replay_decision,
        {200: (JSON, ReplayAnswer)}, NoQuery, Body(ReplayBody), tag="decisions", reads=True,
    ),
    Operation(
        "getJobLogs", "GET", "/jobs/{id}/logs", "logs:read", "What an attempt wrote, to its end or as it comes.",
        logs.get_logs, {200: ("text/plain, application/jsonl", str)}, LogsQuery, problems=("too-many-streams",),
    ),
    Operation(
        "searchJobLogs", "GET", "/jobs/{id}/logs/search", "logs:read", "Lines of the output that contain a text.",
        logs.search_logs, {200: (JSON, LogMatches)}, LogSearchQuery,
    ),
    Operation(
        "listOutputs", "GET", "/jobs/{id}/outputs", "outputs:read", "The files of the job's committed result.",
        outputs.list_outputs, {200: (JSON, OutputList)}, NoQuery,
    ),
    Operation(
        "listCheckpoints", "GET", "/jobs/{id}/checkpoints", "outputs:read",
        "The checkpoints of the job that are kept, the newest first.", checkpoints.list_checkpoints,
        {200: (JSON, CheckpointList)}, NoQuery,
    ),
    Operation(
        "getOutput", "GET", "/jobs/{id}/outputs/{path}", "outputs:read",
        "One file of the committed result. Its ETag is its SHA-256.", outputs.get_output,
        {200: (BYTES, str), 206: (BYTES, str)}, NoQuery, headers=("Range",),
        problems=("bad-range", "output-missing", "too-many-streams", "egress-exceeded"),
    ),
    Operation(
        "followEvents", "GET", "/events", "events:read", "Live events as server-sent events.", events.follow_events,
        {200: ("text/event-stream", str)}, EventsQuery, problems=("bad-cursor", "too-many-streams"), tag="events",
        headers=("Last-Event-ID",),
    ),
    Operation(
        "getUsage", "GET", "/usage", "jobs:read", "What jobs used: GPU-hours, CPU-hours, energy, cost, and waste.",
        platform.get_usage, {200: (JSON, UsageReport)}, UsageQuery, tag="usage",
    ),
    Operation(
        "listNodes", "GET", "/nodes", "nodes:read", "Nodes, and what is free on them.", platform.list_nodes,
        {200: (JSON, NodeList)}, NoQuery, tag="nodes",
    ),
    Operation(
        "getNode", "GET", "/nodes/{name}", "nodes:read", "One node.", platform.get_node, {200: (JSON, NodeView)},
        NoQuery, tag="nodes",
    ),
    Operation(
        "cordonNode", "POST", "/nodes/{name}/cordon", "nodes:admit", "Keep new work off a node.",
        platform.cordon_node, {200: (JSON, NodeView)}, NoQuery, tag="nodes",
    ),
    Operation(
        "uncordonNode", "POST", "/nodes/{name}/uncordon", "nodes:admit", "Let work onto a node again.",
        platform.uncordon_node, {200: (JSON, NodeView)}, NoQuery, tag="nodes",
    ),
    Operation(
        "listClusters", "GET", "/clusters", "nodes:read", "Clusters.", platform.list_clusters,
        {200: (JSON, ClusterList)}, NoQuery, tag="nodes",
    ),
    Operation(
        "getCluster", "GET", "/clusters/{cluster}", "nodes:read", "One cluster.", platform.get_cluster,
        {200: (JSON, ClusterView)}, NoQuery, tag="nodes",
    ),
    Operation(
        "getOverview", "GET", "/overview", "jobs:read",
        "All of it at a glance: jobs by phase, why they wait, and what machines hold.",
        platform.get_overview, {200: (JSON, Overview)}, NoQuery, tag="nodes",
    ),
    Operation(
        "getGpus", "GET", "/gpus", "jobs:read", "Every GPU, as columns: what is held, by which job, how busy and hot.",
        platform.get_gpus, {200: (JSON, GpuMap)}, GpuQuery, tag="nodes",
    ),
    Operation(
        "listLeases", "GET", "/leases", "jobs:read", "Who holds the right to run the tenant's jobs.",
        platform.list_leases, {200: (JSON, LeaseList)}, LeasesQuery, tag="nodes",
    ),
    Operation(
        "createJoinToken", "POST", "/join-tokens", "nodes:admit", "A token that admits one node, once.",
        platform.create_join_token, {201: (JSON, NewToken)}, NoQuery, Body(JoinTokenBody, required=False),
        tag="access",
    ),
    Operation(
        "healthz", "GET", "/healthz", PUBLIC, "Is the process alive?", platform.healthz,
        {200: (JSON, HealthView), 503: (JSON, HealthView)}, NoQuery, tag="server", root=True,
    ),
    Operation(
        "readyz", "GET", "/readyz", PUBLIC, "Can this replica serve?", platform.readyz,
        {200: (JSON, HealthView), 503: (JSON, HealthView)}, NoQuery, tag="server", root=True,
    ),
    Operation(
        "metrics", "GET", "/metrics", "metrics:read", "Metrics as Prometheus' text, or as OpenMetrics.",
        platform.metrics, {200: (platform.PLAIN_TYPE, str)}, NoQuery, tag="server", root=True,
    ),
    *JOB_SESSION_OPERATIONS,
    *STEERING_OPERATIONS,
    *PROJECT_OPERATIONS,
    *DATASET_OPERATIONS,
    *OPERATOR_OPERATIONS,
    *BOOK_OPERATIONS,
    *FEDERATION_OPERATIONS,
    *QUOTA_OPERATIONS,
    *POLICY_OPERATIONS,
    *AUDIT_OPERATIONS,
    *FLOW_OPERATIONS,
    *IDENTITY_OPERATIONS,
    *MACHINE_OPERATIONS,
    *SECRET_OPERATIONS,
    *CRON_OPERATIONS,
)  # fmt: skip

SOCKETS: tuple[Socket, ...] = (
    Socket("streamEvents", "/events", "events:read", "Live events.", events.stream_events, EventsQuery),
    Socket("streamJobLogs", "/jobs/{id}/logs", "logs:read", "Live output.", logs.stream_logs, LogsQuery),
    *JOB_SESSION_SOCKETS,
)
