"""What a saved checkpoint does to its job, and one that is found damaged."""

from typing import Any

from msgspec.structs import replace

from ares.core.energy import merged, portion
from ares.core.lifecycle import fences
from ares.core.lifecycle.inputs import CheckpointDamaged, CheckpointSealed, Context, Stepped
from ares.core.lifecycle.ledger import UnnumberedEntry, agent, commit
from ares.core.lifecycle.ranks import held, place_of
from ares.core.refusal import Refusal
from ares.model.checkpoint import CHECKPOINTS_MAX
from ares.model.state import BOUND, Fence, Job, JobState, Placement, Spent, Unsaved


def sealed(job: Job, what: CheckpointSealed, context: Context) -> Stepped | Refusal:
    """Its files are all kept. It becomes the newest, or nothing changes."""
    state = job.state
    place = saving_place(state, what.fence, what.rank)
    if place is None:
        return _not_its_own(state, what.fence, what.rank)
    pointer, newest = what.record.pointer, state.checkpoint
    if newest is not None and pointer.id <= newest.id:
        message = f"job {state.id}: checkpoint {pointer.id} is not newer than {newest.id}"
        return Refusal(code="not-allowed", message=message)
    # The agent's clock may be off: it was saved between the grant and now.
    taken_at = max(state.bound_at or 0.0, min(pointer.taken_at, context.now))
    pointer = replace(pointer, taken_at=taken_at, nth=1 if newest is None else newest.nth + 1)
    # Without its metrics: its entries stay as long as the job is kept.
    data: dict[str, Any] = {"checkpoint": pointer.seq, "step": pointer.step, "bytes": pointer.size, "nth": pointer.nth}
    entries = (UnnumberedEntry("checkpointed", "", agent(place), data, what.fence),) if is_told(pointer.nth) else ()
    stepped = commit(state, context.now, entries, checkpoint=pointer, reason=state.reason, **_rescued(state, taken_at))
    return replace(stepped, checkpoint=replace(what.record, pointer=pointer))


def is_told(nth: int) -> bool:
    """Whether the ledger has an entry for the checkpoint: for each of the first ten, then for each tenth, hundredth and
    so on. A job may save every second for months, and its ledger is read as a whole."""
    return nth % 10 ** (len(str(nth)) - 1) == 0


def saving_place(state: JobState, fence: Fence, rank: int) -> Placement | None:
    """Where the rank is, if it may save a checkpoint: the attempt has the job's fence, or it was preempted just now and
    the rank still holds its place. A lost or cancelled attempt saves nothing."""
    if state.phase in BOUND:
        mine = fence == state.fence
    else:
        mine = state.phase == "PREEMPTED" and state.lingering and fence == fences.revoked_fence(state)
    return place_of(held(state), rank) if mine else None


def _not_its_own(state: JobState, fence: Fence, rank: int) -> Refusal:
    current = state.fence if state.phase in BOUND else fences.revoked_fence(state)
    if fence != current:
        return fences.stale(state, fence)
    message = f"job {state.id} is {state.phase}; rank {rank} of it holds no place and can save no checkpoint"
    return Refusal(code="not-allowed", message=message)


def damaged(job: Job, what: CheckpointDamaged, context: Context) -> Stepped | Refusal:
    """Attempts leave it out from now on."""
    state, found = job.state, what.checkpoint
    place = place_of(held(state), what.rank)
    if place is None:
        return _not_its_own(state, what.fence, what.rank)
    if found.fence >= what.fence:
        message = f"job {state.id}: checkpoint {found} was not there before attempt {what.fence}"
        return Refusal(code="not-allowed", message=message)
    if found in state.damaged:
        return Refusal(code="not-allowed", message=f"job {state.id}: checkpoint {found} is known to be damaged")
    data = {"checkpoint": found.seq, "of": str(found.fence)}
    entry = UnnumberedEntry("checkpoint-damaged", what.reason, agent(place), data)
    known = tuple(sorted((*state.damaged, found)))[-CHECKPOINTS_MAX:]
    return commit(state, context.now, (entry,), damaged=known, reason=state.reason)


# ---- what an attempt that is taken away loses


def unsaved(job: Job, now: float) -> dict[str, Any]:
    """For the record of an attempt that is taken away and may still save: what it loses if it does not."""
    state = job.state
    if job.spec.checkpoint is None or not state.rates:
        return {}
    since = state.bound_at if state.metered_at is None else state.metered_at
    saved = state.checkpoint
    if saved is not None and saved.fence == state.fence:
        since = max(since or 0.0, saved.taken_at)
    if since is None or since >= now:
        return {}
    return {"unsaved": Unsaved(since=since, until=now, spent=portion(state, now - since, "lost"))}


def _rescued(state: JobState, taken_at: float) -> dict[str, Any]:
    """A checkpoint that is saved on the way out saves what was counted as lost."""
    lost = state.unsaved
    if lost is None or state.phase in BOUND:
        return {}
    until = min(taken_at, lost.until)
    share = (until - lost.since) / (lost.until - lost.since)
    if share <= 0:
        return {}
    kept = [_times(replace(part, fate="kept"), share) for part in lost.spent]
    less = [_times(part, -share) for part in lost.spent]
    left = Unsaved(since=until, until=lost.until, spent=tuple(_times(part, 1 - share) for part in lost.spent))
    return {"spent": merged([*state.spent, *less, *kept]), "unsaved": left if share < 1 else None}


def _times(spent: Spent, factor: float) -> Spent:
    return replace(
        spent, gpu_s=spent.gpu_s * factor, cpu_s=spent.cpu_s * factor, energy_j=spent.energy_j * factor,
        cost=spent.cost * factor,
    )  # fmt: skip
