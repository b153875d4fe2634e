"""Routes into running jobs."""

from ares.api.job_sessions import LiveUse, SessionBody, SessionList
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import AttachQuery, NoQuery, RankQuery
from ares.edge.rest.handlers import job_sessions
from ares.edge.rest.http.operation import Body, Operation, Socket
from ares.model.entry.job_session import SessionView

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
