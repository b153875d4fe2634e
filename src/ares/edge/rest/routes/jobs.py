"""Routes that change jobs and lead into them, and of what jobs come from: files, workflows, schedules."""

from ares.api.flows import FlowBody, FlowCreated, FlowDetail, FlowRetryBody
from ares.api.job_sessions import LiveUse, SessionBody, SessionList
from ares.api.jobs import CronBody, CronList, CronView
from ares.api.projects import PartsKept, ProjectAnswer, ProjectManifest
from ares.api.updates import BulkAnswer, BulkBody, BulkUpdateBody, JobUpdate
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import AttachQuery, NoQuery, RankQuery, ReasonBody
from ares.edge.rest.handlers import crons, flows, job_sessions, jobs, submit
from ares.edge.rest.http.operation import Body, Operation, Socket
from ares.edge.rest.http.problems import ADMISSION_CODES, QUOTA_CODES
from ares.model.job_session import SessionView
from ares.model.state import JobState

# ---- changes


_STEER = ("job-finished", "not-allowed")

STEERING_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "updateJob", "PATCH", "/jobs/{id}", "jobs:update",
        "Change what a job asks for: all of it while it waits, priority and time limit while it runs.",
        jobs.update_job, {200: (JSON, JobState)}, NoQuery, Body(JobUpdate),
        (*_STEER, *QUOTA_CODES, *ADMISSION_CODES),
    ),
    Operation(
        "requeueJob", "POST", "/jobs/{id}/requeue", "jobs:retry",
        "Send a running job back to the queue. It may save its work first, and no retry is used up.",
        jobs.requeue_job, {200: (JSON, JobState)}, NoQuery, Body(ReasonBody, required=False), _STEER,
    ),
    Operation(
        "cancelJobs", "POST", "/jobs/cancel", "jobs:cancel", "Cancel all jobs that fit a filter, a page at a time.",
        jobs.cancel_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkBody), ("bad-cursor",),
    ),
    Operation(
        "requeueJobs", "POST", "/jobs/requeue", "jobs:retry",
        "Send all running jobs that fit a filter back to the queue, a page at a time.",
        jobs.requeue_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkBody), ("bad-cursor",),
    ),
    Operation(
        "holdJobs", "POST", "/jobs/hold", "jobs:hold", "Hold all jobs that fit a filter, a page at a time.",
        jobs.hold_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkBody), ("bad-cursor",),
    ),
    Operation(
        "releaseJobs", "POST", "/jobs/release", "jobs:hold", "Release all jobs that fit a filter, a page at a time.",
        jobs.release_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkBody), ("bad-cursor",),
    ),
    Operation(
        "updateJobs", "POST", "/jobs/update", "jobs:update", "Change all jobs that fit a filter, a page at a time.",
        jobs.update_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkUpdateBody), ("bad-cursor",),
    ),
)  # fmt: skip


# ---- into running jobs


_REFUSALS = ("job-finished", "not-allowed", "node-elsewhere", "node-silent")

JOB_SESSION_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "openSession", "POST", "/jobs/{id}/sessions", "jobs:exec",
        "Open a session in a running job: a command, a connection to one of its ports, or files to copy.",
        job_sessions.open_session, {201: (JSON, SessionView)}, NoQuery, Body(SessionBody),
        (*_REFUSALS, "session-refused"), tag="sessions",
    ),
    Operation(
        "listSessions", "GET", "/jobs/{id}/sessions", "jobs:exec", "The sessions in a running job.",
        job_sessions.list_sessions, {200: (JSON, SessionList)}, NoQuery, problems=_REFUSALS, tag="sessions",
    ),
    Operation(
        "endSession", "DELETE", "/jobs/{id}/sessions/{session}", "jobs:exec",
        "End a session with all its processes.", job_sessions.end_session, {204: ("", None)}, RankQuery,
        problems=_REFUSALS, tag="sessions",
    ),
    Operation(
        "getJobUse", "GET", "/jobs/{id}/use", "jobs:read", "What a running job uses now.", job_sessions.job_use,
        {200: (JSON, LiveUse)}, NoQuery, tag="usage",
    ),
    Operation(
        "listUse", "GET", "/use", "jobs:read", "What running jobs use now.", job_sessions.list_use,
        {200: (JSON, LiveUse)}, NoQuery, tag="usage",
    ),
)  # fmt: skip

JOB_SESSION_SOCKETS: tuple[Socket, ...] = (
    Socket(
        "attachSession", "/jobs/{id}/sessions/{session}", "jobs:exec", "A session's input and output.",
        job_sessions.attach_session, AttachQuery,
    ),
)  # fmt: skip


# ---- files that jobs start with


_PROBLEMS = ("project-invalid", "project-too-much", "project-unknown", "store-full")

PROJECT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "shipProject", "POST", "/projects", "jobs:submit",
        "Keep the manifest of a project; the answer names the parts that are still to be sent.",
        submit.ship_project, {200: (JSON, ProjectAnswer)}, NoQuery, Body(ProjectManifest, typed=False, batch=True),
        _PROBLEMS,
    ),
    Operation(
        "shipParts", "POST", "/projects/parts", "jobs:submit",
        "Keep parts of files: each as its length in four bytes, the highest first, and its bytes.",
        submit.ship_parts, {200: (JSON, PartsKept)}, NoQuery,
        Body(ProjectManifest, typed=False, batch=True, binary=True), _PROBLEMS,
    ),
)  # fmt: skip


# ---- workflows


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


# ---- schedules


CRON_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "listCrons", "GET", "/crons", "crons:read", "Schedules of the tenant, by name.", crons.list_crons,
        {200: (JSON, CronList)}, NoQuery, tag="crons",
    ),
    Operation(
        "getCron", "GET", "/crons/{cron}", "crons:read", "A schedule, its next moments and what came of the last.",
        crons.get_cron, {200: (JSON, CronView)}, NoQuery, tag="crons",
    ),
    Operation(
        "putCron", "PUT", "/crons/{cron}", "crons:admin", "Make a schedule, or change its job and its times.",
        crons.put_cron, {200: (JSON, CronView)}, NoQuery, Body(CronBody),
        ("cron-invalid", "crons-full", *ADMISSION_CODES), tag="crons",
    ),
    Operation(
        "deleteCron", "DELETE", "/crons/{cron}", "crons:admin", "Remove a schedule. Jobs that it made stay.",
        crons.delete_cron, {204: ("", None)}, NoQuery, tag="crons",
    ),
    Operation(
        "pauseCron", "POST", "/crons/{cron}/pause", "crons:admin", "Let a schedule make no jobs for a while.",
        crons.pause_cron, {200: (JSON, CronView)}, NoQuery, Body(ReasonBody, required=False), tag="crons",
    ),
    Operation(
        "resumeCron", "POST", "/crons/{cron}/resume", "crons:admin", "Let a paused schedule go on from now.",
        crons.resume_cron, {200: (JSON, CronView)}, NoQuery, tag="crons",
    ),
)  # fmt: skip
