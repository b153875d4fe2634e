"""Commands to agents, derived from the state of a job and its placements, never stored."""

from ares.control.governance.secrets import Secrets
from ares.control.state.view import View
from ares.core.checkpoint import FIRST_STALL_S, interrupted_every_s, interval_s
from ares.core.lifecycle.fences import revoked_fence
from ares.core.lifecycle.ranks import held, holds, place_of, saves
from ares.core.trace.ids import run_traceparent
from ares.model.checkpoint import CheckpointPolicy
from ares.model.job import JobSpec
from ares.model.link import AttemptRef, GangPeer, Start, Stop, WorldInfo
from ares.model.state import BOUND, JobState, Placement

_ALONE = WorldInfo()


def attempt_of(state: JobState) -> AttemptRef:
    """The attempt that a bound state grants, or that a lingering state has revoked."""
    fence = state.fence if state.phase in BOUND else revoked_fence(state)
    return AttemptRef(job=state.id, tenant=state.tenant, fence=fence)


def grants(state: JobState, ref: AttemptRef, rank: int) -> bool:
    """Whether the state still grants the rank of this attempt."""
    current = state.phase in BOUND and state.fence == ref.fence and state.tenant == ref.tenant
    return current and place_of(state.placements, rank) is not None


def world_of(view: View, state: JobState, spec: JobSpec | None) -> WorldInfo:
    if spec is None or spec.gang is None:
        return _ALONE
    peers = tuple(
        GangPeer(rank=place.rank, node=place.node, address=_address(view, place)) for place in state.placements
    )
    return WorldInfo(generation=state.generation, peers=peers, master_port=state.master_port)


def _address(view: View, place: Placement) -> str:
    record = view.nodes.get(place.node)
    return "" if record is None else record.info.address


def start_of(
    ref: AttemptRef, state: JobState, place: Placement, spec: JobSpec, world: WorldInfo, secrets: Secrets
) -> Start:
    # Read now: each attempt gets the secrets as they are at its start.
    given = secrets.reveal_for(state.tenant, spec) if spec.secrets else ()
    return Start(
        ref=ref,
        attempt=state.attempt,
        placement=place,
        spec=spec,
        world=world,
        array=state.array,
        index=state.index,
        trace=run_traceparent(state, place.rank),
        key="" if spec.runtime is None else secrets.meeting_key(ref),
        updates=state.updates,
        secrets=() if isinstance(given, str) else given,
        secrets_trouble=given if isinstance(given, str) else "",
        checkpoint=state.checkpoint,
        **({} if spec.checkpoint is None else _checkpointing(state, spec.checkpoint)),
    )


def _checkpointing(state: JobState, policy: CheckpointPolicy) -> dict[str, float]:
    """How often a checkpoint is due, as far as that is known before any is saved in this attempt."""
    if policy.interval_s is not None:
        return {"checkpoint_every_s": policy.interval_s}
    began = state.first_started_at or state.bound_at or 0.0
    failures = sum(state.retries.values()) + state.preemptions + state.requeues
    between_s = interrupted_every_s((state.bound_at or began) - began, failures)
    stall_s = FIRST_STALL_S if state.checkpoint is None else state.checkpoint.stall_s
    return {"checkpoint_every_s": interval_s(stall_s, between_s), "interrupted_every_s": between_s}


def stop_of(ref: AttemptRef, rank: int, now: JobState | None, spec: JobSpec | None) -> Stop:
    """`now` is the job's state without the rank. Only a rank that the job waits for has a grace."""
    if now is None:
        return Stop(ref=ref, grace_s=0.0, reason="the job was removed", ranks=(rank,))
    reason = now.reason or now.phase
    if spec is None or attempt_of(now) != ref or place_of(held(now), rank) is None:
        return Stop(ref=ref, grace_s=0.0, reason=reason, ranks=(rank,))
    if now.phase in BOUND:
        return Stop(ref=ref, grace_s=spec.grace_s, reason="the gang goes on without this rank", ranks=(rank,))
    if now.phase != "PREEMPTED" or not saves(spec):
        return Stop(ref=ref, grace_s=spec.grace_s, reason=reason, ranks=(rank,))
    saving = spec.preemption
    return Stop(
        ref=ref, grace_s=spec.grace_s, reason=reason, ranks=(rank,),
        checkpoint_signal=saving.checkpoint_signal, wait_s=saving.wait_s, saves=spec.checkpoint is not None,
    )  # fmt: skip


def asks_nothing_new(before: JobState, after: JobState) -> bool:
    """Whether the same ranks of the same attempt are still granted, or still to end."""
    same = before.fence == after.fence and before.generation == after.generation
    return same and holds(before) and holds(after)
