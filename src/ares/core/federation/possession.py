"""A cluster's side of ownership: what it does with an offer, a confirmation and a withdrawal of one job.

Every function takes the record as it is and returns the record to write and the answers to give once it is durable.
An answer that is lost is given again: the same message finds the same record.
"""

from typing import NamedTuple

from ares.core.federation.messages import (
    JobConfirm,
    JobOffer,
    JobReleased,
    JobVerdict,
    JobWithdraw,
    OfferAccepted,
    OfferDeclined,
    OfferWithdrawn,
    Upward,
)
from ares.model.cluster import Possession, Taken


class PossessionStep(NamedTuple):
    possession: Possession
    answers: tuple[Upward, ...] = ()
    # What runs of the job is to be ended; `gone` follows when nothing of it is left.
    stop: bool = False


def offered(cluster: str, held: Possession, offer: JobOffer, declines: str = "") -> PossessionStep:
    """`declines`: the code by which the cluster does not want the job, where it does not."""
    taken = held.taken
    if taken is not None and taken.epoch == offer.epoch:
        stopping = taken.stage == "STOPPING"
        again = _declined(cluster, offer, "refused-before") if stopping else _accepted(cluster, offer)
        return PossessionStep(held, (again,))
    if offer.epoch <= held.refused or (taken is not None and offer.epoch < taken.epoch):
        return PossessionStep(held, (_declined(cluster, offer, "refused-before"),))
    if taken is not None and taken.stage != "ACCEPTED":
        # The global plane has given the older epoch away. It must be gone before the job may come back.
        refused = Possession(taken=_stopping(taken), refused=offer.epoch)
        return PossessionStep(refused, (_declined(cluster, offer, "older-epoch-running"),), stop=True)
    if declines:
        return PossessionStep(Possession(refused=offer.epoch), (_declined(cluster, offer, declines),))
    refused_epoch = max(held.refused, taken.epoch if taken is not None else 0)
    accepted = Taken(epoch=offer.epoch, spec_sha256=offer.spec_sha256)
    return PossessionStep(Possession(taken=accepted, refused=refused_epoch), (_accepted(cluster, offer),))


def confirmed(cluster: str, held: Possession, confirm: JobConfirm) -> PossessionStep:
    taken = held.taken
    if taken is None or taken.epoch != confirm.epoch:
        if confirm.epoch <= held.refused:
            answer = OfferDeclined(job=confirm.job, cluster=cluster, epoch=confirm.epoch, code="refused-before")
            return PossessionStep(held, (answer,))
        # A cluster that knows nothing of it was restored from a backup: healing settles that, not this message.
        return PossessionStep(held)
    if taken.stage != "ACCEPTED":
        return PossessionStep(held)
    sure = Taken(epoch=taken.epoch, stage="CONFIRMED", spec_sha256=taken.spec_sha256)
    return PossessionStep(Possession(taken=sure, refused=held.refused))


def withdrawn(cluster: str, held: Possession, withdraw: JobWithdraw) -> PossessionStep:
    answer = OfferWithdrawn(job=withdraw.job, cluster=cluster, epoch=withdraw.epoch)
    return _given_away(held, withdraw.epoch, (answer,))


def judged(cluster: str, held: Possession, verdict: JobVerdict) -> PossessionStep:
    """What healing decided."""
    if verdict.do != "stop" or held.taken is None:
        # What has ended stays as long as the job's own records: a global plane that is restored from a backup has
        # forgotten the end, and must not have the job run again.
        return PossessionStep(held)
    taken = held.taken
    # A verdict about an earlier epoch says nothing of the one that was accepted since.
    let_go = taken.stage == "ACCEPTED" and taken.epoch <= verdict.epoch
    answer = OfferDeclined(job=verdict.job, cluster=cluster, epoch=taken.epoch, code="stopped")
    return _given_away(held, verdict.epoch, (answer,) if let_go else ())


def gone(held: Possession) -> PossessionStep:
    """Nothing of a job that was to be stopped runs any more."""
    taken = held.taken
    if taken is None or taken.stage != "STOPPING":
        return PossessionStep(held)
    return PossessionStep(Possession(refused=max(held.refused, taken.epoch)))


def released(cluster: str, job: str, held: Possession) -> PossessionStep:
    """The cluster gives the job back. The caller has made sure that nothing of it runs."""
    taken = held.taken
    if taken is None or taken.stage == "STOPPING":
        return PossessionStep(held)
    refused = Possession(refused=max(held.refused, taken.epoch))
    if taken.stage == "ACCEPTED":
        answer = OfferDeclined(job=job, cluster=cluster, epoch=taken.epoch, code="let-go")
        return PossessionStep(refused, (answer,))
    return PossessionStep(refused, (JobReleased(job=job, cluster=cluster, epoch=taken.epoch),))


def fenced(held: Possession) -> PossessionStep:
    """The ownership lease is nearly over, and the global plane silent: the cluster ends the job before it moves."""
    taken = held.taken
    if taken is None or taken.stage != "CONFIRMED":
        return PossessionStep(held)
    stopped = Taken(epoch=taken.epoch, stage="STOPPING", spec_sha256=taken.spec_sha256, fenced=True)
    return PossessionStep(Possession(taken=stopped, refused=max(held.refused, taken.epoch)), stop=True)


def let_go(cluster: str, job: str, held: Possession) -> PossessionStep:
    """Nothing of a job that was fenced runs any more: it is given back, where the global plane has not moved it."""
    taken = held.taken
    if taken is None or not taken.fenced:
        return PossessionStep(held)
    return PossessionStep(gone(held).possession, (JobReleased(job=job, cluster=cluster, epoch=taken.epoch),))


def startable(held: Possession) -> bool:
    """Whether an attempt of the job may begin here."""
    return held.taken is not None and held.taken.stage == "CONFIRMED"


def forgettable(held: Possession, *, settled: bool, kept: bool, healed: bool) -> bool:
    """Whether a record that is old enough may go. `settled`: the job's end is durable at the global plane; `kept`: the
    job's own records are still here; `healed`: the two sides settled all that they know in a session that began after
    the record was written. No offer at or below a refused epoch can come after that: the global plane says an offer
    once in a session, of the epoch that its record has, and by then it knows of the refusal."""
    return not kept and (settled if held.taken is not None else healed)


def _given_away(held: Possession, epoch: int, answers: tuple[Upward, ...]) -> PossessionStep:
    """Nothing up to this epoch belongs here."""
    taken = held.taken
    if taken is None or taken.epoch > epoch:
        return PossessionStep(Possession(taken=taken, refused=max(held.refused, epoch)), answers)
    if taken.stage == "ACCEPTED":
        return PossessionStep(Possession(refused=max(held.refused, epoch)), answers)
    # What still runs is not withdrawn yet: the answer would say that it is gone.
    stopped = _stopping(taken)
    return PossessionStep(Possession(taken=stopped, refused=max(held.refused, epoch)), stop=True)


def _stopping(taken: Taken) -> Taken:
    return Taken(epoch=taken.epoch, stage="STOPPING", spec_sha256=taken.spec_sha256)


def _accepted(cluster: str, offer: JobOffer) -> OfferAccepted:
    return OfferAccepted(job=offer.job, cluster=cluster, epoch=offer.epoch)


def _declined(cluster: str, offer: JobOffer, code: str) -> OfferDeclined:
    return OfferDeclined(job=offer.job, cluster=cluster, epoch=offer.epoch, code=code)
