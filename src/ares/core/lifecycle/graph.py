"""The one state graph of a job: a table from (phase, input) to what happens, and `step` that looks it up.

Anything that is not in the table is refused. The diagram in the docs is drawn from the same table.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ares.core.lifecycle import checkpoints, endings, fences, handlers, owners, updates, waiting
from ares.core.lifecycle.inputs import (
    AssemblyOver,
    BeginDue,
    Bind,
    Cancel,
    CheckpointDamaged,
    CheckpointSealed,
    Context,
    Exit,
    HoldBack,
    Input,
    LeaseLost,
    LetGo,
    NeedsMet,
    NeedsOverdue,
    NeedsUnmet,
    Nominate,
    OwnerFound,
    OwnerMoved,
    OwnerTold,
    Preempt,
    RanksResized,
    RankStarted,
    Release,
    RetryDue,
    RetryNow,
    SendBack,
    Stepped,
    Update,
    VerdictDue,
)
from ares.core.lifecycle.ledger import UnnumberedEntry, numbered
from ares.core.refusal import Refusal
from ares.model.checkpoint import CheckpointPointer
from ares.model.job import FailureClass, JobSpec
from ares.model.state import TERMINAL, ChildOf, Fence, Job, JobState, Phase

# Each handler takes its own kind of input; the table's key makes sure it gets no other.
Handler = Callable[[Job, Any, Context], Stepped | Refusal]


class Transition(NamedTuple):
    """What handles an input in a phase, and every phase it may lead to."""

    handler: Handler
    targets: frozenset[Phase]


def _to(handler: Handler, *targets: Phase) -> Transition:
    return Transition(handler, frozenset(targets))


# Wherever the job has come in its cluster.
_TOLD: tuple[Phase, ...] = ("WAITING", "STAGING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN")

TRANSITIONS: dict[tuple[Phase, type[Input]], Transition] = {
    ("PENDING", Bind): _to(handlers.bind, "STAGING"),
    ("PENDING", Nominate): _to(handlers.nominate, "PENDING"),
    ("PENDING", Cancel): _to(handlers.cancel, "CANCELLED"),
    ("PENDING", Update): _to(updates.update, "PENDING"),
    ("PENDING", HoldBack): _to(waiting.hold, "WAITING"),
    # As long as any of three keeps it: a person, the time before which it must not begin, or what it needs.
    ("WAITING", HoldBack): _to(waiting.hold, "WAITING"),
    ("WAITING", LetGo): _to(waiting.let_go, "WAITING", "PENDING"),
    ("WAITING", BeginDue): _to(waiting.begin_due, "PENDING"),
    ("WAITING", NeedsMet): _to(waiting.needs_met, "WAITING", "PENDING"),
    ("WAITING", NeedsOverdue): _to(waiting.needs_overdue, "WAITING"),
    ("WAITING", NeedsUnmet): _to(waiting.needs_unmet, "SKIPPED", "FAILED", "WAITING", "PENDING"),
    ("WAITING", Cancel): _to(handlers.cancel, "CANCELLED"),
    ("WAITING", Update): _to(updates.update, "WAITING"),
    # A gang runs when all its ranks have started.
    ("STAGING", RankStarted): _to(handlers.start, "STAGING", "RUNNING"),
    # The report of the start may come together with the report of the end, or not at all.
    ("STAGING", Exit): _to(endings.finish, "STAGING", "RUNNING", "SUCCEEDED", "FAILED", "RETRYING"),
    ("STAGING", VerdictDue): _to(endings.verdict, "FAILED", "RETRYING"),
    ("STAGING", LeaseLost): _to(endings.lease_lost, "RETRYING", "FAILED", "UNKNOWN"),
    ("STAGING", AssemblyOver): _to(endings.assembly_over, "RETRYING", "FAILED"),
    ("STAGING", Preempt): _to(endings.preempt, "PREEMPTED"),
    ("STAGING", Cancel): _to(handlers.cancel, "CANCELLED"),
    ("STAGING", Update): _to(updates.update, "STAGING"),
    ("STAGING", SendBack): _to(endings.send_back, "PREEMPTED"),
    ("STAGING", CheckpointSealed): _to(checkpoints.sealed, "STAGING"),
    ("STAGING", CheckpointDamaged): _to(checkpoints.damaged, "STAGING"),
    ("RUNNING", RankStarted): _to(handlers.start, "RUNNING"),
    ("RUNNING", Exit): _to(endings.finish, "RUNNING", "SUCCEEDED", "FAILED", "RETRYING"),
    ("RUNNING", VerdictDue): _to(endings.verdict, "FAILED", "RETRYING"),
    ("RUNNING", LeaseLost): _to(endings.lease_lost, "RUNNING", "RETRYING", "FAILED", "UNKNOWN"),
    ("RUNNING", RanksResized): _to(handlers.resize, "RUNNING"),
    ("RUNNING", Release): _to(endings.release, "RUNNING"),
    ("RUNNING", Preempt): _to(endings.preempt, "PREEMPTED"),
    ("RUNNING", Cancel): _to(handlers.cancel, "CANCELLED"),
    ("RUNNING", Update): _to(updates.update, "RUNNING"),
    ("RUNNING", SendBack): _to(endings.send_back, "PREEMPTED"),
    ("RUNNING", CheckpointSealed): _to(checkpoints.sealed, "RUNNING"),
    # The fence was taken away just now, so that the attempt saves its work: what it saves is kept.
    ("PREEMPTED", CheckpointSealed): _to(checkpoints.sealed, "PREEMPTED"),
    ("PREEMPTED", Release): _to(endings.release, "PREEMPTED", "PENDING"),
    ("PREEMPTED", Cancel): _to(handlers.cancel, "CANCELLED"),
    ("PREEMPTED", Update): _to(updates.update, "PREEMPTED"),
    ("RETRYING", RetryDue): _to(handlers.retry_due, "PENDING"),
    ("RETRYING", RetryNow): _to(handlers.retry_now, "PENDING"),
    ("RETRYING", Release): _to(endings.release, "RETRYING"),
    ("RETRYING", Cancel): _to(handlers.cancel, "CANCELLED"),
    ("RETRYING", Update): _to(updates.update, "RETRYING"),
    ("RETRYING", HoldBack): _to(waiting.hold, "WAITING"),
    # Of a job that is with a cluster.
    ("PENDING", OwnerMoved): _to(owners.move, "WAITING"),
    ("WAITING", OwnerMoved): _to(owners.move, "WAITING", "PENDING"),
    ("STAGING", OwnerMoved): _to(owners.move, "PENDING"),
    ("RUNNING", OwnerMoved): _to(owners.move, "PENDING"),
    ("PENDING", OwnerFound): _to(owners.found, "WAITING"),
    ("WAITING", OwnerFound): _to(owners.found, "WAITING"),
    ("STAGING", OwnerFound): _to(owners.found, "WAITING"),
    ("RUNNING", OwnerFound): _to(owners.found, "WAITING"),
    ("WAITING", OwnerTold): _to(owners.told, *_TOLD),
    ("STAGING", OwnerTold): _to(owners.told, *_TOLD),
    ("RUNNING", OwnerTold): _to(owners.told, *_TOLD),
    # Nothing of it is left there: said, or known by another word.
    ("CANCELLED", OwnerTold): _to(owners.told, "CANCELLED"),
    ("CANCELLED", OwnerMoved): _to(owners.move, "CANCELLED"),
    # Final, and yet something of the last attempt may have to be confirmed gone.
    ("SUCCEEDED", Release): _to(endings.release, "SUCCEEDED"),
    ("FAILED", Release): _to(endings.release, "FAILED"),
    ("CANCELLED", Release): _to(endings.release, "CANCELLED"),
    ("UNKNOWN", Release): _to(endings.release, "UNKNOWN"),
}

# Inputs about the current attempt: with another fence they are about one that is over.
_FENCED = (RankStarted, Exit, VerdictDue, LeaseLost, AssemblyOver, Preempt, RanksResized, CheckpointDamaged)


# What applies to a job that a cluster has.
_AWAY = (OwnerMoved, OwnerFound, OwnerTold, Cancel)


# New jobs share it: nothing changes a state's values in place.
_NO_RETRIES: dict[FailureClass, int] = {}


def begin(
    *,
    id: str,  # noqa: A002 - it is the field's name
    tenant: str,
    spec: JobSpec,
    name: str,
    submitted_by: str,
    submitter_id: str = "",
    context: Context,
    trace: str = "",
    array: str | None = None,
    index: int | None = None,
    retry_of: str | None = None,
    manual_retries: int = 0,
    request_id: str | None = None,
    note: str = "",
    cost_estimate: float = 0.0,
    estimated_s: float = 0.0,
    flow: str | None = None,
    child_of: ChildOf | None = None,
    checkpoint: CheckpointPointer | None = None,
) -> Stepped:
    """The first state of an admitted job and its first ledger entry."""
    wants = spec.resources
    data = {"priority": spec.priority, "cpuMilli": wants.cpu_milli, "memoryMib": wants.memory_mib, "gpus": wants.gpus}
    first = JobState(
        id=id, tenant=tenant, name=name, seq=1, fence=Fence(epoch=context.epoch), array=array, index=index,
        retry_of=retry_of, manual_retries=manual_retries, request_id=request_id, submitted_by=submitted_by,
        submitter_id=submitter_id, team=spec.team, trace=trace,
        deadline_at=spec.deadline_at, start_by_at=spec.start_by_at, sla=spec.sla,
        submitted_at=context.now, queued_at=context.now, cost_estimate=cost_estimate, estimated_s=estimated_s,
        phase=waiting.first_phase(spec, flow, context.now), held_by=submitted_by if spec.held else "",
        flow=flow, is_finally=spec.finally_, child_of=child_of, retries=_NO_RETRIES,
        checkpoint=checkpoint,
    )  # fmt: skip
    made_by = "" if child_of is None else f"call {child_of.call} of job {child_of.job}"
    parts = (f"retry of {retry_of}" if retry_of else "", made_by, note)
    reason = ": ".join([part for part in parts if part])
    entry = UnnumberedEntry("submitted", reason, submitted_by, data)
    return Stepped(state=first, events=(numbered(first, context.now, 1, entry),))


def step(job: Job, what: Input, context: Context) -> Stepped | Refusal:
    """What `what` does to the job now: the whole transition to write, or why nothing changes."""
    state = job.state
    transition = TRANSITIONS.get((state.phase, type(what)))
    if transition is None:
        return _refusal(state, what)
    if isinstance(what, _FENCED) and what.fence != state.fence:
        return fences.stale(state, what.fence)
    if state.owner is not None and owners.is_away(state) and not isinstance(what, _AWAY):
        return owners.owned_elsewhere(state)
    return transition.handler(job, what, context)


def _refusal(state: JobState, what: Input) -> Refusal:
    kind = type(what).__struct_config__.tag
    if state.phase in TERMINAL:
        advice = "; a finished job is retried as a new job" if isinstance(what, RetryNow) else ""
        message = f"job {state.id} is already {state.phase}, which is final{advice}"
        return Refusal(code="terminal", message=message)
    if isinstance(what, HoldBack | LetGo):
        return waiting.not_held(state, what)
    if isinstance(what, (*_FENCED, Release)) and what.fence != state.fence:
        return fences.stale(state, what.fence)
    return Refusal(code="not-allowed", message=f"job {state.id} is {state.phase}; {kind} does not apply to it")


def diagram() -> str:
    """The graph as a mermaid state diagram."""
    labels: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, kind), transition in TRANSITIONS.items():
        for target in sorted(transition.targets):
            labels.setdefault((phase, target), []).append(str(kind.__struct_config__.tag))
    lines = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in labels.items()]
    ends = [f"    {phase} --> [*]" for phase in sorted(TERMINAL)]
    return (
        "\n".join(["stateDiagram-v2", "    [*] --> PENDING: submit", "    [*] --> WAITING: submit", *lines, *ends])
        + "\n"
    )
