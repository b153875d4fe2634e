"""The verdict of all policies on a job."""

from collections.abc import Iterable, Mapping
from typing import cast

from ares.model.base import Record
from ares.model.job import JobSpec
from ares.model.policy import PolicyRecord

_VALUE_CHARS = 80
_NAMES_SHOWN = 8


class Said(Record, frozen=True):
    """What one policy says to a job, and by which values."""

    policy: str
    # "" for a policy of the platform.
    tenant: str
    message: str
    values: dict[str, str] = {}
    # The rule had no answer: whatever its action, the job is refused.
    unanswered: bool = False

    @property
    def by_values(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.values.items())


class PolicyVerdict(Record, frozen=True):
    """`spec` is the job with the defaults that policies gave it."""

    spec: JobSpec
    rejected: Said | None = None
    warnings: tuple[Said, ...] = ()
    alerts: tuple[Said, ...] = ()


def said(record: PolicyRecord, facts: Mapping[str, object], names: Iterable[str]) -> Said:
    """Long texts are cut, lists and maps only counted or named: what is in them may be private."""
    values = {name: _shown(facts[name]) for name in list(names)[:_NAMES_SHOWN] if name != "now"}
    return Said(policy=record.name, tenant=record.tenant, message=record.message, values=values)


def unanswered(record: PolicyRecord, why: str) -> Said:
    message = f"policy {record.name} could not be evaluated: {why}"
    return Said(policy=record.name, tenant=record.tenant, message=message, unanswered=True)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"{len(cast('list[object]', value))} of them"
    text = ", ".join(sorted(cast("dict[str, object]", value))) or "none" if isinstance(value, dict) else _plain(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}..."


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value) or '""'
