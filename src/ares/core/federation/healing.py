"""Healing: what is done about a job when a cluster is back, by what the global plane says and what the cluster says.

One table, looked up for each job of the buckets that differ. Every verdict may be given twice and in any order: the
second time it finds what the first has made.
"""

from typing import Final, Literal, NamedTuple

from ares.core.federation.epochs import before_restore
from ares.core.federation.messages import JobVerdict
from ares.model.base import Fence
from ares.model.cluster import Owner, OwnerStage

# What the global plane says of a job, seen from the cluster that heals. "behind", "unknown": its own epoch is lower
# than the cluster's, or it does not know the job, as after a restore of the global plane. "never": it is the same, and
# no restore explains it, for its present store would have given out that epoch.
# "cancelled": it has ended, and word that nothing of it is left in the cluster has not come.
GlobalSays = Literal["owner", "offered", "elsewhere", "ended", "cancelled", "behind", "unknown", "never"]
# What the cluster says. "restored": it has nothing, and its store is a new one since the job was confirmed.
ClusterSays = Literal["confirmed", "accepted", "stopping", "ended", "refused", "nothing", "restored", "local"]
# "adopt": the owner's greater (fence, seq) is taken. "late": its result is refused, and kept to be looked at.
Remedy = Literal[
    "adopt", "confirm", "hold", "lost", "alarm", "stop", "late", "import", "rebuild", "raise", "none"
]  # fmt: skip

HEALING: Final[dict[tuple[GlobalSays, ClusterSays], Remedy]] = {
    ("owner", "confirmed"): "adopt",
    ("owner", "accepted"): "confirm",
    ("owner", "stopping"): "none",
    ("owner", "ended"): "adopt",
    ("owner", "refused"): "hold",
    ("owner", "restored"): "lost",
    # It cannot be: a person decides, and nothing is started anew meanwhile.
    ("owner", "nothing"): "alarm",
    ("offered", "confirmed"): "rebuild",
    ("offered", "accepted"): "confirm",
    ("offered", "stopping"): "hold",
    ("offered", "ended"): "rebuild",
    ("offered", "refused"): "hold",
    # The offer is still on its way.
    ("offered", "restored"): "none",
    ("offered", "nothing"): "none",
    ("elsewhere", "confirmed"): "stop",
    ("elsewhere", "accepted"): "stop",
    ("elsewhere", "stopping"): "none",
    ("elsewhere", "ended"): "late",
    ("elsewhere", "refused"): "none",
    ("elsewhere", "restored"): "none",
    ("elsewhere", "nothing"): "none",
    ("ended", "confirmed"): "stop",
    ("ended", "accepted"): "stop",
    ("ended", "stopping"): "none",
    ("ended", "ended"): "none",
    ("ended", "refused"): "none",
    ("ended", "restored"): "none",
    ("ended", "nothing"): "none",
    ("cancelled", "confirmed"): "stop",
    ("cancelled", "accepted"): "stop",
    ("cancelled", "stopping"): "none",
    ("cancelled", "ended"): "adopt",
    # However the cluster came to have nothing of it: that is all that was awaited.
    ("cancelled", "refused"): "lost",
    ("cancelled", "restored"): "lost",
    ("cancelled", "nothing"): "lost",
    ("cancelled", "local"): "stop",
    # The global plane was restored from a backup: the job's owner knows better.
    ("behind", "confirmed"): "rebuild",
    ("behind", "accepted"): "rebuild",
    ("behind", "stopping"): "raise",
    ("behind", "ended"): "rebuild",
    ("behind", "refused"): "raise",
    ("unknown", "confirmed"): "rebuild",
    ("unknown", "accepted"): "rebuild",
    ("unknown", "stopping"): "none",
    ("unknown", "ended"): "rebuild",
    ("unknown", "refused"): "none",
    ("unknown", "local"): "import",
    # Imported before.
    ("owner", "local"): "adopt",
    ("elsewhere", "local"): "stop",
    ("ended", "local"): "stop",
    ("never", "confirmed"): "alarm",
    ("never", "accepted"): "alarm",
    ("never", "stopping"): "none",
    # A job whose record the global plane has forgotten since it ended.
    ("never", "ended"): "none",
    ("never", "refused"): "none",
}


class GlobalJob(NamedTuple):
    """A job as the global plane has it."""

    owner: Owner
    ended: bool = False
    fence: Fence = Fence()
    seq: int = 0
    # The store epoch that its cluster had when the job was confirmed to it.
    confirmed_in: int = 0
    # It was cancelled here, and its cluster has not said that nothing of it is left.
    lingering: bool = False


class ClusterJob(NamedTuple):
    """A job as its cluster lists it. `says` is "nothing" for a job that only the global plane has in the bucket."""

    says: Literal["confirmed", "accepted", "stopping", "ended", "refused", "nothing", "local"]
    epoch: int = 0
    fence: Fence = Fence()
    seq: int = 0


class ClusterHealth(NamedTuple):
    """The cluster that heals: the epoch of its store, and whether nothing from before a restore can still run there."""

    name: str
    store_epoch: int = 1
    settled: bool = True


class Healing(NamedTuple):
    remedy: Remedy
    # The owner from here on; None: the job is not known to the global plane, nor will it be by this.
    owner: Owner | None
    # What the cluster is told, once the owner is durable.
    verdict: JobVerdict | None = None


def global_says(cluster: str, known: GlobalJob | None, listed: ClusterJob, store_epoch: int) -> GlobalSays:
    if known is None:
        return "unknown" if before_restore(listed.epoch, store_epoch) else "never"
    owner = known.owner
    if known.ended:
        return "cancelled" if known.lingering and owner.cluster == cluster else "ended"
    if listed.epoch > owner.epoch:
        return "behind" if before_restore(listed.epoch, store_epoch) else "never"
    mine = owner.cluster == cluster and (listed.epoch == owner.epoch or _lacks(owner, listed))
    says: dict[OwnerStage, GlobalSays] = {"CONFIRMED": "owner", "OFFERED": "offered", "HELD": "elsewhere"}
    return says[owner.stage] if mine else "elsewhere"


def heal(job: str, cluster: ClusterHealth, known: GlobalJob | None, listed: ClusterJob, store_epoch: int) -> Healing:
    """What is to be done about one job. `store_epoch` is that of the global plane."""
    place = global_says(cluster.name, known, listed, store_epoch)
    remedy = HEALING.get((place, _cluster_says(cluster, known, listed)), "none")
    if remedy == "lost" and not cluster.settled:
        # What ran before the restore may still run: its nodes' leases end it within a bound.
        remedy = "none"
    if remedy == "confirm" and before_restore(listed.epoch, store_epoch):
        # The acceptance may have been withdrawn after the backup was made, and the job given to another cluster.
        remedy = "stop"
    owner = _owner(remedy, cluster.name, known, listed)
    return Healing(remedy, owner, _verdict(job, remedy, place, listed))


def newer(known: GlobalJob, listed: ClusterJob) -> bool:
    """Whether the cluster's state of an owned job is to replace the global plane's copy. An end is never replaced."""
    return not known.ended and (listed.fence, listed.seq) > (known.fence, known.seq)


def _cluster_says(cluster: ClusterHealth, known: GlobalJob | None, listed: ClusterJob) -> ClusterSays:
    if known is None or not _lacks(known.owner, listed):
        return listed.says
    return "restored" if cluster.store_epoch > known.confirmed_in else "nothing"


def _lacks(owner: Owner, listed: ClusterJob) -> bool:
    """The cluster has nothing of the owner's epoch, nor did it refuse that one."""
    return listed.says == "nothing" or (listed.says == "refused" and listed.epoch < owner.epoch)


def _owner(remedy: Remedy, cluster: str, known: GlobalJob | None, listed: ClusterJob) -> Owner | None:
    before = known.owner if known is not None else None
    if known is not None and known.ended:
        return before
    match remedy:
        case "confirm":
            return Owner(cluster=cluster, epoch=listed.epoch, stage="CONFIRMED")
        case "import":
            return Owner(cluster=cluster, epoch=listed.epoch, stage="CONFIRMED")
        case "rebuild":
            if listed.says == "accepted":
                return Owner(epoch=listed.epoch)
            return Owner(cluster=cluster, epoch=listed.epoch, stage="CONFIRMED")
        case "raise":
            return Owner(epoch=listed.epoch)
        case "hold" | "lost" if before is not None:
            return Owner(epoch=before.epoch + (before.stage == "CONFIRMED"))
        case _:
            return before


def _verdict(job: str, remedy: Remedy, place: GlobalSays, listed: ClusterJob) -> JobVerdict | None:
    """About the epoch that the cluster has, whatever the global plane's own is by now."""
    if listed.says in ("nothing", "refused", "stopping") or remedy == "alarm":
        return None
    stopped = remedy in ("stop", "late") or (remedy == "rebuild" and listed.says == "accepted")
    over = listed.says == "ended" or (remedy == "none" and place == "ended")
    do = "stop" if stopped else "ended" if over else "keep"
    return JobVerdict(job=job, epoch=listed.epoch, do=do)


# ---- local jobs that a cluster admitted while it was cut off


Import = Literal["import", "cancel", "duplicate"]


def imported(job: str, same_request: str | None, *, started: bool) -> Import:
    """What becomes of a local job, where the global plane knows a job of the same (tenant, request id)."""
    if same_request is None or same_request == job:
        return "import"
    return "duplicate" if started else "cancel"
