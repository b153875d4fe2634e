"""Takes workflows in: a header under the request id, then all jobs, then the mark that it is whole.

The header's transaction is the one that quotas decide. Every job is written WAITING, in transactions that compare the
header; none is released before the header says that all are there. Only then is the workflow acknowledged. When the
submission breaks off, the same request goes on where it stopped; if it does not come, the leader gives the workflow up,
and what exists of it is skipped.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.flow.abandoned import PATIENCE_S
from ares.control.state.commit import few_at_once, overlapped
from ares.control.state.ids import job_id, numbered_id
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import View
from ares.control.submit.arrays import Expanding
from ares.control.submit.draft import Checked, Draft, Drafting, SubmitRequest, begin_ops, unacknowledged
from ares.control.submit.estimates import Estimated
from ares.control.submit.parents import ParentChecks
from ares.control.submit.projects import Projects
from ares.control.submit.submit import Submit
from ares.core import keys
from ares.core.admit.arrays import throttle
from ares.core.admit.dedup import New, Replayed, resolve
from ares.core.lifecycle.graph import begin
from ares.core.lifecycle.inputs import Context
from ares.core.needs.workflow import arranged, renamed
from ares.core.quota.asked import asked_by
from ares.core.quota.counts import to_come
from ares.core.quota.measures import add, times
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.base import Record, RequestId
from ares.model.job import PRIORITIES, JobSpec
from ares.model.state import ArrayRecord, FlowRecord, JobState, RequestRecord
from ares.ports.clock import Clock, Rng
from ares.ports.store import (
    TXN_BYTES_MAX,
    TXN_OPS_MAX,
    VALUE_BYTES_MAX,
    Committed,
    Compare,
    Put,
    Store,
    StoreError,
    StoreUnavailable,
    Unknown,
)
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_CANONICAL = msgspec.json.Encoder(order="deterministic")


class FlowRequest(Record, frozen=True):
    jobs: dict[str, JobSpec]
    name: str = "flow"
    request_id: RequestId | None = None
    trace: str = ""
    retry_of: str | None = None


class AcceptedFlow(Record, frozen=True):
    flow: FlowRecord
    # By their names.
    ids: dict[str, str]
    replayed: bool = False


class _FlowJob(NamedTuple):
    id: str
    spec: JobSpec
    estimated: Estimated
    # Of an array.
    tasks: int | None


class _FlowDraft(NamedTuple):
    """A job, or an array, which has no state. `absent` says that it does not exist yet."""

    absent: Compare
    ops: tuple[Put, ...]
    spec: JobSpec
    state: JobState | None = None


class FlowSubmission:
    def __init__(
        self,
        store: Store,
        view: View,
        submit: Submit,
        drafting: Drafting,
        expanding: Expanding,
        projects: Projects,
        clock: Clock,
        rng: Rng,
        telemetry: Telemetry,
        epoch: int,
    ) -> None:
        self._store = store
        self._view = view
        self._submit = submit
        self._drafting = drafting
        self._expanding = expanding
        self._projects = projects
        self._clock = clock
        self._rng = rng
        self._telemetry = telemetry
        self._epoch = epoch
        self._parents = ParentChecks(view)
        self._encode = msgspec.json.Encoder().encode

    async def submit(self, who: Principal, request: FlowRequest) -> AcceptedFlow | Refusal:
        # 1. Check the whole. What was taken in before is not judged again: there is room for it, and it was allowed.
        workflow = arranged(request.jobs)
        if isinstance(workflow, Refusal):
            return workflow
        before = await self._taken(who, request)
        if isinstance(before, Refusal):
            return before
        if before is not None and before.whole:
            return AcceptedFlow(flow=before, ids=_ids(before, request), replayed=True)

        # 2. Check each job by the rules and by policies. Write the header under the request id, if all of it has room.
        checked = await self._checked(who, request, taken=before is not None)
        if isinstance(checked, Refusal):
            return checked
        header = before or await self._claim(who, request, checked, workflow.outside)
        if isinstance(header, Refusal):
            return header
        ids = _ids(header, request)
        if header.whole:
            return AcceptedFlow(flow=header, ids=ids, replayed=True)

        # 3. Write its jobs, then that it is whole. Only that is acknowledged.
        jobs = [
            _FlowJob(ids[name], _placed(spec, name, ids), estimated, tasks)
            for name, (spec, estimated, tasks) in checked.items()
        ]
        try:
            done = await self._write(header, jobs)
        except StoreError:
            return _unacknowledged(request)
        if isinstance(done, Refusal):
            return done
        return AcceptedFlow(flow=done, ids=ids, replayed=before is not None)

    async def _taken(self, who: Principal, request: FlowRequest) -> FlowRecord | Refusal | None:
        """The workflow that the request id made before; None when it made none yet."""
        if request.request_id is None:
            return None
        try:
            kv = await self._store.get(keys.request(who.tenant, request.request_id))
            seen = None if kv is None else msgspec.json.decode(kv.value, type=RequestRecord)
            match resolve(seen, _digest(request)):
                case Replayed(job=flow_id):
                    return await self._known(who, flow_id)
                case Refusal() as conflict:
                    return conflict
                case New():
                    return None
        except StoreError:
            return _unacknowledged(request)

    # ---- checking

    async def _outside(self, who: Principal, parents: Sequence[str]) -> tuple[Compare, ...] | Refusal:
        if not parents:
            return ()
        await self._view.catch_up()
        return self._parents.of_all(who.tenant, parents)

    async def _checked(
        self, who: Principal, request: FlowRequest, *, taken: bool
    ) -> dict[str, tuple[JobSpec, Estimated, int | None]] | Refusal:
        """Each job as it will be kept. The first that is refused refuses all; of what was taken before, none is."""
        found: dict[str, tuple[JobSpec, Estimated, int | None]] = {}
        tasks, teams = 0, set[str | None]()
        for place, (name, spec) in enumerate(request.jobs.items()):
            if place % WORKED_ON == WORKED_ON - 1:
                await breathe()
            named = spec if spec.name == name else replace(spec, name=name)
            checked = self._drafting.check(who, SubmitRequest(spec=named), in_flow=True)
            if isinstance(checked, Refusal):
                return _of_job(name, checked)
            checked = checked._replace(no=None) if taken else checked
            kept = self._drafting.kept(await self._submit.inputs.given(checked) if spec.inputs else checked)
            if isinstance(kept, Refusal):
                return _of_job(name, kept)
            size = len(self._encode(kept[0]))
            if size > VALUE_BYTES_MAX:
                message = f"job {name!r} takes {size:,} bytes to keep, at most {VALUE_BYTES_MAX:,} are allowed"
                return Refusal(code="spec-too-large", message=message, fix="put long input into a file")
            found[name] = (*kept, checked.indices)
            tasks += checked.tasks
            teams.add(kept[0].team)
        if len(teams) > 1:
            message = f"its jobs count for {len(teams)} teams"
            return Refusal(code="flow-invalid", message=message, fix="name one team in all of them, or none")
        if taken:
            return found
        return self._drafting.no_room(who.tenant, tasks) or await self._projectless(who, request) or found

    async def _projectless(self, who: Principal, request: FlowRequest) -> Refusal | None:
        """The first job whose project is not here. From now on each project counts as used."""
        first = {spec.project: name for name, spec in reversed(request.jobs.items()) if spec.project is not None}
        for name in reversed(first.values()):
            no = await self._projects.unknown(who.tenant, request.jobs[name])
            if no is not None:
                return _of_job(name, no)
        return None

    # ---- the header

    async def _claim(
        self,
        who: Principal,
        request: FlowRequest,
        checked: Mapping[str, tuple[JobSpec, Estimated, int | None]],
        parents: Sequence[str],
    ) -> FlowRecord | Refusal:
        """Written, or as another call of the same request wrote it a moment ago."""
        outside = await self._outside(who, parents)
        if isinstance(outside, Refusal):
            return outside
        flow_id = job_id(self._rng, self._clock.wall())
        draft, header = self._header(who, request, checked, outside, flow_id)
        claimed = await self._submit.claim(who.tenant, draft)
        if isinstance(claimed, Refusal):
            return claimed
        return header if claimed.job == flow_id else await self._known(who, claimed.job)

    def _header(
        self,
        who: Principal,
        request: FlowRequest,
        checked: Mapping[str, tuple[JobSpec, Estimated, int | None]],
        outside: tuple[Compare, ...],
        flow_id: str,
    ) -> tuple[Draft, FlowRecord]:
        asked: dict[str, int] = {}
        for spec, estimated, tasks in checked.values():
            add(asked, times(to_come(asked_by(spec), estimated.seconds, estimated.cost), tasks or 1))
        specs = [spec for spec, _, _ in checked.values()]
        # No client's id may have a space in it, so this one cannot be taken.
        request_id = request.request_id or f"flow {flow_id}"
        digest = _digest(request)
        record = FlowRecord(
            id=flow_id, tenant=who.tenant, name=request.name, jobs=len(checked),
            tasks=sum(tasks or 1 for _, _, tasks in checked.values()), submitted_by=who.subject,
            submitter_id=who.user_id, trace=self._telemetry.new_trace(request.trace),
            submitted_at=self._clock.wall(), request_id=request_id, payload_sha256=digest, team=specs[0].team,
            asked=asked, retry_of=request.retry_of,
        )  # fmt: skip
        claim = Put(
            keys.request(who.tenant, request_id), self._encode(RequestRecord(job=flow_id, payload_sha256=digest))
        )
        compares = (
            Compare(claim.key, "mod_revision", 0), Compare(keys.flow(who.tenant, flow_id), "mod_revision", 0), *outside,
        )  # fmt: skip
        # What a quota looks at besides amounts: the most important of its jobs, and their team.
        stands_for = JobSpec(
            command=("flow",),
            team=record.team,
            priority=PRIORITIES[min(PRIORITIES.index(spec.priority) for spec in specs)],
        )
        judged = self._drafting.unjudged(stands_for)
        as_job = Checked(who, SubmitRequest(spec=stands_for, request_id=request_id), judged, None, None)
        draft = Draft(
            (claim, Put(keys.flow(who.tenant, flow_id), self._encode(record))), compares, as_job, stands_for,
            Estimated(), digest, flow_id, None, None, asked,
        )  # fmt: skip
        return draft, record

    async def _known(self, who: Principal, flow_id: str) -> FlowRecord | Refusal:
        """The workflow that the request id made before."""
        kv = await self._store.get(keys.flow(who.tenant, flow_id))
        if kv is None:
            message = "this request id was already used for a job"
            return Refusal(code="request-conflict", message=message, fix="use a new request id for a workflow")
        record = msgspec.json.decode(kv.value, type=FlowRecord)
        if not record.abandoned:
            return record
        message = f"workflow {record.id} was given up: its submission broke off for more than {PATIENCE_S:.0f} s"
        return Refusal(code="request-conflict", message=message, fix="submit it again with a new request id")

    # ---- its jobs

    async def _write(self, record: FlowRecord, jobs: Sequence[_FlowJob]) -> FlowRecord | Refusal:
        key = keys.flow(record.tenant, record.id)
        kv = await self._store.get(key)
        now = None if kv is None else msgspec.json.decode(kv.value, type=FlowRecord)
        if kv is None or now is None or now.abandoned:
            return Refusal(code="request-conflict", message=f"workflow {record.id} was given up")
        if now.whole:
            return now
        unwhole = Compare(key, "mod_revision", kv.mod_revision)
        await overlapped(lambda part: self._write_part(record, unwhole, part), jobs)
        arrays = [self._array(record, job, job.tasks) for job in jobs if job.tasks is not None]
        for array in arrays:
            await self._expanding.expand(array)
        done = replace(record, whole=True, asked={})
        written = await self._store.txn([unwhole], [Put(key, self._encode(done))])
        if isinstance(written, Committed) and written.succeeded:
            return done
        kv = await self._store.get(key)
        if kv is not None and msgspec.json.decode(kv.value, type=FlowRecord).whole:
            return done
        raise StoreUnavailable(f"workflow {record.id} is not confirmed to be whole")

    async def _write_part(self, record: FlowRecord, unwhole: Compare, jobs: Sequence[_FlowJob]) -> None:
        await few_at_once(lambda chunk: self._write_chunk(record, unwhole, chunk), await self._chunks(record, jobs))

    async def _chunks(self, record: FlowRecord, jobs: Sequence[_FlowJob]) -> list[list[_FlowDraft]]:
        """What each transaction holds."""
        chunks: list[list[_FlowDraft]] = [[]]
        ops_left = bytes_left = 0
        for place, job in enumerate(jobs):
            if place % WORKED_ON == WORKED_ON - 1:
                await breathe()
            draft = self._draft(record, job)
            size = sum([len(op.key) + len(op.value) for op in draft.ops])
            if len(draft.ops) > ops_left or size > bytes_left:
                chunks.append([])
                ops_left, bytes_left = TXN_OPS_MAX - 1, TXN_BYTES_MAX // 2
            chunks[-1].append(draft)
            ops_left, bytes_left = ops_left - len(draft.ops), bytes_left - size
        return [chunk for chunk in chunks if chunk]

    def _draft(self, record: FlowRecord, job: _FlowJob) -> _FlowDraft:
        spec_op = Put(keys.job(record.tenant, job.id), self._encode(job.spec))
        absent = Compare(spec_op.key, "mod_revision", 0)
        if job.tasks is not None:
            array = self._array(record, job, job.tasks)
            return _FlowDraft(absent, (spec_op, Put(keys.array(record.tenant, job.id), self._encode(array))), job.spec)
        begun = begin(
            id=job.id, tenant=record.tenant, spec=job.spec, name=job.spec.name, submitted_by=record.submitted_by,
            submitter_id=record.submitter_id, trace=record.trace,
            context=Context(now=record.submitted_at, jitter=0.0, epoch=self._epoch),
            cost_estimate=job.estimated.cost, estimated_s=job.estimated.seconds, flow=record.id,
        )  # fmt: skip
        return _FlowDraft(absent, (spec_op, *begin_ops(begun, self._encode)), job.spec, begun.state)

    def _array(self, record: FlowRecord, job: _FlowJob, tasks: int) -> ArrayRecord:
        return ArrayRecord(
            id=job.id, tenant=record.tenant, name=job.spec.name, indices=job.spec.array or "", tasks=tasks,
            submitted_by=record.submitted_by, submitter_id=record.submitter_id, trace=record.trace,
            submitted_at=record.submitted_at, cost_estimate=job.estimated.cost, estimated_s=job.estimated.seconds,
            flow=record.id, throttle=throttle(job.spec.array or ""),
        )  # fmt: skip

    async def _write_chunk(self, record: FlowRecord, unwhole: Compare, chunk: Sequence[_FlowDraft]) -> None:
        least = self._view.kept.isolation(record.tenant)
        for draft in chunk:
            if draft.state is not None:
                spec_op, state_op, *_ = draft.ops
                self._view.decoded.expect(draft.state, state_op.value, draft.spec, spec_op.value, least)
        absent = [draft.absent for draft in chunk]
        written = await self._store.txn([unwhole, *absent], [op for draft in chunk for op in draft.ops])
        if isinstance(written, Committed) and written.succeeded:
            return
        if len(chunk) > 1:
            for draft in chunk:
                await self._write_chunk(record, unwhole, [draft])
            return
        if isinstance(written, Unknown) or await self._store.get(absent[0].key) is None:
            # Only a job that is known to exist may be counted when the workflow is called whole.
            raise StoreUnavailable(f"workflow {record.id}: a job of it is not confirmed")


def _digest(request: FlowRequest) -> str:
    return hashlib.sha256(_CANONICAL.encode((request.name, request.jobs))).hexdigest()


def _ids(header: FlowRecord, request: FlowRequest) -> dict[str, str]:
    """By name: the digest does not know in which order a client sends its jobs, and nor do their ids."""
    return {name: numbered_id(header.id, number) for number, name in enumerate(sorted(request.jobs))}


def _of_job(name: str, no: Refusal) -> Refusal:
    path = f"$.jobs.{name}{no.path.removeprefix('$').removeprefix('.spec')}"
    return replace(no, message=f"job {name!r}: {no.message}", path=path)


def _unacknowledged(request: FlowRequest) -> Refusal:
    stands_for = next(iter(request.jobs.values()))
    return unacknowledged(SubmitRequest(spec=stands_for, request_id=request.request_id))


def _placed(spec: JobSpec, name: str, ids: Mapping[str, str]) -> JobSpec:
    """The job as it is kept: what it waits for goes by ids."""
    return replace(spec, name=name, needs=renamed(spec, ids))
