"""The owner of a job, on the global plane: a table from (stage, input) to the next owner, and `step` that looks it up.

`HELD → OFFERED → CONFIRMED → the job's end`. A cluster starts a job only when it was confirmed, so an offer may be
taken back at once; a confirmed job leaves its cluster only by release, by *declare dead*, or by the end of an ownership
lease.
"""

from collections.abc import Callable
from typing import Any

from ares.core.federation.epochs import before_restore, newborn, raised, shown
from ares.core.federation.messages import (
    JobConfirm,
    JobOffer,
    JobReleased,
    JobWithdraw,
    OfferAccepted,
    OfferDeclined,
    OfferWithdrawn,
    OwnedState,
)
from ares.core.refusal import Refusal
from ares.model.base import Record
from ares.model.cluster import Owner, OwnerStage

# An offer that is not answered for so long is taken back: nothing can have started.
OFFER_SILENCE_S = 10.0
# A cluster ends what it may lose at this part of its ownership lease, by its own clock.
SELF_FENCE = 0.7
LEASE_MIN_S = 60.0
# For processes to be gone after their grace, and for a cluster to get another leader that hears of its global plane.
_ENDING_S, _NEW_LEADER_S = 10.0, 25.0
# A new leader of a cluster has so long to hear of the global plane; then all that may move is ended.
NEW_LEADER_HEARS_S = 10.0


class MakeOffer(Record, frozen=True):
    cluster: str


class OfferSilent(Record, frozen=True):
    """No answer came in time to the offer of this epoch."""

    epoch: int


class ClusterDead(Record, frozen=True):
    """A person declared that the cluster will not come back, or the cluster was restored and has lost the job."""

    cluster: str


class LeaseOver(Record, frozen=True):
    """The cluster was silent for a whole ownership lease, of a job that is to move then."""

    cluster: str
    epoch: int


OwnerInput = (
    MakeOffer | OfferAccepted | OfferDeclined | OfferWithdrawn | OfferSilent | JobReleased | ClusterDead | LeaseOver
)
_Handler = Callable[[Owner, Any, int], Owner]


def _offer(owner: Owner, asked: MakeOffer, store_epoch: int) -> Owner:
    return Owner(cluster=asked.cluster, epoch=raised(owner.epoch, store_epoch), stage="OFFERED")


def _confirm(owner: Owner, _accepted: OfferAccepted, _store_epoch: int) -> Owner:
    return Owner(cluster=owner.cluster, epoch=owner.epoch, stage="CONFIRMED")


def _hold(owner: Owner, _input: OwnerInput, _store_epoch: int) -> Owner:
    """An offer is over. Its epoch was never confirmed, so the next offer's is enough to tell them apart."""
    return Owner(epoch=owner.epoch)


def _take_back(owner: Owner, _input: OwnerInput, _store_epoch: int) -> Owner:
    """A confirmed job may have run: from here on nothing counts that carries its epoch. No offer ever has the number
    after a confirmed one, so a restored global plane that takes a job back hides no later owner by it."""
    return Owner(epoch=owner.epoch + 1)


def _same(owner: Owner, _input: OwnerInput, _store_epoch: int) -> Owner:
    return owner


OWNER_STEPS: dict[tuple[OwnerStage, type], _Handler] = {
    ("HELD", MakeOffer): _offer,
    ("OFFERED", OfferAccepted): _confirm,
    ("OFFERED", OfferDeclined): _hold,
    ("OFFERED", OfferWithdrawn): _hold,
    ("OFFERED", OfferSilent): _hold,
    ("OFFERED", ClusterDead): _take_back,
    # The confirmation is derived from the record and sent again.
    ("CONFIRMED", OfferAccepted): _same,
    # The cluster let go of what it had accepted before the confirmation came: it was never startable.
    ("CONFIRMED", OfferDeclined): _take_back,
    ("CONFIRMED", OfferWithdrawn): _take_back,
    ("CONFIRMED", JobReleased): _take_back,
    ("CONFIRMED", ClusterDead): _take_back,
    ("CONFIRMED", LeaseOver): _take_back,
}


def step(owner: Owner, asked: OwnerInput, *, store_epoch: int, ended: bool = False) -> Owner | Refusal:
    """The owner after an input. `store_epoch` is that of the global plane's own store; `ended`: the job has ended, and
    its owner stays what it was."""
    if ended:
        return Refusal(code="terminal", message="the job has ended: its owner does not change any more")
    if not _is_about(owner, asked):
        return _stale(owner, asked)
    if isinstance(asked, OfferAccepted) and before_restore(owner.epoch, store_epoch):
        message = f"epoch {shown(owner.epoch)} is from before a restore: the job may have been another cluster's since"
        return Refusal(code="stale-epoch", message=message)
    handler = OWNER_STEPS.get((owner.stage, type(asked)))
    if handler is None:
        message = f"a {owner.stage} job has no {type(asked).__name__}"
        return Refusal(code="not-allowed", message=message)
    return handler(owner, asked, store_epoch)


def carries(owner: Owner, cluster: str, epoch: int) -> bool:
    """Whether what a cluster says about a job is to count: a state, a result, an event."""
    return owner.stage == "CONFIRMED" and (owner.cluster, owner.epoch) == (cluster, epoch)


def counts(owner: Owner, told: OwnedState) -> bool:
    return carries(owner, told.cluster, told.epoch)


def submitted(store_epoch: int) -> Owner:
    """The owner of a job that was just submitted to the global plane."""
    return Owner(epoch=newborn(store_epoch))


def may_offer(owner: Owner, store_epoch: int, *, rebuilt: bool) -> bool:
    """Whether the job may be offered to a cluster. `rebuilt`: every cluster that has neither left nor died has healed
    since the global plane's store was restored. Until then a job that is in the backup may run in any of them."""
    return owner.stage == "HELD" and (rebuilt or not before_restore(owner.epoch, store_epoch))


def due(job: str, owner: Owner, store_epoch: int, spec_sha256: str = "") -> JobOffer | JobConfirm | None:
    """What the owner's cluster is to be told, again and again until it has answered. What was offered or confirmed
    before a restore of the global plane is not said again: healing settles it."""
    if before_restore(owner.epoch, store_epoch):
        return None
    if owner.stage == "OFFERED":
        return JobOffer(job=job, epoch=owner.epoch, spec_sha256=spec_sha256)
    if owner.stage == "CONFIRMED":
        return JobConfirm(job=job, epoch=owner.epoch)
    return None


def withdrawal(job: str, before: Owner, after: Owner) -> JobWithdraw | None:
    """What the cluster that lost a job is told. Should it not arrive, healing stops the job there."""
    if not before.cluster or (before.cluster, before.epoch) == (after.cluster, after.epoch):
        return None
    return JobWithdraw(job=job, epoch=before.epoch)


def _is_about(owner: Owner, asked: OwnerInput) -> bool:
    match asked:
        case MakeOffer():
            return True
        case ClusterDead():
            return asked.cluster == owner.cluster
        case OfferSilent():
            return asked.epoch == owner.epoch
        case _:
            return (asked.cluster, asked.epoch) == (owner.cluster, owner.epoch)


def _stale(owner: Owner, asked: OwnerInput) -> Refusal:
    owned = f"{owner.stage} by {owner.cluster}" if owner.cluster else owner.stage
    message = f"{type(asked).__name__} is about another owner: the job is {owned}, epoch {shown(owner.epoch)}"
    return Refusal(code="stale-epoch", message=message)


# ---- ownership leases, of jobs that move when their cluster is silent


def ownership_lease_s(grace_s: float, node_lease_s: float) -> float:
    """How long a cluster is waited for: so long that, from 70 % of it on, there is time for another leader of the
    cluster to notice, for the job's own grace, and for a node that is cut off in turn."""
    return max(LEASE_MIN_S, (grace_s + node_lease_s + _ENDING_S + _NEW_LEADER_S) / (1 - SELF_FENCE))


def lease_over(heard_at: float, now: float, lease_s: float) -> bool:
    """For the global plane, from when it last heard of the cluster, by its own monotonic clock."""
    return now - heard_at >= lease_s


def must_fence(renewal_sent_at: float, now: float, lease_s: float) -> bool:
    """For the cluster, from when it sent the latest renewal that was answered, by its own monotonic clock."""
    return now - renewal_sent_at >= SELF_FENCE * lease_s
