"""Healing, on the global plane: what its records say and what a cluster says, job by job where the two differ."""

from collections.abc import Sequence

import structlog

from ares.control.execution.transitions import JobChange, Transitions
from ares.control.federation.link_session import ClusterSession
from ares.control.federation.owner_index import OwnerIndex
from ares.control.governance.alerts import Alerts
from ares.control.state.pacing import breathe
from ares.control.state.view import View
from ares.core.federation.healing import ClusterHealth, ClusterJob, GlobalJob, Healing, heal
from ares.core.federation.messages import JobVerdict, OfferAccepted, OfferDeclined
from ares.core.federation.owners import ClusterDead, OwnerInput
from ares.core.lifecycle.inputs import OwnerMoved
from ares.core.lifecycle.owners import owner_of
from ares.model.cluster_link import GlobalMessage, HeldJob, Judged, Tell
from ares.model.state import TERMINAL, JobState

log = structlog.get_logger()

_NOTHING = ClusterJob("nothing")
# Jobs that are looked at before other tasks have their turn, and that an alert names.
_STRIDE, _NAMED_MAX = 500, 5


class Reconcile:
    def __init__(self, view: View, index: OwnerIndex, transitions: Transitions, alerts: Alerts) -> None:
        self._view = view
        self._index = index
        self._transitions = transitions
        self._alerts = alerts

    async def settle(self, session: ClusterSession) -> Sequence[GlobalMessage]:
        """Every verdict about what has been listed, all of them durable. A verdict that is given twice changes
        nothing."""
        health = ClusterHealth(session.name, session.hello.store_epoch, session.hello.settled)
        listed = {job.job: job for bucket in session.listed for job in bucket.jobs}
        mine = [job for bucket in session.listed for job in session.owned.pop(bucket.number, ())]
        session.listed = []
        answers: list[GlobalMessage] = []
        changes: list[JobChange] = []
        for number, job in enumerate(dict.fromkeys((*listed, *mine)), start=1):
            if number % _STRIDE == 0:
                await breathe()
            said = listed.get(job)
            found = self._heal(job, said, session, health)
            state = None if job not in self._view.entries else self._view.entries[job].state
            if state is not None and (what := _input(session.name, said, found)) is not None:
                reason = f"cluster {session.name} is back: {_REASONS.get(found.remedy, found.remedy)}"
                changes.append(JobChange(job, state.tenant, (OwnerMoved(asked=what, reason=reason),)))
            if said is not None and self._is_wanted(said, found, session):
                answers.append(Tell(job=job, tenant=""))
            if found.remedy == "alarm":
                session.disputes += 1
                session.disputed += [job] if len(session.disputed) < _NAMED_MAX else []
            if (verdict := _told(found)) is not None:
                answers.append(Judged(job=job, tenant="", epoch=verdict.epoch, do=verdict.do, reason=found.remedy))
        if changes:
            await self._transitions.apply(changes)
        log.info("cluster.settled", cluster=session.name, listed=len(listed), changed=len(changes), said=len(answers))
        return answers

    async def judged(self, session: ClusterSession) -> None:
        """All is listed. One alert for all that cannot be: as many as a cluster likes would push out all others."""
        if not session.disputes:
            return
        jobs, more = ", ".join(session.disputed), session.disputes - len(session.disputed)
        text = (
            f"cluster {session.name} and this global plane disagree about {session.disputes} jobs in a way that no "
            f"restore explains ({jobs}{f' and {more} more' if more else ''}); nothing was changed: look at them in "
            f"both, then cancel them or declare the cluster dead"
        )
        await self._alerts.raise_("federation", "", f"clusters/{session.name}", text)
        log.error("cluster.disagrees", cluster=session.name, jobs=session.disputes, first=session.disputed)

    def _is_wanted(self, said: HeldJob, found: Healing, session: ClusterSession) -> bool:
        """Whether the cluster is to tell all of it. What it has only accepted it lets go instead, and a restored store
        has forgotten ends that the cluster does not tell of by itself any more."""
        if found.remedy == "adopt":
            return said.says == "ended" and session.rebuilds(self._transitions.epoch)
        return found.remedy in ("import", "rebuild") and said.says != "accepted"

    def _heal(self, job: str, said: HeldJob | None, session: ClusterSession, health: ClusterHealth) -> Healing:
        entry = self._view.entries.get(job)
        known = None if entry is None else _known(entry.state, session.record.epoch)
        here = _NOTHING if said is None else ClusterJob(said.says, said.epoch, said.fence, said.seq)
        # A cluster that has healed since the restore has told all that it had: it cannot come to have more of it.
        epoch = self._transitions.epoch if session.rebuilds(self._transitions.epoch) else 0
        return heal(job, health, known, here, epoch)


_REASONS = {
    "hold": "it does not have the job", "lost": "it has the job no more", "confirm": "accepted",
}  # fmt: skip


def _told(found: Healing) -> JobVerdict | None:
    """What the cluster hears at once. Of an end that is taken over it hears when its result is durable here."""
    verdict = found.verdict
    if verdict is None or verdict.do == "keep":
        return None
    taken_over = found.remedy in ("adopt", "rebuild", "import") and verdict.do == "ended"
    return None if taken_over else verdict


def _known(state: JobState, confirmed_in: int) -> GlobalJob:
    ended = state.phase in TERMINAL
    return GlobalJob(owner_of(state), ended, state.fence, state.owner_seq, confirmed_in, state.lingering)


def _input(cluster: str, said: HeldJob | None, found: Healing) -> OwnerInput | None:
    epoch, job = (0, "") if said is None else (said.epoch, said.job)
    match found.remedy:
        case "confirm":
            return OfferAccepted(job=job, cluster=cluster, epoch=epoch)
        case "hold":
            return OfferDeclined(job=job, cluster=cluster, epoch=epoch)
        case "lost":
            return ClusterDead(cluster=cluster)
        case _:
            return None
