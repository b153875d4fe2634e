"""The global plane of a simulated federation: it admits, routes, confirms and heals."""

import random
from collections.abc import Callable
from typing import Any

from ares.check.federation.history import (
    CancelAsked,
    ClusterWritten,
    JobSubmitted,
    OutcomeWritten,
    OwnerWritten,
    ReportHeard,
    RouteWritten,
)
from ares.core.federation import clusters, escrow, owners
from ares.core.federation.merge import Version
from ares.core.federation.messages import JobOffer, JobReleased, OfferAccepted, OfferDeclined, OfferWithdrawn
from ares.core.federation.owners import ClusterDead, LeaseOver, MakeOffer, OfferSilent, OwnerInput
from ares.core.federation.reports import supersedes
from ares.core.refusal import Refusal
from ares.core.routing.choice import route
from ares.core.routing.facts import RouteAsk, RouteOption, ShapeRoom
from ares.model.cluster import ClusterRecord, EscrowRecord, Owner, RouteDecision
from ares.sim.federation.cluster import LEASE_S
from ares.sim.federation.healer import Healer
from ares.sim.federation.letters import (
    AnswerLetter,
    CancelLetter,
    DownLetter,
    EndKnownLetter,
    GlobalRecord,
    HelloLetter,
    HelloPlease,
    ListingLetter,
    OfferLetter,
    PlaneStore,
    RefusedLetter,
    ReportLetter,
    SimulatedJob,
    StateLetter,
)
from ares.sim.federation.network import Envelope, FederationClock, FederationRecorder

_TICK_S = 1.0
_GRANT = 2
_GRANT_S = 20.0


class SimulatedPlane:
    def __init__(
        self, clock: FederationClock, recorder: FederationRecorder, chance: random.Random, quota: dict[str, int],
        send: Callable[[Envelope], None],
    ) -> None:  # fmt: skip
        self.clock, self.recorder, self.chance, self.quota = clock, recorder, chance, quota
        self._send_down = send
        self.store = PlaneStore()
        self.life = 0
        self._epochs = 1
        self._handlers: dict[type, Callable[[str, Any], None]] = {
            HelloLetter: self._hello, ReportLetter: self._reported, ListingLetter: self._listed,
            StateLetter: self._told_state, OfferAccepted: self._answered, OfferDeclined: self._answered,
            OfferWithdrawn: self._answered, JobReleased: self._answered,
        }  # fmt: skip
        self.begin()

    # ---- lives

    def begin(self) -> None:
        """What is not in the store is gone."""
        self.life += 1
        self.healer = Healer(self)
        self.sessions: dict[str, int] = {}
        self.heard_at: dict[str, float] = dict.fromkeys(self.store.clusters, self.clock.now)
        self._reports: dict[str, ReportLetter] = {}
        self._offers: dict[str, int] = {}
        self._offered_at: dict[str, float] = {}
        # Clusters that have healed in this life.
        self.healed: set[str] = set()
        life = self.life
        self.clock.at(_TICK_S, lambda: self._tick(life))

    def restore(self, backup: PlaneStore) -> None:
        self.store = backup.backup()
        self._epochs += 1
        self.store.store_epoch = self._epochs
        self.begin()

    @property
    def rebuilt(self) -> bool:
        return self.store.rebuilt_in == self.store.store_epoch

    # ---- writing

    def write_owner(self, record: GlobalRecord, owner: Owner) -> None:
        before = record.owner
        if owner == before and record.job.id in self.store.jobs:
            return
        if (owner.cluster, owner.epoch) != (before.cluster, before.epoch):
            record.fence = record.seq = 0
        if owner.stage == "CONFIRMED":
            record.confirmed_in = self.store.clusters[owner.cluster].epoch
        record.owner = owner
        self.store.jobs[record.job.id] = record
        self.store.revision += 1
        self.recorder.add(
            OwnerWritten, revision=self.store.revision, job=record.job.id, cluster=owner.cluster, epoch=owner.epoch,
            stage=owner.stage,
        )  # fmt: skip
        withdrawal = owners.withdrawal(record.job.id, before, owner)
        if withdrawal is not None and before.cluster in self.sessions:
            self.down(before.cluster, withdrawal)

    def write_outcome(self, record: GlobalRecord, outcome: str, cluster: str = "", epoch: int = 0) -> None:
        record.outcome = outcome
        self.store.revision += 1
        self.recorder.add(
            OutcomeWritten,
            revision=self.store.revision,
            job=record.job.id,
            outcome=outcome,
            cluster=cluster,
            epoch=epoch,
        )

    def write_cluster(self, record: ClusterRecord) -> None:
        self.store.clusters[record.name] = record
        self.store.revision += 1
        self.recorder.add(
            ClusterWritten, revision=self.store.revision, cluster=record.name, state=record.state, code=record.code,
            generation=record.generation, region=record.region,
        )  # fmt: skip

    def _step(self, record: GlobalRecord, asked: OwnerInput) -> bool:
        after = owners.step(record.owner, asked, store_epoch=self.store.store_epoch, ended=bool(record.outcome))
        if isinstance(after, Refusal):
            return False
        self.write_owner(record, after)
        return True

    # ---- people

    def submit(self, job: SimulatedJob) -> bool:
        limits = {"jobs": self.quota[job.tenant]}
        records = self.store.jobs.values()
        used = sum(r.job.tenant == job.tenant and not r.job.place and not r.outcome for r in records)
        free = escrow.room(limits, {"jobs": used}, self._lent(job.tenant))
        if not self.rebuilt or free["jobs"] < 1:
            return False
        record = GlobalRecord(job, Owner())
        self.recorder.add(JobSubmitted, job=job.id, tenant=job.tenant, residency=job.residency, may_move=job.may_move)
        self.write_owner(record, owners.submitted(self.store.store_epoch))
        return True

    def cancel(self, job: str) -> None:
        record = self.store.jobs.get(job)
        if record is not None and not record.outcome:
            record.cancel = True
            self.recorder.add(CancelAsked, job=job)

    def join(self, name: str, region: str) -> str:
        self.store.codes += 1
        code = clusters.code_of(self.store.codes)
        self.write_cluster(ClusterRecord(name=name, code=code, region=region, epoch=1))
        self.operate(name, "checked")
        return code

    def operate(self, name: str, asked: clusters.ClusterInput) -> None:
        record = self.store.clusters.get(name)
        after = clusters.step(record, asked, self.clock.now) if record is not None else None
        if not isinstance(after, ClusterRecord) or after == record:
            return
        self.write_cluster(after)
        if asked == "declare-dead":
            for job in list(self.store.jobs.values()):
                self._step(job, ClusterDead(cluster=name))
            for place in [place for place in self.store.escrow if place[1] == name]:
                del self.store.escrow[place]
            self.sessions.pop(name, None)

    # ---- the loop

    def _tick(self, life: int) -> None:
        if life != self.life:
            return
        now = self.clock.now
        for name in [name for name in self.sessions if owners.lease_over(self.heard_at[name], now, LEASE_S)]:
            # Without a session it has to heal before anything it says counts, so no lease is renewed in between.
            del self.sessions[name]
        waits = [name for name, record in self.store.clusters.items() if record.state not in clusters.OVER]
        if not self.rebuilt and self.healed.issuperset(waits):
            self.store.rebuilt_in = self.store.store_epoch
        for record in list(self.store.jobs.values()):
            if not record.outcome:
                self._drive(record)
        for name, cluster in list(self.store.clusters.items()):
            if cluster.state == "DRAINING" and self._empty(name):
                self.operate(name, "emptied")
        self.clock.at(_TICK_S, lambda: self._tick(life))

    def _drive(self, record: GlobalRecord) -> None:
        job, owner, now = record.job.id, record.owner, self.clock.now
        if owner.stage == "HELD":
            if record.cancel:
                self.write_outcome(record, "CANCELLED")
            elif owners.may_offer(owner, self.store.store_epoch, rebuilt=self.rebuilt):
                self._offer(record)
            return
        if owner.stage == "OFFERED":
            since = self._offered_at.setdefault(job, now)
            if record.cancel or now - since >= owners.OFFER_SILENCE_S:
                self._offered_at.pop(job, None)
                self._step(record, OfferSilent(epoch=owner.epoch))
                return
        elif record.job.may_move and not record.job.place and self._lease_over(owner.cluster):
            self._step(record, LeaseOver(cluster=owner.cluster, epoch=owner.epoch))
            return
        self._remind(record)

    def _lease_over(self, cluster: str) -> bool:
        return self.rebuilt and owners.lease_over(self.heard_at[cluster], self.clock.now, LEASE_S)

    def _remind(self, record: GlobalRecord) -> None:
        owner = record.owner
        if owner.cluster not in self.sessions:
            return
        letter = owners.due(record.job.id, owner, self.store.store_epoch)
        if isinstance(letter, JobOffer):
            self.down(owner.cluster, OfferLetter(letter, record.job))
        elif letter is not None and not record.seq:
            self.down(owner.cluster, letter)
        if record.cancel and owner.stage == "CONFIRMED":
            self.down(owner.cluster, CancelLetter(record.job.id, owner.epoch))

    def _offer(self, record: GlobalRecord) -> None:
        decision = self._route(record.job)
        if not decision.chosen:
            return
        self.recorder.add(
            RouteWritten, job=record.job.id, chosen=decision.chosen,
            terms={r.cluster: {f: getattr(r.terms, f) for f in r.terms.__struct_fields__} for r in decision.ranked},
            scores={r.cluster: r.score for r in decision.ranked},
            weights={f: getattr(decision.weights, f) for f in decision.weights.__struct_fields__},
        )  # fmt: skip
        self._offers[decision.chosen] = self._offers.get(decision.chosen, 0) + 1
        self._offered_at[record.job.id] = self.clock.now
        self._step(record, MakeOffer(cluster=decision.chosen))
        self._remind(record)

    def _route(self, job: SimulatedJob) -> RouteDecision:
        options: list[RouteOption] = []
        for name in self.sessions:
            report, record = self._reports.get(name), self.store.clusters[name]
            if report is not None and name in self.healed:
                eta = 20.0 * (1 + report.waiting)
                shape = ShapeRoom(
                    cpu_milli=1000, memory_mib=1024, free=report.free, eta80_s=eta, price_per_hour=1.0,
                    offered=self._offers.get(name, 0),
                )  # fmt: skip
                options.append(
                    RouteOption(
                        cluster=name,
                        state=record.state,
                        region=record.region,
                        shapes=(shape,),
                        incarnation=report.version.incarnation,
                        seq=report.version.seq,
                        report_age_s=self.clock.now - self.heard_at[name],
                    )
                )
        ask = RouteAsk(run_s=job.run_s, residency=job.residency)
        return route(ask, options)

    def _empty(self, name: str) -> bool:
        owned = any(r.owner.cluster == name and not r.outcome for r in self.store.jobs.values())
        lent = any(escrow.lent(record) for place, record in self.store.escrow.items() if place[1] == name)
        # Its local jobs may be unknown here: it says itself that it has none.
        report = self._reports.get(name)
        return not owned and not lent and self.rebuilt and report is not None and report.jobs == 0

    # ---- escrow

    def _lent(self, tenant: str) -> list[EscrowRecord]:
        return [record for place, record in self.store.escrow.items() if place[0] == tenant]

    def _grants(self, name: str) -> dict[str, EscrowRecord]:
        """What the cluster is lent, more of it where there is room."""
        told: dict[str, EscrowRecord] = {}
        for tenant, limit in self.quota.items():
            record = self.store.escrow.get((tenant, name), EscrowRecord())
            used = sum(r.job.tenant == tenant and not r.job.place and not r.outcome for r in self.store.jobs.values())
            free = escrow.room({"jobs": limit}, {"jobs": used}, self._lent(tenant))["jobs"]
            active = self.store.clusters[name].state == "ACTIVE"
            if self.rebuilt and active:
                missing = max(0, _GRANT - escrow.lent(record).get("jobs", 0))
                record = escrow.grant(record, {"jobs": min(missing, free)}, self.clock.now + _GRANT_S)
                self.store.escrow[tenant, name] = record
            told[tenant] = record
        return told

    # ---- letters

    def down(self, cluster: str, letter: DownLetter) -> None:
        self._send_down(Envelope(cluster, self.sessions.get(cluster, 0), self.life, letter))

    def hear(self, envelope: Envelope) -> None:
        name, letter = envelope.cluster, envelope.letter
        known = self.store.clusters.get(name)
        if known is None or known.state in clusters.OVER:
            self._send_down(Envelope(name, envelope.cluster_life, self.life, RefusedLetter()))
            return
        session = self.sessions.get(name)
        if isinstance(letter, HelloLetter):
            if envelope.copy or (session is not None and envelope.cluster_life < session):
                return
            self.sessions[name] = envelope.cluster_life
        elif session != envelope.cluster_life or envelope.plane_life != self.life:
            if session is None or session < envelope.cluster_life:
                self._send_down(Envelope(name, envelope.cluster_life, self.life, HelloPlease()))
            return
        if envelope.copy and isinstance(letter, ListingLetter):
            return
        self.heard_at[name] = self.clock.now
        self._handlers[type(letter)](name, letter)

    def _hello(self, name: str, letter: HelloLetter) -> None:
        record = clusters.hello(self.store.clusters[name], 1, letter.store_epoch)
        if isinstance(record, Refusal):
            return
        self.store.clusters[name] = record
        for tenant, told in letter.allowance.items():
            mine = self.store.escrow.get((tenant, name), EscrowRecord())
            self.store.escrow[tenant, name] = escrow.heard(mine, told.granted, told.released, told.until)
        self.healer.welcome(name, letter)

    def _listed(self, name: str, letter: ListingLetter) -> None:
        self.healer.heal(name, letter)

    def _supersedes(self, letter: ReportLetter, known: ReportLetter | None) -> bool:
        return supersedes(letter.version, known.version if known is not None else None)

    def _reported(self, name: str, letter: ReportLetter) -> None:
        known = self._reports.get(name)
        if self._supersedes(letter, known):
            self._reports[name] = letter
            self._offers[name] = 0
        kept: Version = self._reports[name].version
        self.recorder.add(
            ReportHeard, cluster=name, generation=self.life, incarnation=letter.version.incarnation,
            seq=letter.version.seq, kept=tuple(kept),
        )  # fmt: skip
        for tenant, released in letter.released.items():
            mine = self.store.escrow.get((tenant, name), EscrowRecord())
            self.store.escrow[tenant, name] = escrow.heard(mine, {}, released, 0.0)
        lease = letter.sent_at if self.rebuilt else None
        self.down(name, AnswerLetter(lease, self.store.clusters[name].state, self._grants(name)))

    def _answered(self, _name: str, letter: OfferAccepted | OfferDeclined | OfferWithdrawn | JobReleased) -> None:
        record = self.store.jobs.get(letter.job)
        if record is not None and self._step(record, letter):
            self._offered_at.pop(letter.job, None)
            if not record.outcome:
                self._remind(record)

    def _told_state(self, name: str, letter: StateLetter) -> None:
        record = self.store.jobs.get(letter.job)
        if record is None or record.outcome:
            if record is not None and letter.outcome:
                self.down(name, EndKnownLetter(letter.job, letter.epoch))
            return
        if not owners.carries(record.owner, name, letter.epoch):
            return
        if (letter.fence, letter.seq) > (record.fence, record.seq):
            record.fence, record.seq = letter.fence, letter.seq
        if letter.outcome:
            self.write_outcome(record, letter.outcome, name, letter.epoch)
            self.down(name, EndKnownLetter(letter.job, letter.epoch))
