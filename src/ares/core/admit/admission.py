"""What the types of a JobSpec cannot say: rules that span fields, and totals."""

from collections.abc import Callable, Iterable

from ares.core.admit import arrays, isolation, placement, references, secrets
from ares.core.refusal import Admission, Refusal
from ares.core.text import span
from ares.model.job import ARGV_BYTES_MAX, ENV_BYTES_MAX, JobSpec

LABELS_MAX = 64
RESERVED_PREFIX = "ARES_"
# Variables that the agent sets for every attempt: a value from the job would be overwritten silently.
RESERVED_ENV = frozenset({
    "RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
})  # fmt: skip


def decide(spec: JobSpec) -> Admission | Refusal:
    """The first rule that is broken, or the job as it will be stored."""
    for check in CHECKS:
        rejected = check(spec)
        if rejected is not None:
            return rejected
    if spec.array is None:
        return Admission()
    found = arrays.indices(spec.array)
    return found if isinstance(found, Refusal) else Admission(indices=found)


def too_late(spec: JobSpec, now: float) -> Refusal | None:
    """Whether the deadline is over. Apart from `decide`, as a request made in time may be repeated later."""
    if spec.deadline_at is None or spec.deadline_at > now:
        return None
    message = f"the deadline passed {span(now - spec.deadline_at)} ago"
    return Refusal(code="deadline-passed", message=message, fix="choose a deadlineAt in the future, or none")


def _size(texts: Iterable[str]) -> int:
    """Bytes as the kernel counts them: each string with its end marker."""
    return sum(len(text.encode()) + 1 for text in texts)


def _encodable(spec: JobSpec) -> Refusal | None:
    texts = (
        *spec.command, *spec.env.values(), spec.workdir or "", *spec.labels.values(), *spec.selector.values(),
        *spec.residency, *(value for term in spec.affinity for value in term.values),
        *(value for term in spec.job_affinity for value in term.labels.values()),
        *(one.value or "" for one in spec.tolerations),
    )  # fmt: skip
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            message = f"a text of the job is not valid Unicode at character {error.start}"
            return Refusal(code="not-utf8", message=message, fix="send texts as UTF-8")
    return None


def _command(spec: JobSpec) -> Refusal | None:
    if not spec.command or not spec.command[0].strip():
        return Refusal(code="command-empty", message="the command is empty", fix="name a program to run")
    size = _size(spec.command)
    if size <= ARGV_BYTES_MAX:
        return None
    message = f"the command takes {size:,} bytes, at most {ARGV_BYTES_MAX:,} are allowed"
    return Refusal(code="command-too-large", message=message, fix="put long input into a file")


def _env(spec: JobSpec) -> Refusal | None:
    named = (*spec.env, *(ref.env for ref in spec.secrets if ref.env is not None))
    reserved = sorted(key for key in named if key.startswith(RESERVED_PREFIX) or key in RESERVED_ENV)
    if reserved:
        message = f"environment variable {reserved[0]} is set by Ares itself"
        return Refusal(code="env-reserved", message=message, fix=f"remove {', '.join(reserved[:5])}")
    # "KEY=value" and its end marker: one byte more for each half.
    size = _size(spec.env) + _size(spec.env.values())
    if size <= ENV_BYTES_MAX:
        return None
    message = f"the environment takes {size:,} bytes, at most {ENV_BYTES_MAX:,} are allowed"
    return Refusal(code="env-too-large", message=message, fix="put long values into a file")


def _workdir(spec: JobSpec) -> Refusal | None:
    if spec.workdir is None or not {".", ".."} & set(spec.workdir.split("/")):
        return None
    message = f"working directory {spec.workdir!r} has a . or .. in it"
    return Refusal(code="workdir-dots", message=message, fix="write the directory out in full")


def _labels(spec: JobSpec) -> Refusal | None:
    for what, found in (("labels", spec.labels), ("selector entries", spec.selector)):
        if len(found) > LABELS_MAX:
            message = f"the job has {len(found)} {what}, at most {LABELS_MAX} are allowed"
            return Refusal(code="labels-too-many", message=message, fix=f"use fewer {what}")
    return None


def _warning(spec: JobSpec) -> Refusal | None:
    limit, warn = spec.time_limit_s, spec.warn
    if warn is None or (limit is not None and warn.before_s < limit):
        return None
    ahead = "a time limit that is not set" if limit is None else f"a time limit of {limit:g} s"
    message = f"the warning is to come {warn.before_s:g} s ahead of {ahead}"
    fix = "set timeLimitS" if limit is None else f"choose warn.beforeS below {limit:g}"
    return Refusal(code="warn-after-limit", message=message, fix=fix)


def _unsafe(spec: JobSpec) -> Refusal | None:
    if spec.effects != "unsafe" or spec.restart != "always":
        return None
    message = "effects: unsafe allows one attempt, restart: always asks for many"
    return Refusal(code="unsafe-restart", message=message, fix="choose another restart or effects")


CHECKS: tuple[Callable[[JobSpec], Refusal | None], ...] = (
    _encodable, _command, _env, _workdir, _labels, _warning, _unsafe, secrets.declared, isolation.network,
    references.references,
    *placement.CHECKS,
)  # fmt: skip
