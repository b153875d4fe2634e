"""A cluster of a simulated federation: it takes offers, runs what was confirmed, and goes on when it is cut off."""

import random
from collections.abc import Callable
from typing import Any

from ares.check.federation.history import JobSubmitted, LocalOver, PossessionWritten, RunBegan, RunOver
from ares.core.federation import autonomy, buckets, escrow, owners, possession
from ares.core.federation.clusters import local_id
from ares.core.federation.epochs import LOCAL_EPOCH
from ares.core.federation.merge import Version
from ares.core.federation.messages import JobConfirm, JobVerdict, JobWithdraw
from ares.core.federation.possession import PossessionStep
from ares.model.base import Fence
from ares.model.cluster import ClusterState, EscrowRecord, Possession, Taken
from ares.sim.federation.letters import (
    AnswerLetter,
    CancelLetter,
    ClusterStore,
    DownLetter,
    EndKnownLetter,
    HealedLetter,
    HelloLetter,
    HelloPlease,
    JobHere,
    ListingLetter,
    OfferLetter,
    RefusedLetter,
    ReportLetter,
    SimulatedJob,
    StateLetter,
    UpLetter,
    WelcomeLetter,
    listed_job,
)
from ares.sim.federation.network import Envelope, FederationClock, FederationLink, FederationRecorder

LEASE_S = 20.0
# After a restore nothing from before it runs any more: the nodes' leases end it.
SETTLING_S = 10.0
_TICK_S = 0.5
_REPORT_S = 2.0
_AUDIT_S = 15.0
_LAG_S = 3.0


class SimulatedCluster:
    def __init__(
        self, name: str, code: str, region: str, clock: FederationClock, recorder: FederationRecorder,
        link: FederationLink, chance: random.Random, send: Callable[[Envelope], None],
    ) -> None:  # fmt: skip
        self.name, self.code, self.region = name, code, region
        self.clock, self.recorder, self.link, self.chance = clock, recorder, link, chance
        self._send_up = send
        self.store = ClusterStore()
        self.state: ClusterState = "ACTIVE"
        self.slots, self.life, self.over = 6, 1, False
        self.skew = chance.uniform(-30.0, 30.0)
        self._settled_at, self._seq = 0.0, 0
        # Of its store: one more than any before, whatever the backup has.
        self._epochs = 1
        # Local jobs are admitted in a life that has healed since its store was restored.
        self._healed_in = 1
        self._earlier: list[tuple[float, ClusterStore]] = []
        # Processes: they live on nodes, not in this process.
        self.running: dict[str, tuple[int, float]] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            OfferLetter: self._offered, JobConfirm: self._confirmed, JobWithdraw: self._withdrawn,
            JobVerdict: self._judged, CancelLetter: self._cancelled, EndKnownLetter: self._end_known,
            WelcomeLetter: self._welcomed, HealedLetter: self._healed, AnswerLetter: self._answered,
            HelloPlease: self._asked_for_hello, RefusedLetter: self._refused,
        }  # fmt: skip
        self._begin()

    # ---- lives

    def _begin(self) -> None:
        self.mode: autonomy.ClusterMode = "AUTONOMOUS"
        self._plane_life = 0
        self._heard_at = self._renewed_at = self.clock.now
        self._fresh = False
        self._said_hello = self._reported = -100.0
        self._ready_at: dict[str, float] = {}
        life = self.life
        self.clock.at(_TICK_S, lambda: self._tick(life))

    def restart(self) -> None:
        """Its control plane begins anew; its nodes' processes go on."""
        self.life += 1
        self._seq = 0
        self._begin()

    def restore(self, backup: ClusterStore) -> None:
        self.store = backup.backup()
        self._epochs += 1
        self.store.store_epoch = self._epochs
        self._settled_at = self.clock.now + SETTLING_S
        self._earlier.clear()
        for job in list(self.running):
            self._end_process(job, self.chance.uniform(0.5, 7.0))
        for job, here in self.store.jobs.items():
            self._record(job, here)
        self.restart()

    def leave(self) -> None:
        """It was told that it is not part of the federation any more."""
        self.over = True
        for job in list(self.running):
            self._end_process(job, 1.0)

    @property
    def settled(self) -> bool:
        return self.clock.now >= self._settled_at

    # ---- the loop

    def _tick(self, life: int) -> None:
        if life != self.life or self.over:
            return
        now = self.clock.now
        if now - self._heard_at >= autonomy.AUTONOMOUS_S:
            self.mode = autonomy.step(self.mode, "cut")
        if self.link.loss and (not self._earlier or now - self._earlier[-1][0] >= _LAG_S):
            self._earlier = [*self._earlier[-1:], (now, self.store.backup())]
        self._run()
        if self.state == "DRAINING":
            self._let_go()
        if now - self._reported >= _REPORT_S:
            self._report()
        silent = self.mode == "AUTONOMOUS" or not self._fresh
        if now - self._said_hello >= (4.0 if silent or self.mode == "RECONCILING" else _AUDIT_S):
            self._hello()
        self.clock.at(_TICK_S, lambda: self._tick(life))

    def _run(self) -> None:
        now = self.clock.now
        fenced = owners.must_fence(self._renewed_at, now, LEASE_S)
        for job, here in self.store.jobs.items():
            process = self.running.get(job)
            if process is not None and fenced and here.job.may_move and not here.job.place:
                self._end_process(job, 0.5)
            elif process is None and self._may_start(here, fenced):
                self._start(job, here)

    def _may_start(self, here: JobHere, fenced: bool) -> bool:
        if not possession.startable(here.held) or here.outcome or here.cancel or not self.settled:
            return False
        moving = here.job.may_move and not here.job.place
        if moving and (fenced or self.mode != "FEDERATED"):
            return False
        ready = self._ready_at.setdefault(here.job.id, self.clock.now + self.chance.uniform(0.3, 3.0))
        return self.clock.now >= ready and len(self.running) < self.slots

    def _start(self, job: str, here: JobHere) -> None:
        taken = here.held.taken
        if taken is None:
            return
        here.fence, here.seq = here.fence + 1, here.seq + 1
        self.running[job] = (taken.epoch, self.clock.now)
        self.recorder.add(RunBegan, cluster=self.name, job=job, epoch=taken.epoch)
        crashes = self.chance.random() < 0.15
        length = here.job.run_s * (self.chance.random() if crashes else 1.0)
        epoch, fence, store = taken.epoch, here.fence, self.store.store_epoch
        self.clock.at(length, lambda: self._exited(job, epoch, fence, store, crashes))

    def _exited(self, job: str, epoch: int, fence: int, store: int, crashed: bool) -> None:
        here = self.store.jobs.get(job)
        running, began = self.running.get(job, (0, -1.0))
        if running != epoch or began < 0 or self.store.store_epoch != store:
            return
        if here is None or here.fence != fence:
            return
        self._gone(job)
        if not crashed:
            self._finish(here, "CANCELLED" if here.cancel else "SUCCEEDED")

    def _finish(self, here: JobHere, outcome: str) -> None:
        if here.outcome:
            return
        here.outcome, here.seq = outcome, here.seq + 1
        if here.job.place:
            self.recorder.add(LocalOver, cluster=self.name, job=here.job.id)
        self._tell_state(here)

    def _end_process(self, job: str, within_s: float) -> None:
        """Kills it; it is gone a moment later."""
        epoch, began = self.running[job]
        if began < 0:
            return
        self.running[job] = (epoch, -1.0)
        self.clock.at(self.chance.uniform(0.1, within_s), lambda: self._gone(job))

    def _gone(self, job: str) -> None:
        epoch, _ = self.running.pop(job)
        self.recorder.add(RunOver, cluster=self.name, job=job, epoch=epoch)
        here = self.store.jobs.get(job)
        if here is None:
            return
        if here.cancel and not here.outcome:
            self._finish(here, "CANCELLED")
        self._write(job, here, possession.gone(here.held))

    # ---- ownership

    def _write(self, job: str, here: JobHere, step: PossessionStep) -> None:
        """What is durable first, then the answers."""
        if step.possession != here.held:
            here.held = step.possession
            self._record(job, here)
        for answer in step.answers:
            self._up(answer)
        if step.stop:
            if job in self.running:
                self._end_process(job, 1.5)
            else:
                self._write(job, here, possession.gone(here.held))

    def _record(self, job: str, here: JobHere) -> None:
        taken = here.held.taken
        epoch, stage = (taken.epoch, taken.stage) if taken is not None else (0, "")
        self.recorder.add(
            PossessionWritten, cluster=self.name, job=job, epoch=epoch, stage=stage, refused=here.held.refused
        )

    def _let_go(self) -> None:
        """A draining cluster gives back what has not started, and the quota that it was lent."""
        for job, here in self.store.jobs.items():
            if not here.job.place and here.fence == 0 and job not in self.running and not here.outcome:
                self._write(job, here, possession.released(self.name, job, here.held))
        for tenant, allowance in self.store.allowance.items():
            self.store.allowance[tenant] = escrow.give_back(allowance, self._used(tenant))

    # ---- local jobs

    def submit(self, tenant: str, number: int, request: str, run_s: float) -> bool:
        """Admitted against the allowance, and acknowledged once it is durable."""
        allowance = self.store.allowance.get(tenant, EscrowRecord())
        closed = self.over or self.state != "ACTIVE" or self._healed_in != self.store.store_epoch
        if closed or not escrow.admits(allowance, self._used(tenant), {"jobs": 1}, self.clock.now):
            return False
        job = SimulatedJob(local_id(self.code, f"{number:04d}"), tenant, run_s, place=self.name, request=request)
        held = Possession(taken=Taken(epoch=LOCAL_EPOCH, stage="CONFIRMED"))
        self.store.jobs[job.id] = JobHere(job, held)
        self.recorder.add(JobSubmitted, job=job.id, tenant=tenant, place=self.name)
        self._record(job.id, self.store.jobs[job.id])
        return True

    def _used(self, tenant: str) -> dict[str, int]:
        jobs = self.store.jobs.values()
        return {"jobs": sum(here.job.tenant == tenant and bool(here.job.place) and not here.outcome for here in jobs)}

    # ---- up

    def _up(self, letter: UpLetter) -> None:
        envelope = Envelope(self.name, self.life, self._plane_life, letter)
        self.link.carry(True, envelope, self._send_up)

    def _tell_state(self, here: JobHere) -> None:
        taken = here.held.taken
        if taken is not None and not here.known:
            self._up(StateLetter(here.job.id, taken.epoch, here.fence, here.seq, here.outcome))

    def _report(self) -> None:
        self._seq += 1
        self._reported = now = self.clock.now
        busy = sum(possession.startable(here.held) and not here.outcome for here in self.store.jobs.values())
        released = {tenant: allowance.released for tenant, allowance in self.store.allowance.items()}
        version = Version(self.life, self._seq)
        # Clocks of machines are set, and step back.
        wall = now + self.skew + (self.chance.uniform(-20.0, 0.0) if self.chance.random() < 0.2 else 0.0)
        free = max(0, self.slots - busy)
        jobs = sum(here.held.taken is not None and not here.known for here in self.store.jobs.values())
        self._up(ReportLetter(version, now, wall, free, max(0, busy - self.slots), jobs, released))
        for here in self.store.jobs.values():
            if here.fence:
                self._tell_state(here)

    def reconnect(self) -> None:
        """Says hello and all its news at once."""
        self._hello()
        self._report()

    def _hello(self) -> None:
        self._said_hello = self.clock.now
        held = [(job, self._progress(here)) for job, here in self.store.jobs.items() if here.held.taken is not None]
        hashes = buckets.hashes_of(held)
        self._up(HelloLetter(self.store.store_epoch, self.settled, hashes, dict(self.store.allowance)))

    @staticmethod
    def _progress(here: JobHere) -> buckets.JobProgress:
        taken = here.held.taken
        if taken is None:
            return buckets.JobProgress(0)
        return buckets.JobProgress(taken.epoch, Fence(epoch=1, counter=here.fence), here.seq, taken.stage)

    def _list(self, letter: WelcomeLetter) -> None:
        store = self.store
        whole = len(letter.buckets) == buckets.BUCKETS
        if self.link.loss and self._earlier and self.chance.random() < 0.15 and not whole:
            # A replica answers whose view lags behind; a restored global plane waits for one that has caught up.
            store = self._earlier[0][1]
        listed = {
            job: listed_job(here)
            for job, here in store.jobs.items()
            if buckets.bucket_of(job) in letter.buckets and (here.held.taken is not None or here.held.refused)
        }
        self._up(ListingLetter(letter.number, self.store.store_epoch, self.settled, listed))

    # ---- down

    def hear(self, envelope: Envelope) -> None:
        if self.over or envelope.cluster_life != self.life or envelope.plane_life < self._plane_life:
            return
        self._plane_life = envelope.plane_life
        self._heard_at = self.clock.now
        letter: DownLetter = envelope.letter
        if not (envelope.copy and isinstance(letter, WelcomeLetter | HealedLetter)):
            self._handlers[type(letter)](letter)

    def _offered(self, letter: OfferLetter) -> None:
        if self.mode != "FEDERATED" or not self.settled:
            return
        here = self.store.jobs.setdefault(letter.job.id, JobHere(letter.job))
        declines = "draining" if self.state != "ACTIVE" else "full" if self.chance.random() < 0.1 else ""
        before = here.held.taken
        self._write(letter.job.id, here, possession.offered(self.name, here.held, letter.offer, declines))
        after = here.held.taken
        if after is not None and (before is None or before.epoch != after.epoch):
            # A new owner begins anew: an end of an earlier epoch was refused.
            here.outcome, here.known, here.cancel = "", False, False

    def _confirmed(self, letter: JobConfirm) -> None:
        here = self.store.jobs.get(letter.job)
        if here is not None:
            self._write(letter.job, here, possession.confirmed(self.name, here.held, letter))

    def _withdrawn(self, letter: JobWithdraw) -> None:
        here = self.store.jobs.get(letter.job)
        if here is not None:
            self._write(letter.job, here, possession.withdrawn(self.name, here.held, letter))

    def _judged(self, letter: JobVerdict) -> None:
        here = self.store.jobs.get(letter.job)
        if here is not None:
            here.known = here.known or (letter.do == "ended" and bool(here.outcome))
            self._write(letter.job, here, possession.judged(self.name, here.held, letter))

    def _cancelled(self, letter: CancelLetter) -> None:
        here = self.store.jobs.get(letter.job)
        if here is None or here.held.taken is None or here.held.taken.epoch != letter.epoch or here.outcome:
            return
        here.cancel = True
        if letter.job in self.running:
            self._end_process(letter.job, 1.5)
        else:
            self._finish(here, "CANCELLED")

    def _end_known(self, letter: EndKnownLetter) -> None:
        here = self.store.jobs.get(letter.job)
        if here is not None and here.held.taken is not None and here.held.taken.epoch == letter.epoch:
            here.known = bool(here.outcome)

    def _welcomed(self, letter: WelcomeLetter) -> None:
        if self.mode != "FEDERATED":
            self.mode = autonomy.step(self.mode, "connected")
        self._fresh = True
        self._hear_escrow(letter.escrow)
        self._list(letter)

    def _healed(self, letter: HealedLetter) -> None:
        for verdict in letter.verdicts:
            self._judged(verdict)
        self.mode = autonomy.step(self.mode, "settled")
        if self.settled:
            self._healed_in = self.store.store_epoch

    def _answered(self, letter: AnswerLetter) -> None:
        self.state = letter.state
        self._hear_escrow(letter.grants)
        if letter.lease is not None and self.mode == "FEDERATED":
            self._renewed_at = max(self._renewed_at, letter.lease)

    def _hear_escrow(self, told: dict[str, EscrowRecord]) -> None:
        for tenant, record in told.items():
            mine = self.store.allowance.get(tenant, EscrowRecord())
            self.store.allowance[tenant] = escrow.heard(mine, record.granted, record.released, record.until)

    def _asked_for_hello(self, _letter: HelloPlease) -> None:
        # Without a session it was not heard: it is as good as cut off, and heals before it goes on as before.
        self.mode = autonomy.step(self.mode, "cut")
        if self.clock.now - self._said_hello > 1.0:
            self._hello()

    def _refused(self, _letter: RefusedLetter) -> None:
        self.leave()
