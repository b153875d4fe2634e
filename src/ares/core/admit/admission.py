"""What the types of a JobSpec cannot say: rules that span fields, and totals."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from ares.core.admit import arrays, inputs, needs, placement, secrets
from ares.core.image.reference import FORMS, ImageFlaw, ShippedImage, parse
from ares.core.net import literal, refused
from ares.core.refusal import Admission, Refusal
from ares.core.runtime import kinds as runtimes
from ares.core.text import span
from ares.model.job import ARGV_BYTES_MAX, ENV_BYTES_MAX, JobSpec
from ares.model.profile import Sla

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
        *spec.command, *spec.env.values(), spec.workdir or "", "" if spec.image is None else spec.image.ref,
        *spec.labels.values(), *spec.selector.values(),
        *spec.residency, *(value for term in spec.affinity for value in term.values),
        *(value for term in spec.job_affinity for value in term.labels.values()),
        *(toleration.value or "" for toleration in spec.tolerations),
    )  # fmt: skip
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            message = f"a text of the job is not valid Unicode at character {error.start}"
            return Refusal(code="not-utf8", message=message, fix="send texts as UTF-8")
    return None


def _command(spec: JobSpec) -> Refusal | None:
    if (spec.image is None and not spec.command) or (spec.command and not spec.command[0].strip()):
        message, path = "the command is empty", "$.spec.command"
        return Refusal(code="command-empty", message=message, fix="name a program to run", path=path)
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


def _project(spec: JobSpec) -> Refusal | None:
    if spec.project is None or spec.workdir is None:
        return None
    message = f"it starts with files that were shipped, and in {spec.workdir}"
    return Refusal(code="project-and-workdir", message=message, fix="choose one: leave out project, or workdir")


def _image(spec: JobSpec) -> Refusal | None:
    if spec.image is None:
        return None
    try:
        found = parse(spec.image.ref)
    except ImageFlaw as flaw:
        return Refusal(code="image-invalid", message=str(flaw), fix=f"write {FORMS}", path="$.spec.image.ref")
    if isinstance(found, ShippedImage) == (spec.image.project is not None):
        return None
    if spec.image.project is not None:
        message = f"{spec.image.ref} does not lie on the submitter's machine, and its files are shipped"
        return Refusal(code="image-invalid", message=message, fix="leave out image.project")
    message = f"the files of {spec.image.ref} were not shipped"
    fix = "submit it with `ares submit --image` or the Python client, which ship them"
    return Refusal(code="image-not-shipped", message=message, fix=fix, path="$.spec.image")


def _python(spec: JobSpec) -> Refusal | None:
    wish = spec.python
    if wish is None:
        return None
    if spec.image is not None:
        message = "it runs in an image, which has its own Python"
        return Refusal(code="python-invalid", message=message, fix="leave out python, or image")
    named = wish.path or wish.file
    if (wish.path is None) == (wish.project is None) or (wish.project is None) != (not wish.file):
        message = "its Python environment is either a directory of the node, or built from a file of a project"
    elif {"", ".", ".."} & set(named.removeprefix("/").split("/")):
        message = f"{named!r}, of its Python environment, has a . or .. in it, or an empty name"
    else:
        return None
    fix = "give python.path, or python.project and python.file, each written out in full"
    return Refusal(code="python-invalid", message=message, fix=fix)


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


# ---- references to inputs: nothing is fetched, and a reference that must never be is not kept either


SCHEMES: Final = ("ares", "gs", "https", "s3")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*(@[A-Za-z0-9._:+-]+)?|sha256:[0-9a-f]{64}", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?|[0-9A-Fa-f:.]+", re.ASCII)
# Names of a machine itself and of clouds' metadata. Other names are judged by what they resolve to, when they are.
_INSIDE: Final = ("localhost", "localdomain", "internal", "local")
_FIX: Final = f"name a dataset, a sha256: digest, or a URL of {', '.join(SCHEMES)} on the open internet"


def input_references(spec: JobSpec) -> Refusal | None:
    for place, ref in enumerate(spec.input_refs):
        why = _why_not(ref)
        if why is not None:
            message = f"inputRefs[{place}] cannot be used: {why}"
            return Refusal(code="input-ref", message=message, fix=_FIX, reason="ssrf")
    return None


def _why_not(ref: str) -> str | None:
    if "://" not in ref:
        if _NAME.fullmatch(ref) is None:
            return "it is neither a URL nor a name of letters, digits and . _ / + - with an optional @version"
        return _dots(ref)
    try:
        parts = urlsplit(ref)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        return f"it is no URL: {error}"
    if parts.scheme not in SCHEMES:
        return f"its scheme is {parts.scheme[:20]!r}"
    if "@" in parts.netloc:
        return "it has a user or password in it, which everybody who sees the job would see"
    return _host(host) or _dots(parts.path)


def _host(host: str) -> str | None:
    if _HOST.fullmatch(host) is None:
        return "it names no host" if not host else f"its host {host[:60]!r} is no name"
    address = literal(host)
    if address is not None:
        return refused(address)
    inside = host.rstrip(".").lower().rsplit(".", 1)[-1] in _INSIDE
    return f"its host {host[:60]!r} is not of the open internet" if inside else None


def _dots(path: str) -> str | None:
    """Why a path means another one than it says; None when it does not."""
    steps = [unquote(step) for step in path.split("/")]
    if any(step in (".", "..") or set(step) & {"/", "\\", "\0"} for step in steps):
        return "its path has a ., a .. or an encoded slash in it"
    return None


def _checkpoints(spec: JobSpec) -> Refusal | None:
    """Of checkpoints: what would not do what it says."""
    if spec.restore_from is not None and (spec.array is not None or spec.finally_):
        message = "restoreFrom is for a single job, not for an array or a job of a workflow"
        return Refusal(code="checkpoint-invalid", message=message, fix="submit the job by itself")
    if spec.checkpoint is not None and spec.effects == "unsafe":
        message = "its effects are unsafe, so it is never started twice and never goes on from a checkpoint"
        return Refusal(code="checkpoint-invalid", message=message, fix="leave checkpoint out, or say staged effects")
    return None


# ---- all of them

CHECKS: tuple[Callable[[JobSpec], Refusal | None], ...] = (
    _encodable, _command, _env, _workdir, _project, _image, _python, _labels, _warning, _unsafe, secrets.declared,
    placement.network, input_references, inputs.inputs, needs.needs, runtimes.admit, _checkpoints,
    *placement.CHECKS,
)  # fmt: skip


# ---- classes of service


def unknown(spec: JobSpec, slas: Mapping[str, Sla]) -> Refusal | None:
    """Why the job cannot be of the class it names."""
    if spec.sla is None:
        return None
    if spec.sla not in slas:
        known = f"there are {', '.join(sorted(slas))}" if slas else "the profile defines none"
        message = f"no class of service is called {spec.sla!r}; {known}"
        return Refusal(code="sla-unknown", message=message, fix="name one of those, or none")
    if spec.deadline_at is not None or spec.start_by_at is not None:
        message = f"the job names the class of service {spec.sla!r} and a deadline of its own"
        return Refusal(code="sla-and-deadline", message=message, fix="keep one of the two")
    return None


def dated(spec: JobSpec, slas: Mapping[str, Sla], now: float) -> JobSpec:
    """The job with the times that its class of service gives it from now on."""
    sla = None if spec.sla is None else slas.get(spec.sla)
    if sla is None:
        return spec
    return replace(
        spec,
        deadline_at=None if sla.end_within_s is None else now + sla.end_within_s,
        start_by_at=None if sla.start_within_s is None else now + sla.start_within_s,
    )
