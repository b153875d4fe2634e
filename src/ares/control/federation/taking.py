"""A cluster's own records of the global plane's jobs: each message changes one record, in the transaction that changes
the job itself. What is answered is durable."""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.execution.transitions import JobChange, Transitions
from ares.control.federation.held_jobs import is_over
from ares.control.federation.offers import spec_of
from ares.control.state.commit import WriteDraft, Writer, landed, packs
from ares.control.state.view import StateEntry, View
from ares.control.submit.draft import Drafting, SubmitRequest, begin_ops
from ares.control.submit.projects import Projects
from ares.core import keys
from ares.core.federation import possession as rules
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
from ares.core.lifecycle.graph import begin
from ares.core.lifecycle.inputs import Cancel, Context
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.cluster import Possession, Taken
from ares.model.cluster_link import (
    Accepted,
    ClusterMessage,
    Confirmed,
    Declined,
    GivenBack,
    Judged,
    Offered,
    StandingNoted,
    Withdraw,
    Withdrawn,
)
from ares.model.state import Fence, JobState
from ares.model.uplink import OfferedJob, TakenJob
from ares.ports.clock import Clock
from ares.ports.store import Compare, Delete, Op, Put, Store
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_TRIES = 10
_UNTAKEN = Possession()


class TakingStep(NamedTuple):
    """What becomes of one job's record."""

    taken: TakenJob
    ops: tuple[Op, ...] = ()
    compares: tuple[Compare, ...] = ()
    answers: tuple[Upward, ...] = ()
    stop: bool = False


Decide = Callable[[TakenJob], TakingStep | None]


class TakenDraft(WriteDraft, frozen=True, gc=False):
    step: TakingStep

    @property
    def subject(self) -> str:
        return self.step.taken.job


class Taking:
    def __init__(
        self, store: Store, view: View, drafting: Drafting, projects: Projects, transitions: Transitions, clock: Clock,
        telemetry: Telemetry, epoch: int,
    ) -> None:  # fmt: skip
        self._store, self._view, self._clock, self._epoch = store, view, clock, epoch
        self._drafting, self._projects, self._transitions = drafting, projects, transitions
        self._writer = Writer(store, clock, telemetry, "taken")
        self._encode = msgspec.json.Encoder().encode

    # ---- offers

    async def offered(self, cluster: str, offers: Sequence[Offered], *, draining: bool) -> list[ClusterMessage]:
        wanted: list[tuple[str, str, Decide]] = []
        whys: dict[str, Refusal] = {}
        for offer in offers:
            job = offer.offer
            if (no := await self._unwanted(offer, draining)) is not None:
                whys[job.job] = no
            wanted.append((job.job, job.tenant, self._offered(cluster, offer, whys.get(job.job))))
        steps = await self._write(wanted)
        return [message for step in steps for message in _said(step, whys)]

    def _offered(self, cluster: str, offer: Offered, no: Refusal | None) -> Decide:
        asked = JobOffer(job=offer.offer.job, epoch=offer.epoch, spec_sha256=offer.spec_sha256)

        def decide(taken: TakenJob) -> TakingStep:
            found = rules.offered(cluster, taken.possession, asked, "" if no is None else no.code)
            kept = found.possession.taken
            accepted = kept is not None and kept.stage == "ACCEPTED"
            step = self._stepped(replace(taken, offer=offer.offer if accepted else None, settled=False), found)
            earlier = self._view.entries.get(asked.job) if accepted else None
            return step if earlier is None else self._cleared(step, earlier)

        return decide

    def _cleared(self, step: TakingStep, earlier: StateEntry) -> TakingStep:
        """Without what is left of the job from when the cluster had it before: it is over, and began another life
        elsewhere since. Its own records are written anew when it is confirmed."""
        tenant, job, state = step.taken.tenant, step.taken.job, earlier.state
        own = Compare(keys.state(tenant, job), "mod_revision", earlier.mod_revision)
        taken = replace(step.taken, attempts=max(step.taken.attempts, state.attempt))
        return step._replace(taken=taken, ops=_forgotten(tenant, job), compares=(own,))

    async def _unwanted(self, offer: Offered, draining: bool) -> Refusal | None:
        """Why this cluster cannot run it; None when it can."""
        job = offer.offer
        if draining:
            return Refusal(code="not-allowed", message="the cluster is draining")
        if (earlier := self._view.entries.get(job.job)) is not None and not is_over(earlier.state):
            return Refusal(code="not-allowed", message="processes of the job from before are still here")
        if hashlib.sha256(job.spec).hexdigest() != offer.spec_sha256:
            return Refusal(code="invalid", message="the specification is not what was offered")
        try:
            spec = spec_of(job)
        except (ValueError, RecursionError) as error:
            return Refusal(code="invalid", message=f"the specification cannot be read: {str(error)[:200]}")
        who = Principal(token_id="", tenant=job.tenant, role="submitter", user=job.submitted_by)
        checked = self._drafting.check(who, SubmitRequest(spec=spec))
        if isinstance(checked, Refusal):
            return checked
        return checked.no or await self._projects.unknown(job.tenant, spec)

    # ---- what the global plane says of what was taken

    async def confirmed(self, cluster: str, confirms: Sequence[Confirmed]) -> list[ClusterMessage]:
        """The job's own records are written with this, and not before: until now it could not start."""
        wanted = [(confirm.job, confirm.tenant, self._confirmed(cluster, confirm)) for confirm in confirms]
        return [message for step in await self._write(wanted) for message in _said(step, {})]

    def _confirmed(self, cluster: str, confirm: Confirmed) -> Decide:
        def decide(taken: TakenJob) -> TakingStep:
            found = rules.confirmed(cluster, taken.possession, JobConfirm(job=confirm.job, epoch=confirm.epoch))
            before = taken.possession.taken
            if (
                taken.offer is None
                or before is None
                or before.stage != "ACCEPTED"
                or not rules.startable(found.possession)
            ):
                return self._stepped(taken, found)
            ops = self._begun(taken.offer, taken.attempts)
            own = Compare(keys.state(taken.tenant, taken.job), "mod_revision", 0)
            return self._stepped(replace(taken, offer=None), found)._replace(ops=ops, compares=(own,))

        return decide

    def _begun(self, offer: OfferedJob, attempts: int) -> tuple[Op, ...]:
        """`attempts` were made here when the cluster had the job before: their logs are still here."""
        spec = spec_of(offer)
        begun = begin(
            id=offer.job, tenant=offer.tenant, spec=spec, name=offer.name, submitted_by=offer.submitted_by,
            submitter_id=offer.submitter_id, trace=offer.trace, cost_estimate=offer.cost_estimate,
            estimated_s=offer.estimated_s, note="from the global plane",
            context=Context(now=self._clock.wall(), jitter=0.0, epoch=self._epoch),
        )  # fmt: skip
        fence = Fence(epoch=max(offer.fence.epoch, self._epoch), counter=offer.fence.counter)
        state = replace(begun.state, fence=fence, submitted_at=offer.submitted_at, attempt=attempts)
        made = begin_ops(replace(begun, state=state), self._encode)
        return (Put(keys.job(offer.tenant, offer.job), self._encode(spec)), *made)

    async def withdrawn(self, cluster: str, asked: Withdraw) -> list[ClusterMessage]:
        withdraw = JobWithdraw(job=asked.job, epoch=asked.epoch)

        def decide(taken: TakenJob) -> TakingStep:
            return self._stepped(replace(taken, offer=None), rules.withdrawn(cluster, taken.possession, withdraw))

        return await self._ended(asked.job, asked.tenant, decide, asked.reason or "the global plane took it back")

    async def judged(self, cluster: str, asked: Judged) -> list[ClusterMessage]:
        verdict = JobVerdict(job=asked.job, epoch=asked.epoch, do=asked.do)

        def decide(taken: TakenJob) -> TakingStep:
            found = rules.judged(cluster, taken.possession, verdict)
            held = found.possession.taken
            ended = held is not None and asked.do == "ended" and held.epoch <= asked.epoch
            # What is to stop has stopped when its end was told.
            found = rules.gone(found.possession) if ended else found
            over = held is None or ended
            return self._stepped(replace(taken, offer=None if over else taken.offer, settled=over), found)

        return await self._ended(asked.job, asked.tenant, decide, asked.reason or "the global plane ended it")

    async def _ended(self, job: str, tenant: str, decide: Decide, reason: str) -> list[ClusterMessage]:
        steps = await self._write([(job, tenant, decide)])
        for step in steps:
            if step.stop and (entry := self._view.entries.get(job)) is not None:
                what = Cancel(by="global plane", reason=reason)
                await self._transitions.apply([JobChange(job, entry.state.tenant, (what,))])
        return [message for step in steps for message in _said(step, {})]

    async def settled(self, jobs: Sequence[tuple[str, str]]) -> None:
        """The ends of these jobs are durable at the global plane. Not before that is a job that was to stop forgotten:
        whatever breaks, it is told again."""

        def decide(taken: TakenJob) -> TakingStep:
            return self._stepped(replace(taken, settled=True), rules.gone(taken.possession))

        await self._write([(job, tenant, decide) for job, tenant in jobs])

    async def owned(self, noted: StandingNoted, tenant: str) -> None:
        """A local job that the global plane has taken in: from now on it is as any other."""

        def decide(taken: TakenJob) -> TakingStep | None:
            if taken.possession.taken is not None:
                return None
            return TakingStep(replace(taken, possession=Possession(taken=Taken(epoch=noted.epoch, stage="CONFIRMED"))))

        await self._write([(noted.job, tenant, decide)])

    async def release(self, cluster: str, states: Sequence[JobState]) -> list[ClusterMessage]:
        """Gives jobs back that never began: their records go with this, so that they cannot begin any more."""
        done: list[ClusterMessage] = []
        for state in states:
            key = keys.state(state.tenant, state.id)
            kv = await self._store.get(key)
            found = None if kv is None else msgspec.json.decode(kv.value, type=JobState)
            if kv is None or found is None or found.attempt > 0 or found.phase not in ("PENDING", "WAITING"):
                continue
            own = Compare(key, "mod_revision", kv.mod_revision)
            gone = _forgotten(state.tenant, state.id)

            def decide(taken: TakenJob, own: Compare = own, gone: tuple[Op, ...] = gone) -> TakingStep | None:
                if not rules.startable(taken.possession):
                    return None
                step = self._stepped(taken, rules.released(cluster, taken.job, taken.possession))
                return step._replace(ops=gone, compares=(own,))

            steps = await self._write([(state.id, state.tenant, decide)], tries=1)
            done += [message for step in steps for message in _said(step, {})]
        return done

    async def fence(self, cluster: str, states: Sequence[JobState]) -> list[ClusterMessage]:
        """Ends jobs here that are about to move, because their global plane is silent."""

        def decide(taken: TakenJob) -> TakingStep:
            return self._stepped(taken, rules.fenced(taken.possession))

        begun = [state for state in states if state.attempt or state.phase not in ("PENDING", "WAITING")]
        said = await self.release(cluster, [state for state in states if state not in begun])
        for state in begun:
            said += await self._ended(state.id, state.tenant, decide, "the global plane is silent, and the job moves")
        return said

    async def let_go(self, cluster: str, jobs: Sequence[tuple[str, str]]) -> list[ClusterMessage]:
        """Nothing of these fenced jobs runs any more."""

        def decide(taken: TakenJob) -> TakingStep:
            return self._stepped(taken, rules.let_go(cluster, taken.job, taken.possession))

        return [said for step in await self._write([(j, t, decide) for j, t in jobs]) for said in _said(step, {})]

    async def forget(self, before: float, healed_since: float | None) -> int:
        """Removes records that nothing can ask for any more; returns how many. `before`: by wall clock, as old as
        jobs' own records get; `healed_since`: when the session began in which all was settled, None for none."""
        table, drafts = self._view.kept.taken, list[tuple[int, TakenDraft]]()
        for place, (job, record) in enumerate(table.items()):
            healed, kept = healed_since is not None and record.at < healed_since, job in self._view.entries
            if record.at < before and rules.forgettable(
                record.possession, settled=record.settled, kept=kept, healed=healed
            ):
                key = keys.taken(record.tenant, job)
                compare = Compare(key, "mod_revision", table.revisions.get(job, 0))
                drafts.append((place, TakenDraft((Delete(key),), (compare,), TakingStep(record))))
        for pack in packs(drafts) if drafts else ():
            compares = [compare for _, draft in pack for compare in draft.compares]
            await self._writer.once(compares, [op for _, draft in pack for op in draft.ops])
        return len(drafts)

    # ---- writing

    def _stepped(self, taken: TakenJob, found: rules.PossessionStep) -> TakingStep:
        return TakingStep(replace(taken, possession=found.possession), answers=found.answers, stop=found.stop)

    async def _write(self, wanted: Sequence[tuple[str, str, Decide]], tries: int = _TRIES) -> list[TakingStep]:
        """The steps that are durable, or that found all of it written already."""
        table, drafts, done = self._view.kept.taken, list[tuple[int, TakenDraft]](), list[TakingStep]()
        again: list[tuple[str, str, Decide]] = []
        for place, (job, tenant, decide) in enumerate(wanted):
            known = table.get(job)
            tenant = tenant or ("" if known is None else known.tenant)
            if not tenant:
                continue
            draft = self._draft(job, tenant, known, table.revisions.get(job, 0), decide)
            if isinstance(draft, TakenDraft):
                drafts.append((place, draft))
            elif draft is not None:
                done.append(draft)
        for pack in packs(drafts) if drafts else ():
            compares = [compare for _, draft in pack for compare in draft.compares]
            written = await self._writer.once(compares, [op for _, draft in pack for op in draft.ops])
            if landed(written):
                done += [draft.step for _, draft in pack]
            else:
                again += [wanted[place] for place, _ in pack]
        for job, tenant, decide in again:
            known = table.get(job)
            step = await self._alone(job, tenant or ("" if known is None else known.tenant), decide, tries)
            done += [] if step is None else [step]
        return done

    async def _alone(self, job: str, tenant: str, decide: Decide, tries: int) -> TakingStep | None:
        key = keys.taken(tenant, job)
        for _ in range(tries):
            kv = await self._store.get(key)
            known = None if kv is None else msgspec.json.decode(kv.value, type=TakenJob)
            draft = self._draft(job, tenant, known, 0 if kv is None else kv.mod_revision, decide)
            if not isinstance(draft, TakenDraft):
                return draft
            if landed(await self._writer.once(draft.compares, draft.ops)):
                return draft.step
        log.warning("taken.delayed", job=job, tries=tries)
        return None

    def _draft(
        self, job: str, tenant: str, known: TakenJob | None, revision: int, decide: Decide
    ) -> TakenDraft | TakingStep | None:
        before = known or TakenJob(job=job, tenant=tenant, possession=_UNTAKEN)
        step = decide(before)
        if step is None or (step.taken == known and not step.ops):
            return step
        if known is None and step.taken.possession == _UNTAKEN and not step.taken.settled:
            return step
        key = keys.taken(tenant, job)
        put = Put(key, self._encode(replace(step.taken, at=self._clock.wall())))
        compares = (Compare(key, "mod_revision", revision), *step.compares)
        return TakenDraft((put, *step.ops), compares, step)


def _forgotten(tenant: str, job: str) -> tuple[Op, ...]:
    """All records of the job's own but for what it wrote."""
    return (
        Delete(keys.state(tenant, job)), Delete(keys.job(tenant, job)), Delete(keys.result(tenant, job)),
        Delete(keys.job_events(tenant, job), prefix=True),
    )  # fmt: skip


def _said(step: TakingStep, whys: dict[str, Refusal]) -> list[ClusterMessage]:
    """The answers as the link has them."""
    said: list[ClusterMessage] = []
    for answer in step.answers:
        match answer:
            case OfferAccepted():
                said.append(Accepted(job=answer.job, epoch=answer.epoch))
            case OfferDeclined():
                no = whys.get(answer.job)
                why = "" if no is None else no.message[:1000]
                said.append(Declined(job=answer.job, epoch=answer.epoch, code=answer.code, why=why))
            case OfferWithdrawn():
                said.append(Withdrawn(job=answer.job, epoch=answer.epoch))
            case JobReleased():
                said.append(GivenBack(job=answer.job, epoch=answer.epoch))
            case _:
                pass
    return said
