"""What a request becomes before it is written: checked, given an id, and encoded as the operations of a transaction."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ares.api.deadlines import DeadlineSeen
from ares.control.governance.policy_gate import Judging, Submission
from ares.control.governance.quotas import Quotas
from ares.control.scheduler.deadlines import Deadlines, not_met
from ares.control.state.commit import Full, WriteDraft
from ares.control.state.ids import job_id
from ares.control.state.view import View
from ares.control.submit.estimates import Estimated, Estimates, MemoryDefaults
from ares.control.submit.known_specs import KnownSpecs
from ares.control.submit.parents import ParentChecks
from ares.control.submit.room import JobRoom, Room
from ares.core import keys
from ares.core.admit.admission import too_late
from ares.core.admit.arrays import throttle
from ares.core.admit.dedup import payload_sha256
from ares.core.admit.needs import inside, outside
from ares.core.admit.placement import not_tolerable
from ares.core.admit.secrets import unavailable
from ares.core.alerts import refused
from ares.core.checkpoint import taken_over
from ares.core.federation.clusters import local_id
from ares.core.lifecycle.graph import begin
from ares.core.lifecycle.inputs import Context, Stepped
from ares.core.policy.verdict import PolicyVerdict, Said
from ares.core.queue.order import account_of
from ares.core.refusal import Refusal
from ares.core.reserve.window import Submitter, refusal
from ares.model.access import Principal
from ares.model.base import Record, RequestId
from ares.model.checkpoint import CheckpointPointer, CheckpointRecord
from ares.model.job import JobSpec
from ares.model.state import ArrayRecord, ChildOf, JobState, RequestRecord
from ares.ports.clock import Clock, Rng
from ares.ports.store import VALUE_BYTES_MAX, Compare, Op, Put, Unknown
from ares.ports.telemetry import Telemetry

Encode = Callable[[object], bytes]


class SubmitRequest(Record, frozen=True):
    """One job to submit. Without a request id a repeat makes a second job."""

    spec: JobSpec
    request_id: RequestId | None = None
    # W3C traceparent of the caller, if any.
    trace: str = ""
    retry_of: str | None = None
    manual_retries: int = 0
    # The reason that the client gave; it goes into the ledger.
    note: str = ""
    # The attempt that submits it, and the revision of that job's record by which the attempt was found to be current.
    child_of: ChildOf | None = None
    parent_revision: int = 0


class AcceptedJob(Record, frozen=True):
    job: str
    replayed: bool
    tasks: int = 1
    # What policies say to it.
    warnings: tuple[Said, ...] = ()
    # Soft limits of the quota that are passed with it.
    soft_limits: tuple[str, ...] = ()
    # Whether it will meet its deadline, if that was asked for.
    deadline: DeadlineSeen | None = None


FULL = Refusal(
    code="store-full",
    message="the disk of the store is full; nothing was written",
    fix="have the operator free some space there, then send the same request again",
    retry_after_s=5.0,
)


def unwritten(written: Unknown | Full, request: SubmitRequest) -> Refusal:
    """Why a request that was to be written is not acknowledged."""
    return FULL if isinstance(written, Full) else unacknowledged(request)


def unacknowledged(request: SubmitRequest) -> Refusal:
    """The one answer that does not know whether anything was changed."""
    if request.request_id is None:
        fix = "look for it in the job list before you send it again; with a request id repeats are safe"
    else:
        fix = "send the same request again with the same request id: it will not be doubled"
    message = "the store did not answer, so the job was not acknowledged; it may exist"
    return Refusal(code="store-unavailable", message=message, fix=fix, retry_after_s=1.0)


class Checked(NamedTuple):
    """A request that nothing is wrong with. `no` says why it is refused all the same, unless it was taken before."""

    who: Principal
    request: SubmitRequest
    # What policies made of it.
    judged: PolicyVerdict
    # Of an array; None of a single job.
    indices: int | None
    no: Refusal | None
    # Of another job: it goes on from there.
    restores: CheckpointRecord | None = None

    @property
    def tasks(self) -> int:
        return 1 if self.indices is None else self.indices


class Draft(WriteDraft, frozen=True, gc=False):
    """An admitted request, encoded. Its first compare says that nothing came of the request yet."""

    checked: Checked
    # As it is kept.
    spec: JobSpec
    estimated: Estimated
    # Of what the client sent under a request id.
    digest: str
    job: str
    array: ArrayRecord | None = None
    deadline: DeadlineSeen | None = None
    # Of a workflow: what all its jobs ask for together.
    asked: dict[str, int] | None = None
    # The checkpoint that the new job takes over.
    restores: CheckpointRecord | None = None

    @property
    def request(self) -> SubmitRequest:
        return self.checked.request

    @property
    def subject(self) -> str | None:
        """One request makes one job, however often it comes. Arrays go alone: their tasks follow."""
        return self.compares[0].key if self.array is None else None


def refused_by(said: Said) -> Refusal:
    """The answer to a submission that a policy refuses."""
    reason = f"policy:{said.policy}"
    if said.unanswered:
        fix = "have whoever wrote the policy correct it; until then nothing it cannot judge is taken"
        return Refusal(code="policy-rejected", message=said.message, fix=fix, reason=reason)
    by = f" ({said.by_values})" if said.values else ""
    whose = f"of tenant {said.tenant}" if said.tenant else "of the platform"
    message = f"policy {said.policy} {whose}: {said.message}{by}"
    return Refusal(code="policy-rejected", message=message, reason=reason)


def begin_ops(begun: Stepped, encode: Encode) -> tuple[Put, ...]:
    """The first state of a job and its first entry in the ledger."""
    state = begun.state
    puts = [Put(keys.event(e.tenant, e.job, e.seq), encode(e)) for e in begun.events]
    return (Put(keys.state(state.tenant, state.id), encode(state)), *puts)


class Drafting:
    """Decides about one request at a time; writes nothing."""

    def __init__(
        self,
        view: View,
        deadlines: Deadlines,
        clock: Clock,
        rng: Rng,
        telemetry: Telemetry,
        epoch: int,
        room: Room,
        judging: Judging,
        estimates: Estimates,
        quotas: Quotas,
    ) -> None:
        self._judging = judging
        self._quotas = quotas
        self._estimates = estimates
        self._view = view
        self._deadlines = deadlines
        self._clock = clock
        self._rng = rng
        self._telemetry = telemetry
        self._epoch = epoch
        self.room = JobRoom(view, room)
        self._memory = MemoryDefaults(view)
        self._parents = ParentChecks(view)
        self.encode = msgspec.json.Encoder().encode
        self.known = KnownSpecs()

    def sized(self, spec: JobSpec) -> JobSpec:
        """With the memory it would get, where it does not say."""
        return self.known.of(spec).sized(self._memory.share)

    def check(self, who: Principal, request: SubmitRequest, *, in_flow: bool = False) -> Checked | Refusal:
        """By the rules of admission, by policies, and by what there is now."""
        admitted = self.known.of(request.spec).admitted
        if isinstance(admitted, Refusal):
            return admitted
        if (no := inside(request.spec) if in_flow else outside(request.spec)) is not None:
            return no
        count = None if admitted.indices is None else len(admitted.indices)
        judged = self.judged(who, request, 1 if count is None else count)
        if isinstance(judged, Refusal):
            return judged
        return Checked(who, request, judged, count, self._no_new(who, judged))

    def draft(
        self, checked: Checked, before: int, deadline: DeadlineSeen | None, number: int = 0, of: int = 1
    ) -> Draft | Refusal:
        """With an id, encoded; `before` jobs are drafted with it, as number `number` of its batch. Refused, unless it
        was taken before, when there is no room, or its deadline will be missed and was to be met."""
        who, request, judged = checked.who, checked.request, checked.judged
        no = not_met(judged.spec, deadline) or self.room.refusal(who.tenant, checked.tasks, before) or self._unhealed()
        if no is not None:
            return no
        digest = "" if request.request_id is None else self.known.of(request.spec).digest
        new_id = self.new_id(number, of)
        spec = self._deadlines.dated(judged.spec)
        spec_op = Put(keys.job(who.tenant, new_id), self.known.of(spec).encoded)
        if len(spec_op.value) > VALUE_BYTES_MAX:
            message = f"the job takes {len(spec_op.value):,} bytes to keep, at most {VALUE_BYTES_MAX:,} are allowed"
            return Refusal(code="spec-too-large", message=message, fix="put long input into a file")
        kept = kept_digest(request, judged.spec)
        compares, request_ops = self.claim(who.tenant, request.request_id, digest, new_id, kept)
        if spec.needs:
            parents = self._parents.compares(who.tenant, spec)
            if isinstance(parents, Refusal):
                return parents
            compares += parents
        if request.child_of is not None:
            # Only the parent's current attempt makes children: its fence is in this record.
            parent = keys.state(who.tenant, request.child_of.job)
            compares += (Compare(parent, "mod_revision", request.parent_revision),)
        estimated = self._estimates.of(who, spec)
        trace = self._telemetry.new_trace(request.trace)
        if checked.indices is not None:
            array = self._array(checked, new_id, trace, estimated)
            header = Put(keys.array(who.tenant, new_id), self.encode(array))
            ops = (*request_ops, spec_op, header)
            return Draft(ops, compares, checked, spec, estimated, digest, new_id, array, deadline)
        taken = None if checked.restores is None else taken_over(checked.restores, new_id, self._epoch)
        begun = self.begun(checked, spec, estimated, new_id, trace, None if taken is None else taken.pointer)
        state_op, *event_ops = begin_ops(begun, self.encode)
        least = self._view.kept.isolation(who.tenant)
        self._view.decoded.expect(begun.state, state_op.value, spec, spec_op.value, least)
        ops = (*request_ops, spec_op, state_op, *event_ops)
        if taken is not None:
            ops = (*ops, Put(keys.checkpoint(who.tenant, new_id, taken.pointer.id), self.encode(taken)))
        return Draft(ops, compares, checked, spec, estimated, digest, new_id, None, deadline, restores=taken)

    def begun(
        self,
        checked: Checked,
        spec: JobSpec,
        estimated: Estimated,
        new_id: str,
        trace: str,
        checkpoint: CheckpointPointer | None = None,
    ) -> Stepped:
        who, request = checked.who, checked.request
        return begin(
            id=new_id, tenant=who.tenant, spec=spec, name=request.spec.name, submitted_by=who.subject,
            submitter_id=who.user_id, trace=trace,
            context=Context(now=self._clock.wall(), jitter=0.0, epoch=self._epoch),
            retry_of=request.retry_of, manual_retries=request.manual_retries, request_id=request.request_id,
            note=request.note, cost_estimate=estimated.cost, estimated_s=estimated.seconds, child_of=request.child_of,
            checkpoint=checkpoint,
        )  # fmt: skip

    def _unhealed(self) -> Refusal | None:
        """A cluster that was restored has forgotten which requests it took, and what it gave back of its allowance."""
        uplink = self._view.kept.uplink.get("")
        if uplink is None or not 0 < uplink.healed_in < self._epoch:
            return None
        message = f"this cluster was restored from a backup, and has not compared its jobs with {uplink.api} since"
        fix = "submit at the global plane, or here when it is back; `ares cluster leave --force` goes on without it"
        return Refusal(code="store-unavailable", message=message, fix=fix, retry_after_s=5.0)

    def new_id(self, number: int, of: int) -> str:
        """In a cluster of a federation one that neither another cluster nor the global plane ever gives out."""
        drawn, uplink = job_id(self._rng, self._clock.wall(), number, of), self._view.kept.uplink.get("")
        return drawn if uplink is None or not uplink.code else local_id(uplink.code, drawn)

    def _array(self, checked: Checked, new_id: str, trace: str, estimated: Estimated) -> ArrayRecord:
        who, request = checked.who, checked.request
        return ArrayRecord(
            id=new_id, tenant=who.tenant, name=request.spec.name, indices=request.spec.array or "", tasks=checked.tasks,
            submitted_by=who.subject, submitter_id=who.user_id, trace=trace, submitted_at=self._clock.wall(),
            request_id=request.request_id, cost_estimate=estimated.cost, estimated_s=estimated.seconds,
            throttle=throttle(request.spec.array or ""),
        )  # fmt: skip

    def kept(self, checked: Checked) -> tuple[JobSpec, Estimated] | Refusal:
        """A job of a workflow as it will be stored, and what it may cost."""
        if checked.no is not None:
            return checked.no
        spec = self._deadlines.dated(checked.judged.spec)
        return spec, self._estimates.of(checked.who, spec)

    @staticmethod
    def unjudged(spec: JobSpec) -> PolicyVerdict:
        return PolicyVerdict(spec=spec)

    def no_room(self, tenant: str, tasks: int) -> Refusal | None:
        return self.room.refusal(tenant, tasks)

    def parents_gone(self, draft: Draft) -> Refusal | None:
        """Why a draft that was not written never will be: a job it waits for is no longer kept, or the job that
        submits it changed."""
        return self._parents.gone(draft.checked.who.tenant, draft.request, draft.spec)

    def is_judged(self, tenant: str) -> bool:
        """Whether any policy is in force for the tenant's jobs."""
        return self._judging.concerns(tenant)

    def judged(self, who: Principal, request: SubmitRequest, tasks: int) -> PolicyVerdict | Refusal:
        """What policies make of it; a refusal when with the defaults they give it could not be admitted."""
        spec = self.sized(request.spec)
        if not self.is_judged(who.tenant):
            return PolicyVerdict(spec=spec)
        judged = self._judging.judge(
            Submission(
                who,
                spec,
                tasks=tasks,
                is_retry=request.retry_of is not None,
                at=self._clock.wall(),
                cost=lambda: self._estimates.of(who, spec).cost,
                tenant=lambda: self._quotas.numbers(who.tenant),
            )
        )
        if judged.spec is not spec and isinstance(unfit := self.known.of(judged.spec).admitted, Refusal):
            message = f"with the defaults that policies give it: {unfit.message}"
            return replace(unfit, message=message)
        return judged

    # ---- of jobs that were admitted before

    def submitted(self, state: JobState) -> JobSpec:
        """The specification of a live job, as it was submitted."""
        return self._view.decode_spec(self._view.specs[state.array or state.id])

    def estimated(self, state: JobState, spec: JobSpec) -> Estimated:
        """What the job will take if it asks for this."""
        return self._estimates.of_account(account_of(state), spec)

    def reservation_refusal(self, who: Principal, spec: JobSpec) -> Refusal | None:
        return self._not_in(who, spec)

    def _no_new(self, who: Principal, judged: PolicyVerdict) -> Refusal | None:
        """Why the job would be refused if it is new, though nothing is wrong with it."""
        if judged.rejected is not None:
            return refused_by(judged.rejected)
        spec = judged.spec
        no = too_late(spec, self._clock.wall()) or self._not_in(who, spec)
        no = no or not_tolerable(who.tenant, spec)
        no = no or unavailable(who.tenant, spec, self._view.kept.secrets)
        no = no or refused(who.tenant, spec, self._view.kept.channels)
        return no or self._deadlines.unknown(spec)

    def _not_in(self, who: Principal, spec: JobSpec) -> Refusal | None:
        """Why it may not run in the reservation it names."""
        if spec.reservation is None:
            return None
        reservation, _ = self._view.reservations.get(spec.reservation, (None, 0))
        return refusal(reservation, spec, Submitter(who.tenant, who.subject), self._clock.wall())

    def claim(
        self, tenant: str, request_id: str | None, digest: str, new_id: str, kept: str
    ) -> tuple[tuple[Compare, ...], tuple[Op, ...]]:
        """The part of the transaction that makes a request id take effect once."""
        if request_id is None:
            # The fresh id stands in: after an unknown outcome the same bytes can be sent again safely.
            return (Compare(keys.job(tenant, new_id), "mod_revision", 0),), ()
        key = keys.request(tenant, request_id)
        record = RequestRecord(job=new_id, payload_sha256=digest, kept_sha256=kept)
        return (Compare(key, "mod_revision", 0),), (Put(key, self.encode(record)),)


def kept_digest(request: SubmitRequest, judged: JobSpec) -> str:
    """Of what is kept under a request id, where that is not what the client sent."""
    if request.request_id is None or judged is request.spec or judged == request.spec:
        return ""
    return payload_sha256(judged)
