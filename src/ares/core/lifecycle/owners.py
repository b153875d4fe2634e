"""A job that is with a cluster: which one, and what that says of it. Only a global plane's jobs are ever so.

While a cluster has it, the job is WAITING until it has a place there, then STAGING and RUNNING, and its placements are
the cluster's own affair. What the cluster tells is taken over entry by entry; nothing else moves the job but a cancel.
"""

from typing import Any

from msgspec.structs import replace

from ares.core.federation import owners
from ares.core.federation.epochs import before_restore, newborn, shown
from ares.core.lifecycle.inputs import Context, OwnerFound, OwnerMoved, OwnerTold, Stepped
from ares.core.lifecycle.ledger import UnnumberedEntry, commit
from ares.core.refusal import Refusal
from ares.model.cluster import Owner
from ares.model.cluster_link import LedgerLine, OwnedStanding
from ares.model.state import TERMINAL, EventKind, Fence, Job, JobState, LedgerEvent, Phase, Result

# Attempts in the next cluster begin after all that may have begun, unheard of, in the one before.
FENCES_APART = 1_000_000
# Far beyond what a cluster can come to, and far from where numbers end: the next cluster still counts on from it.
_FENCE_MAX = Fence(epoch=2**31, counter=2**52)
_NONE = Owner()
_KINDS: dict[str, EventKind] = {"HELD": "taken-back", "OFFERED": "offered", "CONFIRMED": "confirmed"}


def is_away(state: JobState) -> bool:
    """Whether a cluster has the job, or is asked to take it: then nothing here places, holds or updates it."""
    return state.owner is not None and state.owner.stage != "HELD"


def owner_of(state: JobState) -> Owner:
    """A job that no cluster was ever offered was born under the epoch of the store that took it in."""
    return state.owner or Owner(epoch=newborn(state.fence.epoch))


def seen_phase(phase: Phase) -> Phase:
    """The phase here of a job that is in this phase in its cluster."""
    return "WAITING" if phase in ("PENDING", "RETRYING", "PREEMPTED") else phase


def owned_elsewhere(state: JobState) -> Refusal:
    owner = state.owner or _NONE
    message = f"job {state.id} is with cluster {owner.cluster} ({owner.stage}): what becomes of it is decided there"
    return Refusal(code="not-allowed", message=message, fix=f"ask again when cluster {owner.cluster} can be reached")


def move(job: Job, what: OwnerMoved, context: Context) -> Stepped | Refusal:
    """The job is offered, confirmed, or comes back."""
    state = job.state
    before = owner_of(state)
    if state.phase == "CANCELLED":
        return _left(state, what, context)
    if state.lingering:
        return Refusal(code="not-allowed", message=f"job {state.id}: processes of attempt {state.attempt} still end")
    after = owners.step(before, what.asked, store_epoch=context.epoch, ended=state.phase in TERMINAL)
    if isinstance(after, Refusal):
        return replace(after, message=f"job {state.id}: {after.message}")
    if after == before:
        return Refusal(code="not-allowed", message=f"job {state.id}: that is known")
    was_offer = before.stage == "OFFERED" and after.stage == "HELD"
    kind: EventKind = "offer-over" if was_offer else _KINDS[after.stage]
    data = {"cluster": after.cluster or before.cluster, "epoch": after.epoch, **what.record}
    entry = UnnumberedEntry(kind, what.reason, "router", data)
    return commit(state, context.now, (entry,), owner=after, reason=what.reason, **_changes(state, after, context.now))


def _changes(state: JobState, owner: Owner, now: float) -> dict[str, Any]:
    if owner.stage == "OFFERED":
        return {"phase": "WAITING", "hold": (), "evicting": ()}
    if owner.stage == "CONFIRMED":
        return {"phase": "WAITING", "owner_seq": 0}
    fence = Fence(epoch=state.fence.epoch, counter=state.fence.counter + FENCES_APART)
    return {
        "phase": "PENDING", "queued_at": now, "fence": fence, "owner_seq": 0, "exit": None, "bound_at": None,
        "started_at": None, "placements": (), "rates": (), "metered_at": None,
    }  # fmt: skip


def found(job: Job, what: OwnerFound, context: Context) -> Stepped | Refusal:
    """Only an epoch from before the restore can be one that this store has forgotten."""
    state, before = job.state, owner_of(job.state)
    if (
        what.epoch <= before.epoch
        or not before_restore(what.epoch, context.epoch)
        or state.lingering
        or state.placements
    ):
        message = (
            f"job {state.id} is {before.stage} at epoch {shown(before.epoch)}: {shown(what.epoch)} is not its next"
        )
        return Refusal(code="stale-epoch", message=message)
    after = Owner(cluster=what.cluster, epoch=what.epoch, stage="CONFIRMED")
    entry = UnnumberedEntry("confirmed", what.reason, "controller", {"cluster": what.cluster, "epoch": what.epoch})
    return commit(state, context.now, (entry,), owner=after, reason=what.reason, **_changes(state, after, context.now))


def told(job: Job, what: OwnerTold, context: Context) -> Stepped | Refusal:
    """The owner says how far the job has come. A report of another cluster or epoch is refused, whatever it says."""
    state, standing = job.state, what.standing
    owner = state.owner or _NONE
    if not owners.carries(owner, what.cluster, standing.epoch):
        message = (
            f"job {state.id} is not cluster {what.cluster}'s at that epoch: it is {owner.stage} by {owner.cluster}"
        )
        return Refusal(code="stale-epoch", message=message)
    if state.phase == "CANCELLED":
        return _gone(state, standing, context)
    if standing.fence.epoch > _FENCE_MAX.epoch or standing.fence.counter > _FENCE_MAX.counter:
        return Refusal(code="invalid", message=f"job {state.id}: no attempt can have fence {standing.fence}")
    is_over = standing.phase in TERMINAL
    # A cluster that was restored counts its ledger from an earlier number on. Its next attempt has a greater fence, and
    # an end is final: both are news.
    if standing.seq <= known_seq(state) and not is_over and standing.fence <= state.fence:
        return Refusal(code="not-allowed", message=f"job {state.id}: its ledger is known up to {known_seq(state)}")
    phase = seen_phase(standing.phase)
    new = replace(state, phase=phase, **_copied(standing, owner, context.now))
    if standing.phase == "SUCCEEDED" and standing.ended is None:
        return Refusal(code="invalid", message=f"job {state.id}: its cluster says that it succeeded, without a result")
    fresh = _fresh(standing, state.owner_seq)
    if phase != state.phase and (not fresh or seen_phase(fresh[-1].phase) != phase):
        return Refusal(code="invalid", message=f"job {state.id}: no entry of its ledger says that it is {phase}")
    events = tuple(_entry(new, entry, owner, number, context.now) for number, entry in enumerate(fresh, state.seq + 1))
    new = replace(new, seq=state.seq + len(events))
    ended = standing.ended
    result = None if ended is None or not is_over else Result(
        job=state.id, fence=standing.fence, attempt=standing.attempt, exit=ended.exit,
        committed_at=min(ended.committed_at, context.now), value=ended.value, outputs=ended.outputs,
    )  # fmt: skip
    return Stepped(state=new, events=events, result=result)


def known_seq(state: JobState) -> int:
    """How far the ledger in the cluster is known. Its first entry is the submission."""
    return max(state.owner_seq, 1)


def _fresh(standing: OwnedStanding, known: int) -> list[LedgerLine]:
    """Entries that are not here yet. The one of its submission always is; of a ledger that went back, the last."""
    if standing.seq <= known:
        return list(standing.entries[-1:])
    return [entry for entry in standing.entries if entry.seq > known and entry.kind != "submitted"]


def _copied(standing: OwnedStanding, owner: Owner, now: float) -> dict[str, Any]:
    waits = seen_phase(standing.phase) == "WAITING"
    # An end has its time, and nothing else has.
    ended_at = _not_after(now if standing.ended_at is None else standing.ended_at, now)
    where = f"{standing.phase} in cluster {owner.cluster}"
    reason = ": ".join(part for part in (where, standing.reason) if part) if waits else standing.reason
    return {
        "owner_seq": standing.seq, "fence": standing.fence, "attempt": standing.attempt, "exit": standing.exit,
        "restarts": standing.restarts, "preemptions": standing.preemptions, "reason": reason,
        "bound_at": _not_after(standing.bound_at, now), "started_at": _not_after(standing.started_at, now),
        "ended_at": ended_at if standing.phase in TERMINAL else None, "gpu_s": standing.gpu_s, "cpu_s": standing.cpu_s,
        "spent": standing.spent, "output_bytes": standing.output_bytes,
    }  # fmt: skip


def _not_after(at: float | None, now: float) -> float | None:
    """The cluster's clock may be ahead."""
    return None if at is None else min(at, now)


def _entry(state: JobState, entry: LedgerLine, owner: Owner, number: int, now: float) -> LedgerEvent:
    return LedgerEvent(
        job=state.id, tenant=state.tenant, seq=number, kind=entry.kind, phase=seen_phase(entry.phase),
        at=min(entry.at, now), attempt=entry.attempt, fence=entry.fence, by=entry.by, reason=entry.reason,
        data={**entry.data, "cluster": owner.cluster},
    )  # fmt: skip


def _gone(state: JobState, standing: OwnedStanding, context: Context) -> Stepped | Refusal:
    """A cancelled job: of what it did after that, only that nothing of it is left."""
    if not state.lingering or standing.phase not in TERMINAL or standing.lingering:
        return _final(state)
    cluster = (state.owner or _NONE).cluster
    return _released(state, f"nothing of it runs in cluster {cluster} any more", f"cluster {cluster}", context)


def _left(state: JobState, what: OwnerMoved, context: Context) -> Stepped | Refusal:
    """A cancelled job leaves its cluster as any other would: it was let go there, or is lost with the cluster."""
    before = owner_of(state)
    after = owners.step(before, what.asked, store_epoch=context.epoch)
    if not state.lingering or not is_there(state) or isinstance(after, Refusal) or after.stage != "HELD":
        return _final(state)
    return _released(state, what.reason, "router", context)


def _final(state: JobState) -> Refusal:
    return Refusal(code="terminal", message=f"job {state.id} is already CANCELLED, which is final")


def _released(state: JobState, reason: str, by: str, context: Context) -> Stepped:
    return commit(
        state, context.now, (UnnumberedEntry("released", reason, by),), lingering=False, reason=state.reason
    )  # fmt: skip


def is_there(state: JobState) -> bool:
    """Whether a cluster has the job: it ends it when the job is cancelled, and until it says so something may run."""
    return state.owner is not None and state.owner.stage == "CONFIRMED"


def without_offer(state: JobState) -> Owner | None:
    """The owner of a job that is cancelled: an offer is over at once, since nothing has begun."""
    owner = state.owner
    return owner if owner is None or owner.stage != "OFFERED" else Owner(epoch=owner.epoch)
