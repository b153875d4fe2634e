"""Submission: one transaction writes the request id, the specification, the state and the first event.

What a client was told is durable. A request id seen before gives the same job, or a conflict if the
payload differs; the truth of that is the `/requests` record of the same transaction.
"""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from ares.core import keys
from ares.core.admit.arrays import indices
from ares.core.admit.decide import decide, too_late
from ares.core.admit.dedup import Conflict, New, Replayed, payload_sha256, resolve
from ares.core.admit.verdict import Rejected as NotAdmitted
from ares.core.reserve.use import Submitter, refusal
from ares.core.run.inputs import Context, Stepped
from ares.core.run.lifecycle import begin
from ares.model.access import Principal
from ares.model.base import Record, RequestId
from ares.model.job import JobSpec
from ares.model.state import ArrayRecord, RequestRecord
from ares.ports.clock import Clock, Rng
from ares.ports.store import (
    KV,
    TXN_OPS_MAX,
    VALUE_BYTES_MAX,
    Committed,
    Compare,
    Get,
    Op,
    Put,
    Store,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unknown,
)
from ares.ports.telemetry import Telemetry
from ares.services.deadlines import Deadlines
from ares.services.ids import job_id
from ares.services.packing import packs
from ares.services.view import View

_UNKNOWN_TRIES = 5
_UNKNOWN_PAUSE_S = 0.1
# No try begins later than this: the caller is to be told before it stops waiting, and decides itself when to repeat.
_UNKNOWN_FOR_S = 4.0
_OPS_PER_TASK = 2


class SubmitRequest(Record, frozen=True):
    """One job to submit. Without a request id a repeat makes a second job."""

    spec: JobSpec
    request_id: RequestId | None = None
    # W3C traceparent of the caller, if any.
    trace: str = ""
    retry_of: str | None = None
    manual_retries: int = 0
    # Why, in the words of whoever asked; goes into the ledger.
    note: str = ""


class Submitted(Record, frozen=True):
    job: str
    replayed: bool
    tasks: int = 1


class Rejected(Record, frozen=True):
    """Nothing was changed, or with "store-unavailable" nobody knows. `code` is stable; `fix` says what to do next."""

    code: str
    message: str
    fix: str = ""
    retry_after_s: float | None = None


class _Draft(msgspec.Struct, frozen=True, gc=False):
    """An admitted request, encoded: `ops` are written only if `compares` hold."""

    request: SubmitRequest
    digest: str
    job: str
    ops: tuple[Op, ...]
    compares: tuple[Compare, ...]
    array: ArrayRecord | None = None

    @property
    def tasks(self) -> int:
        return 1 if self.array is None else self.array.tasks

    @property
    def subject(self) -> str | None:
        """Arrays go alone: their tasks follow."""
        return self.job if self.array is None else None


_FULL = Rejected(
    code="store-full",
    message="the disk of the store is full; nothing was written",
    fix="have the operator free some space there, then send the same request again",
    retry_after_s=5.0,
)


def _unacknowledged(request: SubmitRequest) -> Rejected:
    """The one answer that does not know whether anything was changed."""
    if request.request_id is None:
        fix = "look for it in the job list before you send it again; with a request id repeats are safe"
    else:
        fix = "send the same request again with the same request id: it will not be doubled"
    message = "the store did not answer, so the job was not acknowledged; it may exist"
    return Rejected(code="store-unavailable", message=message, fix=fix, retry_after_s=1.0)


class Submit:
    """Admits and writes batches; concurrent batches share transactions and fsyncs."""

    def __init__(
        self,
        store: Store,
        view: View,
        deadlines: Deadlines,
        clock: Clock,
        rng: Rng,
        telemetry: Telemetry,
        epoch: int,
        queue_max: int,
    ) -> None:
        self._store = store
        self._deadlines = deadlines
        self._view = view
        self._clock = clock
        self._rng = rng
        self._telemetry = telemetry
        self._epoch = epoch
        self._queue_max = queue_max
        self._encode = msgspec.json.Encoder().encode

    async def submit(self, who: Principal, requests: Sequence[SubmitRequest]) -> list[Submitted | Rejected]:
        """One outcome per request, in order."""
        outcomes = await self._submit(who, requests)
        for outcome in outcomes:
            self._telemetry.count("ares_submissions_total", 1, _label(outcome))
        return outcomes

    async def _submit(self, who: Principal, requests: Sequence[SubmitRequest]) -> list[Submitted | Rejected]:
        outcomes: dict[int, Submitted | Rejected] = {}
        drafts: list[tuple[int, _Draft]] = []
        repeats: list[int] = []
        seen: set[str] = set()
        known, classes = self._view.reservations, self._deadlines.classes
        if any(one.spec.reservation not in (None, *known) or one.spec.sla not in (None, *classes) for one in requests):
            # It may have been made through another replica a moment ago.
            await self._view.catch_up()
        room = self._queue_max - len(self._view.entries)
        for place, request in enumerate(requests):
            if request.request_id is not None and request.request_id in seen:
                repeats.append(place)
                continue
            if request.request_id is not None:
                seen.add(request.request_id)
            drafted = self._draft(who, request)
            if isinstance(drafted, Rejected):
                outcomes[place] = drafted
            elif (no := self._no_new(who, drafted, room)) is not None:
                outcomes[place] = await self._unless_seen(drafted, no)
            else:
                room -= drafted.tasks
                drafts.append((place, drafted))
        for settled in await asyncio.gather(*(self._write_pack(pack) for pack in packs(drafts))):
            outcomes.update(settled)
        for place in repeats:
            outcomes[place] = (await self._submit(who, [requests[place]]))[0]
        return [outcomes[place] for place in range(len(requests))]

    # ---- deciding

    def _draft(self, who: Principal, request: SubmitRequest) -> _Draft | Rejected:
        admitted = decide(request.spec)
        if isinstance(admitted, NotAdmitted):
            return Rejected(code=admitted.code, message=admitted.message, fix=admitted.fix)
        digest = payload_sha256(request.spec)
        new_id = job_id(self._rng, self._clock.wall())
        spec = self._deadlines.dated(request.spec)
        spec_op = Put(keys.job(who.tenant, new_id), self._encode(spec))
        if len(spec_op.value) > VALUE_BYTES_MAX:
            message = f"the job takes {len(spec_op.value):,} bytes to keep, at most {VALUE_BYTES_MAX:,} are allowed"
            return Rejected(code="spec-too-large", message=message, fix="put long input into a file")
        compares, request_ops = self._claim(who, request, digest, new_id)
        trace = self._telemetry.new_trace(request.trace)
        if admitted.indices is not None:
            array = ArrayRecord(
                id=new_id,
                tenant=who.tenant,
                name=request.spec.name,
                indices=request.spec.array or "",
                tasks=len(admitted.indices),
                submitted_by=who.subject,
                trace=trace,
                submitted_at=self._clock.wall(),
                request_id=request.request_id,
            )
            header = Put(keys.array(who.tenant, new_id), self._encode(array))
            return _Draft(request, digest, new_id, (*request_ops, spec_op, header), compares, array=array)
        begun = begin(
            id=new_id,
            tenant=who.tenant,
            spec=spec,
            name=request.spec.name,
            submitted_by=who.subject,
            trace=trace,
            context=self._context(),
            retry_of=request.retry_of,
            manual_retries=request.manual_retries,
            request_id=request.request_id,
            note=request.note,
        )
        return _Draft(request, digest, new_id, (*request_ops, spec_op, *self._begin_ops(begun)), compares)

    def _no_new(self, who: Principal, draft: _Draft, room: int) -> Rejected | None:
        """Why the job would be refused if it is new, though nothing is wrong with it."""
        spec = draft.request.spec
        no = too_late(spec, self._clock.wall()) or self._not_in(who, spec)
        no = no or self._deadlines.unknown(spec) or self._deadlines.strict(who, spec)
        if no is not None:
            return Rejected(code=no.code, message=no.message, fix=no.fix)
        if draft.tasks <= room:
            return None
        return Rejected(
            code="queue-full",
            message=f"{draft.tasks} more do not fit: {self._queue_max - room} of {self._queue_max} jobs are kept",
            fix="wait until finished jobs are removed by retention, or raise limits.jobs_max",
            retry_after_s=5.0,
        )

    def _not_in(self, who: Principal, spec: JobSpec) -> NotAdmitted | None:
        """Why it may not run in the reservation it names."""
        if spec.reservation is None:
            return None
        one, _ = self._view.reservations.get(spec.reservation, (None, 0))
        return refusal(one, spec, Submitter(who.tenant, who.subject, who.name), self._clock.wall())

    async def _unless_seen(self, draft: _Draft, no: Rejected) -> Submitted | Rejected:
        """What was taken in before is still known when nothing new would be."""
        for compare in draft.compares if draft.request.request_id is not None else ():
            with contextlib.suppress(StoreError):
                kv = await self._store.get(compare.key)
                if kv is not None:
                    return await self._seen(draft, kv)
        return no

    def _claim(
        self, who: Principal, request: SubmitRequest, digest: str, new_id: str
    ) -> tuple[tuple[Compare, ...], tuple[Op, ...]]:
        """The part of the transaction that makes a request id take effect once."""
        if request.request_id is None:
            # The fresh id stands in: after an unknown outcome the same bytes can be sent again safely.
            return (Compare(keys.job(who.tenant, new_id), "mod_revision", 0),), ()
        key = keys.request(who.tenant, request.request_id)
        record = RequestRecord(job=new_id, payload_sha256=digest)
        return (Compare(key, "mod_revision", 0),), (Put(key, self._encode(record)),)

    def _begin_ops(self, begun: Stepped) -> tuple[Op, ...]:
        state = begun.state
        puts = [Put(keys.event(e.tenant, e.job, e.seq), self._encode(e)) for e in begun.events]
        return (Put(keys.state(state.tenant, state.id), self._encode(state)), *puts)

    def _context(self) -> Context:
        return Context(now=self._clock.wall(), jitter=0.0, epoch=self._epoch)

    # ---- writing

    async def _write_pack(self, pack: list[tuple[int, _Draft]]) -> dict[int, Submitted | Rejected]:
        until = self._clock.monotonic() + _UNKNOWN_FOR_S
        if len(pack) > 1:
            with contextlib.suppress(StoreFull):
                written = await self._txn([draft for _, draft in pack])
                if isinstance(written, Committed) and written.succeeded:
                    return {place: Submitted(job=draft.job, replayed=False) for place, draft in pack}
        alone = await asyncio.gather(*(self._write_alone(draft, until) for _, draft in pack))
        return {place: outcome for (place, _), outcome in zip(pack, alone, strict=True)}

    async def _write_alone(self, draft: _Draft, until: float) -> Submitted | Rejected:
        for tried in range(_UNKNOWN_TRIES):
            try:
                written = await self._txn([draft])
            except StoreFull:
                # Unless an earlier try may have landed, this one is certain.
                return _unacknowledged(draft.request) if tried else _FULL
            if isinstance(written, Committed):
                return await self._settle(draft, written)
            await self._clock.sleep(_UNKNOWN_PAUSE_S)
            if self._clock.monotonic() >= until:
                break
        return _unacknowledged(draft.request)

    async def _txn(self, drafts: Sequence[_Draft]) -> Committed | Unknown:
        compares = [compare for draft in drafts for compare in draft.compares]
        alone = drafts[0] if len(drafts) == 1 else None
        otherwise = [Get(compare.key) for compare in alone.compares] if alone is not None else []
        began = self._clock.monotonic()
        try:
            written = await self._store.txn(compares, [op for draft in drafts for op in draft.ops], otherwise)
        except StoreFull:
            raise
        except StoreError as error:
            return Unknown(str(error))
        self._telemetry.observe("ares_store_latency_seconds", self._clock.monotonic() - began, "submit")
        return written

    async def _settle(self, draft: _Draft, written: Committed) -> Submitted | Rejected:
        if written.succeeded or draft.request.request_id is None:
            return await self._created(draft)
        return await self._seen(draft, written.gets[0])

    async def _seen(self, draft: _Draft, kv: KV | None) -> Submitted | Rejected:
        """What the record kept under the request id means for this request."""
        seen = None if kv is None else msgspec.json.decode(kv.value, type=RequestRecord)
        match resolve(seen, draft.digest):
            case Replayed(job=job) if job == draft.job:
                # An earlier try of this very call had landed.
                return await self._created(draft)
            case Replayed(job=job):
                # The same payload has the same number of tasks.
                return Submitted(job=job, replayed=True, tasks=draft.tasks)
            case Conflict():
                return Rejected(
                    code="request-conflict",
                    message="this request id was already used with a different payload",
                    fix="use a new request id for a new job, or send the first payload again",
                )
            case New():
                return _unacknowledged(draft.request)

    async def _created(self, draft: _Draft) -> Submitted:
        if draft.array is None:
            return Submitted(job=draft.job, replayed=False)
        # The array is durable already; should this fail, the leader finishes its tasks.
        with contextlib.suppress(StoreError):
            await self.expand(draft.array)
        return Submitted(job=draft.job, replayed=False, tasks=draft.array.tasks)

    # ---- arrays

    async def expand(self, array: ArrayRecord) -> None:
        """Creates the tasks that do not exist yet, then marks the array as whole. Safe to repeat."""
        wanted = indices(array.indices)
        assert isinstance(wanted, tuple), f"array {array.id} was admitted with bad indices {array.indices!r}"
        header = await self._store.get(keys.array(array.tenant, array.id))
        kv = await self._store.get(keys.job(array.tenant, array.id))
        if header is None or kv is None or msgspec.json.decode(header.value, type=ArrayRecord).expanded:
            # Another replica made it whole; its tasks may even be forgotten again.
            return
        # Whoever comes late must not bring back what was forgotten.
        unexpanded = Compare(header.key, "mod_revision", header.mod_revision)
        spec = self._view.decode_spec(kv.value)
        step = TXN_OPS_MAX // _OPS_PER_TASK
        chunks = [wanted[start : start + step] for start in range(0, len(wanted), step)]
        await asyncio.gather(*(self._expand_chunk(array, unexpanded, spec, chunk) for chunk in chunks))
        done = msgspec.structs.replace(array, expanded=True)
        await self._store.txn([unexpanded], [Put(header.key, self._encode(done))])

    async def _expand_chunk(self, array: ArrayRecord, unexpanded: Compare, spec: JobSpec, chunk: Sequence[int]) -> None:
        begun = [self._begin_task(array, spec, index) for index in chunk]
        absent = [Compare(keys.state(array.tenant, b.state.id), "mod_revision", 0) for b in begun]
        written = await self._store.txn([unexpanded, *absent], [op for b in begun for op in self._begin_ops(b)])
        if isinstance(written, Committed) and written.succeeded:
            return
        if len(chunk) > 1:
            for index in chunk:
                await self._expand_chunk(array, unexpanded, spec, [index])
        elif isinstance(written, Unknown):
            # Only a task that is known to exist may be counted when the array is called whole.
            raise StoreUnavailable(f"array {array.id}: task {chunk[0]} is not confirmed: {written.why}")

    def _begin_task(self, array: ArrayRecord, spec: JobSpec, index: int) -> Stepped:
        return begin(
            id=f"{array.id}_{index}",
            tenant=array.tenant,
            spec=spec,
            name=array.name,
            submitted_by=array.submitted_by,
            trace=array.trace,
            context=Context(now=array.submitted_at, jitter=0.0, epoch=self._epoch),
            array=array.id,
            index=index,
        )


def _label(outcome: Submitted | Rejected) -> str:
    if isinstance(outcome, Rejected):
        return "rejected"
    return "replayed" if outcome.replayed else "created"
