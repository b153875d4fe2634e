"""The global plane's end of clusters' streams.

Offers, confirmations and withdrawals are derived from jobs' records, never remembered: what is lost with a stream is
said again in the next one. What a cluster says is compared with the record in the transaction that takes it over.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import structlog

from ares.control.books.told import ToldBooks
from ares.control.execution.enrolment import SessionRefused
from ares.control.execution.transitions import JobChange, MissingJob, Outcome, Transitions, Written
from ares.control.federation.bounds import beyond
from ares.control.federation.clusters import Clusters
from ares.control.federation.imports import Imports
from ares.control.federation.lending.lender import Lender, heed
from ares.control.federation.link_session import ClusterSession, heed_listed
from ares.control.federation.offers import offer_of
from ares.control.federation.owner_index import OwnerIndex
from ares.control.federation.reconcile import Reconcile
from ares.control.governance.audit import Audit
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.federation.buckets import JobProgress, bucket_of, differing, hashes_of
from ares.core.federation.epochs import before_restore
from ares.core.federation.messages import JobReleased, OfferAccepted, OfferDeclined, OfferWithdrawn
from ares.core.federation.owners import carries
from ares.core.federation.reports import REPORT_EVERY_S
from ares.core.lifecycle.inputs import OwnerMoved, OwnerTold
from ares.core.lifecycle.owners import known_seq
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.audit import AuditDraft
from ares.model.cluster_link import (
    BUCKETS,
    Accepted,
    AllowanceHeld,
    AllSettled,
    BookTold,
    ClusterFrame,
    ClusterHello,
    ClusterMessage,
    ClusterWelcome,
    Confirmed,
    DayTold,
    Declined,
    Draining,
    GivenBack,
    GlobalFrame,
    Judged,
    ListedBucket,
    LocalJob,
    OwnedStanding,
    Pong,
    Reported,
    StandingNoted,
    Tell,
    Withdraw,
    Withdrawn,
)
from ares.model.state import TERMINAL, JobState
from ares.ports.clock import Clock
from ares.ports.logs import Logs
from ares.ports.store import StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_AboutJob = Accepted | Declined | Withdrawn | GivenBack | OwnedStanding
_AboutWork = ClusterHello | Reported | LocalJob | ListedBucket | AllowanceHeld | _AboutJob


class ClusterLinks:
    """All clusters connected to this replica."""

    def __init__(
        self,
        view: View,
        clusters: Clusters,
        index: OwnerIndex,
        transitions: Transitions,
        reconcile: Reconcile,
        imports: Imports,
        logs: Logs,
        audit: Audit,
        lender: Lender,
        clock: Clock,
        telemetry: Telemetry,
        told: ToldBooks,
    ) -> None:
        self._lender = lender
        self._view, self._clusters, self._index = view, clusters, index
        self._transitions, self._reconcile, self._imports = transitions, reconcile, imports
        self._logs, self._audit, self._telemetry = logs, audit, telemetry
        self._clock, self._told = clock, told
        self.by_cluster: dict[str, ClusterSession] = {}
        index.heeds.append(self._heed)
        view.subscribe(self._on_delta)

    # ---- a stream

    async def serve(self, who: Principal, frames: AsyncIterator[ClusterFrame]) -> AsyncGenerator[GlobalFrame, None]:
        """One cluster's stream, from its hello until either side ends it."""
        first = await anext(frames, None)
        hello = first.messages[0] if first is not None and first.messages else None
        if not isinstance(hello, ClusterHello):
            raise self._refused(who, SessionRefused("the first message of a session must be hello", "malformed"))
        if hello.name != who.cluster:
            forged = SessionRefused(f"this credential is for cluster {who.cluster!r}, not another", "not_granted")
            raise self._refused(who, forged)
        try:
            record = await self._clusters.admit(hello)
        except SessionRefused as refusal:
            raise self._refused(who, refusal) from None
        await self._view.catch_up()
        session = self._open(ClusterSession(record, hello))
        reading = asyncio.create_task(self._read(session, frames))
        try:
            while (frame := await session.next_frame()) is not None:
                yield frame
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            if self.by_cluster.get(session.name) is session:
                del self.by_cluster[session.name]
            self._telemetry.gauge("ares_clusters_connected", len(self.by_cluster))
            log.info("cluster.disconnected", cluster=session.name, why=session.closed_why or "stream ended")

    def _refused(self, who: Principal, refusal: SessionRefused) -> SessionRefused:
        self._telemetry.count("ares_auth_denials_total", 1, refusal.reason or "malformed")
        self._audit.tell(
            AuditDraft(
                operation="clusterLink",
                outcome="DENY",
                reason=refusal.reason or "malformed",
                user=who.cluster or "",
                role="cluster",
                object=f"clusters/{who.cluster}",
            )
        )
        log.warning("cluster.refused", cluster=who.cluster, why=str(refusal))
        return refusal

    def _open(self, session: ClusterSession) -> ClusterSession:
        older = self.by_cluster.get(session.name)
        if older is not None:
            older.close("the cluster connected again")
        self.by_cluster[session.name] = session
        self._telemetry.gauge("ares_clusters_connected", len(self.by_cluster))
        states = [self._view.entries[job].state for job in self._index.jobs(session.name)]
        known = [(state.id, progress_of(state)) for state in states]
        for state in states:
            session.owned.setdefault(bucket_of(state.id), []).append(state.id)
        rebuild = session.rebuilds(self._transitions.epoch)
        # What a restored store has forgotten is in none of its own buckets.
        places = tuple(range(BUCKETS)) if rebuild else differing(hashes_of(known), list(session.hello.buckets))
        session.awaited = set(places)
        session.send(
            ClusterWelcome(
                code=session.record.code,
                generation=session.record.generation,
                store_epoch=self._transitions.epoch,
                differing=places,
                rebuild=rebuild,
            )
        )
        session.send(Draining(on=session.record.state == "DRAINING"))
        if session.hello.books:
            session.send(self._told.known(session.name))
        log.info("cluster.connected", cluster=session.name, jobs=len(states), differing=len(places))
        return session

    async def _read(self, session: ClusterSession, frames: AsyncIterator[ClusterFrame]) -> None:
        """Ends the session when the stream ends, or when the store does: the cluster says all of it again."""
        try:
            await self._heal_when_listed(session)
            async for frame in frames:
                await self._take(session, [said for said in frame.messages if not isinstance(said, BookTold | DayTold)])
                await self._heal_when_listed(session)
                await self._take_books(session, frame.messages)
            session.close("the cluster ended the stream")
        except SessionRefused as refusal:
            log.warning("cluster.malformed", cluster=session.name, why=str(refusal))
            session.close(str(refusal))
        except StoreError as error:
            session.close(f"the store: {error}")
        except Exception as error:
            log.error("cluster.failed", cluster=session.name, error=repr(error), exc_info=error)
            session.close("an error")

    # ---- what a cluster says

    async def _take(self, session: ClusterSession, messages: Sequence[_AboutWork]) -> None:
        about: list[_AboutJob] = []
        for message in messages:
            match message:
                case Reported():
                    await self._reported(session, message)
                case ListedBucket():
                    heed_listed(session, message)
                case LocalJob():
                    asked = message.offer.job in session.untold
                    for answer in await self._imports.take(session.name, message, asked=asked):
                        session.send(answer)
                    session.untold.discard(message.offer.job)
                case Declined() if message.job in session.untold:
                    # It does not have the job any more.
                    session.untold.discard(message.job)
                case OwnedStanding() if (why := beyond(message)) is not None:
                    raise SessionRefused(why, "malformed")
                case AllowanceHeld():
                    heed(session, message)
                case ClusterHello():
                    raise SessionRefused("a session has one hello", "malformed")
                case _:
                    about.append(message)
        if about:
            await self._take_all(session, about)

    async def _take_books(self, session: ClusterSession, messages: Sequence[ClusterMessage]) -> None:
        books = [message for message in messages if isinstance(message, BookTold | DayTold)]
        if books and (known := await self._told.take(session.hello, books)) is not None:
            session.send(known)

    async def _reported(self, session: ClusterSession, message: Reported) -> None:
        """Each is answered, and so many of them kept as are needed: every one is written."""
        if message.report.cluster != session.name:
            raise SessionRefused("a cluster reports for itself alone", "not_granted")
        now, kept = self._clock.monotonic(), False
        if session.reported_at is None or now - session.reported_at >= REPORT_EVERY_S / 2:
            session.reported_at = now
            kept = await self._clusters.heard(message.report, session.record.generation)
            await self._lender.settle(session)
        # A cluster that has not healed yet may have lost jobs to others: it holds none by this.
        session.send(Pong(nonce=message.nonce, kept=kept and session.healed))

    async def _take_all(self, session: ClusterSession, about: Sequence[_AboutJob]) -> None:
        changes: list[JobChange] = []
        meant: list[_AboutJob] = []
        for message in about:
            entry = self._view.entries.get(message.job)
            if entry is None:
                await self._unknown(session, message)
                continue
            changes.append(JobChange(message.job, entry.state.tenant, (_input(session.name, message),)))
            meant.append(message)
        outcomes = await self._transitions.apply(changes) if changes else []
        for message, outcome in zip(meant, outcomes, strict=True):
            self._answer(session, message, outcome)

    async def _unknown(self, session: ClusterSession, message: _AboutJob) -> None:
        """A job that retention has removed here since it ended, or that a restored store does not have."""
        await self._view.catch_up()
        if message.job in self._view.entries:
            await self._take_all(session, [message])
        elif isinstance(message, OwnedStanding) and message.phase in TERMINAL:
            session.send(Judged(job=message.job, tenant="", epoch=message.epoch, do="ended"))
        elif isinstance(message, OwnedStanding):
            session.send(Tell(job=message.job, tenant=""))
        elif isinstance(message, Accepted):
            session.send(Withdraw(job=message.job, tenant="", epoch=message.epoch, reason="the job is not known"))

    def _answer(self, session: ClusterSession, message: _AboutJob, outcome: Outcome) -> None:
        if isinstance(outcome, MissingJob):
            return
        if isinstance(message, OwnedStanding):
            self._answer_standing(session, message, outcome)
        elif isinstance(message, Accepted) and isinstance(outcome, Refusal) and outcome.code != "not-allowed":
            session.send(
                Withdraw(
                    job=message.job, tenant="", epoch=message.epoch, reason="it was offered elsewhere, or has ended"
                )
            )

    def _answer_standing(self, session: ClusterSession, told: OwnedStanding, outcome: Outcome) -> None:
        if isinstance(outcome, Written) or self._has(session.name, told):
            if isinstance(outcome, Written) and told.tail and outcome.state.phase in TERMINAL:
                self._keep_tail(outcome.state, told)
            session.send(StandingNoted(job=told.job, epoch=told.epoch, seq=told.seq))
        elif isinstance(outcome, Refusal):
            # Another owner, a later epoch, or its end: whatever runs there is of no use any more.
            do = "ended" if told.phase in TERMINAL and not told.lingering else "stop"
            session.send(Judged(job=told.job, tenant="", epoch=told.epoch, do=do, reason=outcome.message))

    def _has(self, cluster: str, told: OwnedStanding) -> bool:
        """Whether the owner has told this before."""
        entry = self._view.entries.get(told.job)
        owner = None if entry is None else entry.state.owner
        if entry is None or owner is None or entry.state.phase in TERMINAL or told.phase in TERMINAL:
            return False
        return carries(owner, cluster, told.epoch) and told.seq <= known_seq(entry.state)

    def _keep_tail(self, state: JobState, told: OwnedStanding) -> None:
        """Readable here also when the cluster is gone."""
        with contextlib.suppress(OSError):
            self._logs.append(state.tenant, state.id, told.attempt, 0, 0, told.tail)

    async def _heal_when_listed(self, session: ClusterSession) -> None:
        if session.listed:
            for answer in await self._reconcile.settle(session):
                if isinstance(answer, Tell):
                    session.untold.add(answer.job)
                session.send(answer)
        if session.healed or session.awaited or session.closed:
            return
        if not session.judged:
            session.judged = True
            await self._reconcile.judged(session)
        if session.untold:
            # Until it has told all of them, this store does not know what must not be offered elsewhere.
            return
        await self._lender.settle(session)
        if session.hello.settled:
            await self._clusters.healed(session.name, session.hello.store_epoch, self._transitions.epoch)
            session.send(AllSettled())
        session.healed = True
        for job in self._index.jobs(session.name):
            self._tell(session, self._view.entries[job].state)

    # ---- what follows from records

    def _on_delta(self, delta: Delta) -> None:
        if keys.CLUSTERS not in delta.kept:
            return
        for session in tuple(self.by_cluster.values()):
            record = self._view.kept.clusters.get(session.name)
            if record is None or record.generation != session.record.generation or record.state in ("DEAD", "LEFT"):
                session.close(f"the cluster is {'unknown' if record is None else record.state}")
            else:
                session.send(Draining(on=record.state == "DRAINING"))

    def _heed(self, before: JobState | None, state: JobState) -> None:
        owner = None if before is None else before.owner
        if owner is not None and owner.cluster in self.by_cluster:
            now = state.owner
            if now is None or (now.cluster, now.epoch) != (owner.cluster, owner.epoch):
                self.by_cluster[owner.cluster].send(
                    Withdraw(job=state.id, tenant=state.tenant, epoch=owner.epoch, reason=state.reason)
                )
        if state.owner is not None and (session := self.by_cluster.get(state.owner.cluster)) and session.healed:
            self._tell(session, state)

    def _tell(self, session: ClusterSession, state: JobState) -> None:
        """What the owner is to hear of the job, once in a session."""
        owner = state.owner
        if owner is None or owner.cluster != session.name:
            return
        stopped = state.phase in TERMINAL and state.lingering
        said = (state.id, owner.epoch, "STOP" if stopped else owner.stage)
        if said in session.sent or (state.phase in TERMINAL and not stopped):
            return
        if stopped:
            session.sent.add(said)
            session.send(Judged(job=state.id, tenant=state.tenant, epoch=owner.epoch, do="stop", reason=state.reason))
        elif before_restore(owner.epoch, self._transitions.epoch):
            # Said by a store that was restored since: healing settles it.
            return
        elif owner.stage == "OFFERED":
            if (offer := offer_of(self._view, state)) is not None:
                session.sent.add(said)
                session.send(offer)
        elif state.owner_seq == 0:
            session.sent.add(said)
            session.send(Confirmed(job=state.id, tenant=state.tenant, epoch=owner.epoch))


def progress_of(state: JobState) -> JobProgress:
    """How far a job has come in its cluster, as far as is known here."""
    assert state.owner is not None, "only a job with an owner has a place in a cluster"
    owner = state.owner
    return JobProgress(owner.epoch, state.fence, state.owner_seq) if state.owner_seq > 1 else JobProgress(owner.epoch)


def _input(cluster: str, message: _AboutJob) -> OwnerMoved | OwnerTold:
    job, epoch = message.job, message.epoch
    match message:
        case OwnedStanding():
            return OwnerTold(cluster=cluster, standing=message)
        case Accepted():
            asked = OfferAccepted(job=job, cluster=cluster, epoch=epoch)
            return OwnerMoved(asked=asked, reason=f"cluster {cluster} accepted it")
        case Declined():
            asked = OfferDeclined(job=job, cluster=cluster, epoch=epoch, code=message.code)
            why = f": {message.why}" if message.why else ""
            return OwnerMoved(asked=asked, reason=f"cluster {cluster} declined it ({message.code}){why}")
        case Withdrawn():
            asked = OfferWithdrawn(job=job, cluster=cluster, epoch=epoch)
            return OwnerMoved(asked=asked, reason=f"cluster {cluster} let go of it")
        case GivenBack():
            asked = JobReleased(job=job, cluster=cluster, epoch=epoch)
            return OwnerMoved(asked=asked, reason=f"cluster {cluster} gave it back before it began")
