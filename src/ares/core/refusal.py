"""Why something was not done: one value from the rule that says no to the client that is told."""

from typing import Literal

from ares.model.base import Record

# A job that cannot be admitted as it is.
AdmissionCode = Literal[
    "affinity-not-a-number", "affinity-values", "array-syntax", "array-too-large", "command-empty",
    "checkpoint-invalid", "checkpoint-missing",
    "command-too-large", "deadline-not-met", "deadline-passed", "env-reserved", "env-too-large", "gang-min-above-ranks",
    "gang-not-elastic", "gang-spread-and-together", "gang-without-network",
    "gpu-memory-without-gpus", "gpu-model-without-gpus",
    "flow-cycle", "flow-invalid",
    "gap-not-preemptible", "gpu-share-without-gpus", "image-invalid", "image-not-shipped",
    "dataset-unknown", "input-invalid", "input-ref", "job-affinity-empty", "labels-too-many",
    "need-invalid", "need-unknown", "needs-too-many", "not-utf8",
    "notify-on-array", "notify-unknown", "nvlink-without-gpus", "policy-rejected",
    "project-and-workdir", "project-unknown", "python-invalid",
    "reservation-not-yours", "reservation-over", "reservation-too-short", "reservation-too-small",
    "reservation-unknown", "runtime-invalid", "secret-target", "secret-too-large", "secret-twice", "secret-unknown",
    "sla-and-deadline", "sla-unknown", "toleration-not-yours", "unsafe-restart", "warn-after-limit", "workdir-dots",
]  # fmt: skip
# A record that cannot be made or changed.
RecordCode = Literal[
    "not-found", "invalid", "forbidden", "no-such-version", "bad-cursor", "node-in-use", "no-authority",
    "escalation", "self-lockout", "access-full", "identity-taken",
    "tenant-exists", "no-such-tenant", "user-exists", "no-such-user",
    "channel-invalid", "channels-full",
    "policy-invalid", "policy-conflict", "policies-full",
    "profile-invalid", "profile-conflict",
    "project-invalid", "project-too-much",
    "quota-invalid",
    "cron-invalid", "crons-full",
    "dataset-in-use", "dataset-invalid", "datasets-full",
    "reservation-invalid", "reservation-no-room", "reservation-conflict",
    "secret-invalid", "secret-conflict", "secrets-full", "secrets-key",
]  # fmt: skip
# A submission or a download that is beyond a limit, or that the store does not take now.
QuotaCode = Literal["quota-exceeded", "quota-too-small", "budget-exceeded", "priority-ceiling"]
RoomCode = Literal[
    "egress-exceeded", "queue-full", "request-conflict", "spec-too-large", "store-full", "store-unavailable",
]  # fmt: skip
# A job that is not in a state for it.
LifecycleCode = Literal["stale-fence", "stale-epoch", "terminal", "not-allowed", "budget-exhausted", "not-yours"]
# A session in a running job that cannot be had, or not by this replica.
SessionCode = Literal["node-elsewhere", "node-silent", "session-refused"]
# A credential that is not accepted.
CredentialCode = Literal["unknown", "expired", "revoked", "malformed", "bad_token", "join"]
# A login by an identity provider that did not come about.
LoginCode = Literal["login-failed", "provider-away"]
RefusalCode = (
    AdmissionCode | RecordCode | QuotaCode | RoomCode | LifecycleCode | SessionCode | CredentialCode | LoginCode
)


class Refusal(Record, frozen=True):
    """Nothing was changed: `message` says why, with numbers, and `fix` what to do next. Programs decide by `code`.

    With "store-unavailable" it is not known whether anything was changed."""

    code: RefusalCode
    message: str = ""
    fix: str = ""
    # The audit log's word, where the code alone says too little.
    reason: str = ""
    # Where in the request, such as `$.spec.command[0]`.
    path: str = ""
    # When to try again, where that can be told.
    retry_after_s: float | None = None


class Admission(Record, frozen=True):
    """The job may be admitted. `indices` are the tasks of an array, None for a single job."""

    indices: tuple[int, ...] | None = None
