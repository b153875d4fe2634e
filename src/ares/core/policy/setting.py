"""Defaults that a policy gives: fields that a submitter left out, and what they become."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from ares.core.refusal import Refusal
from ares.model.job import JobSpec
from ares.model.policy import Type

_DEFAULT: Final = JobSpec(command=("default",))


class _Field(NamedTuple):
    """`unset`: the job does not set the field, or sets it to the default."""

    type: Type
    unset: Callable[[JobSpec], bool]
    put: Callable[[JobSpec, Any], dict[str, Any]]


def _plain(name: str, kind: Type) -> _Field:
    default: object = getattr(_DEFAULT, name)

    def unset(spec: JobSpec) -> bool:
        return bool(getattr(spec, name) == default)

    def change(spec: JobSpec, value: Any) -> dict[str, Any]:
        return {name: value}

    return _Field(kind, unset, change)


def _inner(outer: str, name: str, kind: Type) -> _Field:
    """A field of a record that the job has."""
    default: object = getattr(getattr(_DEFAULT, outer), name)

    def unset(spec: JobSpec) -> bool:
        return bool(getattr(getattr(spec, outer), name) == default)

    def change(spec: JobSpec, value: Any) -> dict[str, Any]:
        return {outer: {**msgspec.to_builtins(getattr(spec, outer)), name: value}}

    return _Field(kind, unset, change)


# A field at its default counts as left out: the two cannot be told apart once a job is read.
FIELDS: Final[dict[str, _Field]] = {
    "priority": _plain("priority", "string"),
    "qos": _plain("qos", "string"),
    "team": _plain("team", "string"),
    "sla": _plain("sla", "string"),
    "isolation": _plain("isolation", "string"),
    "network": _plain("network", "string"),
    "timeLimitS": _plain("time_limit_s", "double"),
    "expectedRuntimeS": _plain("expected_runtime_s", "double"),
    "graceS": _plain("grace_s", "double"),
    "retry.limit": _inner("retry", "limit", "int"),
    "preemption.allowed": _inner("preemption", "allowed", "bool"),
}
# Maps whose keys come behind the dot: labels.cost-centre, selector.pool.
MAPS: Final = ("labels", "selector")


_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(JobSpec)}


def type_of(path: str) -> Type | None:
    """The type of a field that may be set; None for a field that may not be."""
    head, dot, key = path.partition(".")
    if path in FIELDS:
        return FIELDS[path].type
    return "string" if head in MAPS and dot and key else None


def settable() -> str:
    return ", ".join([*FIELDS, *(f"{name}.KEY" for name in MAPS)])


def put(spec: JobSpec, path: str, value: object) -> JobSpec | Refusal:
    """The job with the field, if it had left it out; a job that sets it stays as it is."""
    head, _, key = path.partition(".")
    if path in FIELDS:
        field = FIELDS[path]
        if not field.unset(spec):
            return spec
        changes = field.put(spec, value)
    else:
        known: dict[str, str] = getattr(spec, head)
        if key in known:
            return spec
        changes = {head: {**known, key: value}}
    return _checked(spec, path, changes)


def _checked(spec: JobSpec, path: str, changes: dict[str, Any]) -> JobSpec | Refusal:
    """The changed job, checked as strictly as if the submitter had written it."""
    try:
        return replace(spec, **{name: msgspec.convert(value, _TYPES[name]) for name, value in changes.items()})
    except msgspec.ValidationError as error:
        return Refusal(code="policy-rejected", message=f"{path}: {error}")
