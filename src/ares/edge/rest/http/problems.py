"""Errors as RFC 9457 problems. `docs/errors.md` explains every code listed here."""

from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

import msgspec

from ares.api.quotas import LevelUse
from ares.core.quota.judge import OverQuota
from ares.core.refusal import AdmissionCode, CredentialCode, QuotaCode, Refusal

T = TypeVar("T")
MEDIA_TYPE = "application/problem+json"
ADMISSION_CODES: tuple[str, ...] = get_args(AdmissionCode)
QUOTA_CODES: tuple[str, ...] = get_args(QuotaCode)


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """What a code always means: its status, title, and what to do next unless the occasion knows better."""

    status: int
    title: str
    fix: str


KINDS: dict[str, ProblemKind] = {
    "malformed-json": ProblemKind(
        400, "The body is not valid JSON", "Send one JSON value in UTF-8, without NaN or Infinity."
    ),
    "duplicate-key": ProblemKind(400, "A JSON object names a key twice", "Remove one of the two."),
    "too-deep": ProblemKind(400, "The JSON is nested too deeply", "Nest at most 32 levels."),
    "bad-request": ProblemKind(400, "The request is malformed", "Check the request against /v1/openapi.json."),
    "request-id-mismatch": ProblemKind(
        400, "Two different request ids", "Give the id in the Idempotency-Key header or in requestId, not both."
    ),
    "bad-cursor": ProblemKind(400, "The cursor is not valid here", "Start again without a cursor."),
    "unauthenticated": ProblemKind(
        401, "No valid credential", "Send 'Authorization: Bearer <token>' with a valid token."
    ),
    "login-failed": ProblemKind(401, "You are not logged in", "Log in again."),
    "forbidden": ProblemKind(403, "The credential does not allow this", "Use a token with a role that may do it."),
    "break-glass": ProblemKind(
        403, "Other tenants' data needs a stated reason", "Send the header X-Ares-Break-Glass with the reason."
    ),
    "priority-ceiling": ProblemKind(
        403, "The priority is above what is allowed", "Submit with a lower priority, or ask an operator to."
    ),
    "quota-too-small": ProblemKind(
        403, "The job asks for more than the whole quota", "Ask for less, or have the limit raised."
    ),
    "tenant-mismatch": ProblemKind(
        403, "The credential belongs to another tenant", "Leave tenantId out, or use a token of that tenant."
    ),
    "escalation": ProblemKind(403, "Nobody gives more than they have", "Ask somebody whose role is high enough."),
    "bad-origin": ProblemKind(
        403, "This web origin may not call the API", "Add the origin to the server's allowed origins."
    ),
    "not-found": ProblemKind(
        404, "No such object", "Check the path and the id, and that the token is of the right tenant."
    ),
    "method-not-allowed": ProblemKind(
        405, "This method is not supported here", "Use one of the methods in the Allow header."
    ),
    "request-timeout": ProblemKind(408, "The request did not arrive in time", "Send head and body at once."),
    "request-conflict": ProblemKind(
        409,
        "This request id was used with a different payload",
        "Use a new request id for a new job, or send the first payload again.",
    ),
    "job-finished": ProblemKind(409, "The job has ended", "Nothing is left to change; retry it to run it again."),
    "not-allowed": ProblemKind(409, "The job's state does not allow this", "Look at the job's phase and events."),
    "retry-budget-exhausted": ProblemKind(409, "The manual retries are used up", "Submit a new job."),
    "no-authority": ProblemKind(
        409,
        "This server signs no machines' certificates",
        'Set agents.tls to "on", or start the agent on the server\'s own machine.',
    ),
    "node-in-use": ProblemKind(409, "The node is in use", "Stop its agent, and wait until nothing is held on it."),
    "tenant-exists": ProblemKind(409, "There is such a tenant already", "Choose another name."),
    "user-exists": ProblemKind(409, "There is such a user already", "Choose another name, or change that user."),
    "identity-taken": ProblemKind(409, "Another user has this identity", "Take it from that user first."),
    "access-full": ProblemKind(409, "There are too many users or tokens", "Delete or revoke some that are not needed."),
    "self-lockout": ProblemKind(409, "This would take away your own access", "Have another administrator do it."),
    "profile-conflict": ProblemKind(
        409, "The profile was changed meanwhile", "Look at the version in force and make the change again."
    ),
    "reservation-no-room": ProblemKind(
        409, "The room cannot be had in that time", "Book less, or at another time, as the detail says."
    ),
    "reservation-conflict": ProblemKind(
        409, "The reservation is not in a state for this", "Look at it: `ares reservation show NAME`."
    ),
    "secret-conflict": ProblemKind(409, "The secret was changed meanwhile", "Look at its version and try again."),
    "secrets-full": ProblemKind(409, "The tenant has too many secrets", "Delete some that nobody uses."),
    "policy-conflict": ProblemKind(
        409, "The policy was changed meanwhile", "Look at the version in force and make the change again."
    ),
    "policies-full": ProblemKind(409, "There are too many policies", "Delete or merge some."),
    "crons-full": ProblemKind(409, "The tenant has too many schedules", "Remove some: `ares cron rm NAME`."),
    "dataset-in-use": ProblemKind(
        409, "Jobs that have not ended are given this data", "Wait for them, or remove it with force."
    ),
    "datasets-full": ProblemKind(409, "There are too many datasets or versions", "Remove some: `ares data rm`."),
    "channels-full": ProblemKind(409, "There are too many channels", "Delete some."),
    "session-refused": ProblemKind(
        409, "The session cannot be opened in the job", "Change what the detail names, and open it again."
    ),
    "too-large": ProblemKind(413, "The body is too large", "Send less, or split the batch."),
    "unsupported-media-type": ProblemKind(
        415, "The body has the wrong type", "Send 'Content-Type: application/json' without a content encoding."
    ),
    "wrong-host": ProblemKind(
        421,
        "This server does not answer to that host name",
        "Add the name to http.allowed_hosts in the server's configuration.",
    ),
    "bad-range": ProblemKind(416, "The file has no such bytes", "Ask for bytes below the size in Content-Range."),
    "invalid": ProblemKind(422, "The request does not fit the schema", "Correct the value at the named path."),
    "unknown-field": ProblemKind(422, "The request has a field nobody knows", "Remove or correct the named field."),
    "dataset-invalid": ProblemKind(
        422, "This cannot be published as a dataset", "Correct what the detail names; `ares data put` does the rest."
    ),
    "profile-invalid": ProblemKind(
        422,
        "Scheduling cannot go by this profile",
        "Correct what the detail names; `ares profile show` has what is in force.",
    ),
    "no-such-tenant": ProblemKind(422, "There is no such tenant", "Make it first: `ares tenant create NAME`."),
    "no-such-user": ProblemKind(422, "The tenant has no such user", "Make it first: `ares user create NAME`."),
    "secret-invalid": ProblemKind(422, "This cannot be kept as a secret", "Change it as the detail says."),
    "policy-invalid": ProblemKind(
        422, "This is no policy that could be applied", "Correct the expression where the detail says."
    ),
    "channel-invalid": ProblemKind(422, "Nothing can be sent by this channel", "Change it as the detail says."),
    "reservation-invalid": ProblemKind(422, "This cannot be booked", "Change the reservation as the detail says."),
    "cron-invalid": ProblemKind(422, "This is no schedule that could be kept", "Correct what the detail names."),
    "project-invalid": ProblemKind(
        422, "This is no project that could be unpacked", "Leave out what the detail names, by a line in .aresignore."
    ),
    "quota-invalid": ProblemKind(422, "These limits make no sense", "Correct what the detail names."),
    "project-too-much": ProblemKind(
        413, "The tenant's files take too much room", "Ship less: leave data out by lines in .aresignore."
    ),
    "quota-exceeded": ProblemKind(
        429, "The quota is used up", "Wait as long as Retry-After says, cancel jobs, or ask for less."
    ),
    "budget-exceeded": ProblemKind(
        429, "The month's budget is used up", "Wait for the next month, ask for less, or have the budget raised."
    ),
    "egress-exceeded": ProblemKind(
        429, "The month's downloads are used up", "Wait for the next month, or have the limit raised."
    ),
    "queue-full": ProblemKind(429, "Too many jobs are kept", "Wait and try again."),
    "rate-limited": ProblemKind(429, "Too many requests", "Wait as long as Retry-After says, then go on more slowly."),
    "too-many-streams": ProblemKind(429, "Too many open streams", "Close some streams, or wait."),
    "head-too-large": ProblemKind(431, "The head of the request is too large", "Send fewer and shorter headers."),
    "internal": ProblemKind(
        500, "Something broke on our side", "Try again; if it stays, tell the operator the error id."
    ),
    "output-missing": ProblemKind(
        500,
        "A committed file is not in the outputs directory",
        "Give all replicas the same outputs directory, and restore what it lost from a backup.",
    ),
    "store-unavailable": ProblemKind(
        503, "The store of record did not answer", "Send the same request again with the same request id."
    ),
    "store-full": ProblemKind(
        507,
        "The disk of the store is full; nothing was written",
        "Free some space on the server's disk, then send the same request again.",
    ),
    "overloaded": ProblemKind(
        503, "The server has too much to do", "Wait as long as Retry-After says, then try again."
    ),
    "audit-unavailable": ProblemKind(
        503,
        "Nothing can be recorded now, so nothing is done",
        "Wait and send the same request again; the operator finds why in the server's log.",
    ),
    "audit-full": ProblemKind(
        507,
        "The disk of the audit chain is full, so nothing is done",
        "Free some space on the server's disk, then send the same request again.",
    ),
    "secrets-key": ProblemKind(
        503,
        "This server cannot use the key that secrets are sealed with",
        "Give every server of the store the same key file: secrets.key_file.",
    ),
    "provider-away": ProblemKind(
        503, "The identity provider does not answer", "Wait a moment and log in again, or use an API token."
    ),
    "node-elsewhere": ProblemKind(
        503, "The node is connected to another replica", "Ask the other replicas: give all their addresses in ARES_URL."
    ),
    "node-silent": ProblemKind(503, "The job's node does not answer", "Wait a moment and try again."),
    "cluster-unreachable": ProblemKind(
        504,
        "The cluster that has the job cannot be reached",
        "Its jobs go on there. Ask again when it is back, or ask the cluster itself.",
    ),
    "not-ready": ProblemKind(503, "The server is not ready", "Wait and try again."),
    # Only ever the end of a stream that has begun.
    "lagged": ProblemKind(503, "The stream was not read fast enough", "Reconnect with the last cursor you have."),
    # Admission's own reasons; each occasion says what to change.
    **dict.fromkeys(
        ADMISSION_CODES, ProblemKind(422, "The job cannot be admitted", "Change the job as the detail says.")
    ),
}


@dataclass(frozen=True, slots=True)
class Problem(Exception):
    """A refusal on its way to the client. `path` is a JSON path like `$.spec.command[0]`."""

    code: str
    detail: str = ""
    fix: str = ""
    path: str = ""
    instance: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    # A word for the audit log, where the code alone says too little.
    reason: str = ""
    # What is used of the limits that are in the way.
    quota: tuple[LevelUse, ...] = ()

    @property
    def kind(self) -> ProblemKind:
        return KINDS[self.code]

    def document(self, instance: str = "") -> dict[str, Any]:
        """Missing objects name no instance, so that all answers about them are the same bytes."""
        kind = self.kind
        shown = self.instance or ("" if self.code == "not-found" else instance)
        optional = {"detail": self.detail, "instance": shown, "path": self.path}
        return {
            "type": f"urn:ares:error:{self.code}",
            "title": kind.title,
            "status": kind.status,
            "code": self.code,
            "fix": self.fix or kind.fix,
            **{name: value for name, value in optional.items() if value},
            **({"quota": self.quota} if self.quota else {}),
        }

    def body(self, instance: str = "") -> bytes:
        return msgspec.json.encode(self.document(instance))


NOT_FOUND = Refusal(code="not-found")
# Nodes belong to no tenant, so there is nothing to hide.
NO_NODE = Refusal(code="not-found", message="no node has this name; `ares nodes` lists them")
# Codes that services tell apart, and clients need not.
_SHOWN_AS = {
    "no-such-version": "not-found",
    "terminal": "job-finished",
    "stale-fence": "not-allowed",
    "stale-epoch": "not-allowed",
    "not-yours": "forbidden",
    "budget-exhausted": "retry-budget-exhausted",
    "spec-too-large": "too-large",
    **dict.fromkeys(get_args(CredentialCode), "unauthenticated"),
}


def problem_of(no: Refusal) -> Problem:
    """The one way from a refusal to what a client is told. Made anew each time: an exception that is raised again keeps
    what it met before, and with it every request."""
    return Problem(
        _SHOWN_AS.get(no.code, no.code),
        detail=no.message,
        fix=no.fix,
        path=no.path,
        headers={} if no.retry_after_s is None else retry_after(no.retry_after_s),
        reason=no.reason,
        quota=no.levels if isinstance(no, OverQuota) else (),
    )


def not_found() -> Problem:
    return problem_of(NOT_FOUND)


def granted(outcome: T | Refusal | None, missing: Refusal = NOT_FOUND) -> T:
    """What a service gave. Where it refused, or has no such object, the client is told."""
    if outcome is None:
        raise problem_of(missing)
    if isinstance(outcome, Refusal):
        raise problem_of(outcome)
    return outcome


def retry_after(seconds: float) -> dict[str, str]:
    """Whole seconds, at least one."""
    return {"retry-after": str(max(1, round(seconds)))}
