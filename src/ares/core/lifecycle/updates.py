"""What a job asks for after it was admitted: its specification never changes, its state says what is asked for instead.

So one record has both, what is asked for and what came of it, and one compare covers both: a grant that was decided by
what the job asked for before does not land.
"""

from typing import Any

from msgspec import UNSET, to_builtins
from msgspec.structs import asdict, replace

from ares.core.lifecycle.inputs import Context, Stepped, Update
from ares.core.lifecycle.ledger import UnnumberedEntry, commit
from ares.core.refusal import Refusal
from ares.model.job import JobSpec
from ares.model.state import BOUND, Job, JobState, SpecUpdate

UPDATABLE = SpecUpdate.__struct_fields__
# Of a job that has its place: who may take it away, and when it ends.
WHILE_BOUND = frozenset({"priority", "time_limit_s"})
# So many entries say enough of what a person wanted; a program that changes its job all the time is at fault.
UPDATES_MAX = 1000


def in_force(spec: JobSpec, state: JobState) -> JobSpec:
    """What the job asks for now."""
    if state.update is None:
        return spec
    return replace(spec, **{name: value for name, value in asdict(state.update).items() if value is not UNSET})


def difference(spec: JobSpec, wanted: JobSpec) -> SpecUpdate | None:
    """What is to be kept beside the specification so that `wanted` is in force; None when that is nothing."""
    found = {name: getattr(wanted, name) for name in UPDATABLE if getattr(wanted, name) != getattr(spec, name)}
    return SpecUpdate(**found) if found else None


def changed_fields(before: JobSpec, after: JobSpec) -> tuple[str, ...]:
    return tuple(name for name in UPDATABLE if getattr(before, name) != getattr(after, name))


def update(job: Job, what: Update, context: Context) -> Stepped | Refusal:
    """The job asks for `what.spec` from now on; `job.spec` is what it asked for until now."""
    state, fields = job.state, changed_fields(job.spec, what.spec)
    if what.updates != state.updates:
        message = f"job {state.id} was changed meanwhile: update {state.updates} came first"
        return Refusal(code="not-allowed", message=message, fix="look at it and send the change again")
    if not fields:
        return Refusal(code="not-allowed", message=f"job {state.id} asks for exactly this already")
    fixed = [name for name in fields if name not in WHILE_BOUND] if state.phase in BOUND else []
    if fixed:
        return _has_its_place(state, fixed)
    if state.updates >= UPDATES_MAX:
        message = f"job {state.id} was changed {state.updates} times, the limit is {UPDATES_MAX}"
        return Refusal(code="not-allowed", message=message, fix="submit it anew")
    data = {"before": shown(job.spec, fields), "after": shown(what.spec, fields)}
    reason = what.reason or f"changed by {what.by}: {', '.join(map(json_name, fields))}"
    changes: dict[str, Any] = {}
    if "resources" in fields or "reservation" in fields:
        # Room that was kept for what it asked for before.
        changes = {"hold": (), "evicting": (), "alternative": 0}
    if state.phase in BOUND and "time_limit_s" in fields:
        changes["planned_s"] = _planned_s(job, what.spec)
    return commit(
        state, context.now, (UnnumberedEntry("updated", reason, what.by, data),),
        update=what.update, updates=state.updates + 1, reason=state.reason,
        deadline_at=what.spec.deadline_at, start_by_at=what.spec.start_by_at, sla=what.spec.sla,
        cost_estimate=what.cost_estimate, estimated_s=what.estimated_s, **changes,
    )  # fmt: skip


def _has_its_place(state: JobState, fixed: list[str]) -> Refusal:
    named = ", ".join(map(json_name, fixed))
    message = f"job {state.id} is {state.phase}; {named} can only be changed while it waits"
    fix = f"send it back to the queue first: `ares requeue {state.id}`"
    return Refusal(code="not-allowed", message=message, fix=fix)


def _planned_s(job: Job, after: JobSpec) -> float | None:
    """How long the attempt is to run by the new limit. Where the old one was what it was planned by, the new one is."""
    planned, old, new = job.state.planned_s, job.spec.time_limit_s, after.time_limit_s
    if planned is None:
        return None
    if new is None:
        return None if old is not None and planned >= old else planned
    ends = new + after.grace_s
    return ends if old is not None and planned >= old else min(planned, ends)


def shown(spec: JobSpec, fields: tuple[str, ...]) -> dict[str, Any]:
    """These fields as the ledger and people have them."""
    return {json_name(name): to_builtins(getattr(spec, name)) for name in fields}


def json_name(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(map(str.capitalize, rest))
