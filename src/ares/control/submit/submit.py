"""Submission: one transaction writes the request id, the specification, the state and the first event.

What a client was told is durable. A request id seen before gives the same job, or a conflict if the
payload differs; the truth of that is the `/requests` record of the same transaction.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from ares.api.deadlines import DeadlineSeen
from ares.control.governance.alerts import Alerts
from ares.control.scheduler.deadlines import Deadlines
from ares.control.state.commit import Full, Writer, landed, together
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import View
from ares.control.submit.alike import Alike
from ares.control.submit.arrays import Expanding
from ares.control.submit.draft import (
    AcceptedJob,
    Checked,
    Draft,
    Drafting,
    SubmitRequest,
    refused_by,
    unacknowledged,
    unwritten,
)
from ares.control.submit.inputs import InputVersions
from ares.control.submit.parents import ParentChecks
from ares.control.submit.pending_admissions import CreatedJob, Outcome, SeenRequest
from ares.control.submit.projects import Projects
from ares.control.submit.quota_gate import Admissions
from ares.control.submit.restores import Restores
from ares.core import keys
from ares.core.admit.dedup import New, Replayed, payload_sha256, resolve
from ares.core.policy.verdict import PolicyVerdict
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import JobSpec, projects_of
from ares.model.state import RequestRecord
from ares.ports.clock import Clock
from ares.ports.store import KV, TXN_OPS_MAX, Committed, Store, StoreError, Unknown
from ares.ports.telemetry import Telemetry

_ALERT_S = 0.25


class Submit:
    """Admits and writes batches; concurrent batches share transactions and fsyncs."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        view: View,
        deadlines: Deadlines,
        drafting: Drafting,
        expanding: Expanding,
        admissions: Admissions,
        projects: Projects,
        alerts: Alerts,
        telemetry: Telemetry,
        clock: Clock,
        restores: Restores,
    ) -> None:
        self._clock = clock
        self._restores = restores
        self._store = store
        self._writer = writer
        self._view = view
        self._deadlines = deadlines
        self._drafting = drafting
        self._expanding = expanding
        self._admissions = admissions
        self._parents = ParentChecks(view)
        self.inputs = InputVersions(view)
        self._projects = projects
        self._alerts = alerts
        self._raising: set[asyncio.Task[None]] = set()
        self._telemetry = telemetry

    async def submit(
        self, who: Principal, requests: Sequence[SubmitRequest], *, outlooks: bool = False
    ) -> list[AcceptedJob | Refusal]:
        """One outcome per request, in order; with `outlooks` it says of those with a deadline whether they meet it."""
        began = self._clock.monotonic()
        outcomes = await self._submit(who, requests, outlooks)
        self._telemetry.observe("ares_submit_seconds", self._clock.monotonic() - began)
        labels = [_label(outcome) for outcome in outcomes]
        for label in dict.fromkeys(labels):
            self._telemetry.count("ares_submissions_total", labels.count(label), label)
        return outcomes

    def sized(self, spec: JobSpec) -> JobSpec:
        """With the memory it would get, where it does not say."""
        return self._drafting.sized(spec)

    def judged(self, who: Principal, request: SubmitRequest, tasks: int) -> PolicyVerdict | Refusal:
        """What policies would make of it."""
        judged = self._drafting.judged(who, request, tasks)
        if isinstance(judged, Refusal) or judged.rejected is None:
            return judged
        return refused_by(judged.rejected)

    async def _submit(
        self, who: Principal, requests: Sequence[SubmitRequest], outlooks: bool
    ) -> list[AcceptedJob | Refusal]:
        outcomes: dict[int, AcceptedJob | Refusal] = {}

        # 1. Check each request by the rules, by policies and by what there is now. A request id that comes again in a
        #    batch waits for what comes of the first.
        await self._know_all(who, requests)
        checked, repeats, seen = list[tuple[int, Checked]](), list[int](), set[str]()
        alike = Alike(self._drafting, self._view, self._clock, self._telemetry)
        for place, request in enumerate(requests):
            if place and place % WORKED_ON == 0:
                await breathe()
                alike = alike.anew()
            if request.request_id is not None and request.request_id in seen:
                repeats.append(place)
                continue
            if request.request_id is not None:
                seen.add(request.request_id)
            found = alike.check(who, request)
            if isinstance(found, Refusal):
                outcomes[place] = found
            elif found.no is None and _has_files(request.spec):
                checked.append((place, await self._with_files(found)))
                alike = alike.anew()
            else:
                checked.append((place, found))

        # 2. Forecast, once and before they are among those that wait, whether deadlines will be met.
        due = [None if check.no is not None else check.judged.spec for _, check in checked]
        forecasts = await self._deadlines.forecast(who, due, shown=outlooks)

        # 3. Draft what is to be written. What is refused as new may have been taken before.
        await self._count_all(who.tenant, sum(check.tasks for _, check in checked))
        drafts = await self._drafted(checked, forecasts, alike.anew(), outcomes)

        # 4. Commit. Only what is durable is acknowledged.
        outcomes.update(await self._write(who.tenant, drafts))

        await self._tell(who, [draft for place, draft in drafts if _is_new(outcomes[place])])
        await self._tell_soft(who, outcomes.values())
        for place in repeats:
            outcomes[place] = (await self._submit(who, [requests[place]], outlooks))[0]
        return [outcomes[place] for place in range(len(requests))]

    async def _drafted(
        self,
        checked: Sequence[tuple[int, Checked]],
        forecasts: Sequence[DeadlineSeen | None],
        alike: Alike,
        outcomes: dict[int, AcceptedJob | Refusal],
    ) -> list[tuple[int, Draft]]:
        """What is to be written. `outcomes` gets what came of the others."""
        drafts: list[tuple[int, Draft]] = []
        fresh = 0
        for number, ((place, check), deadline) in enumerate(zip(checked, forecasts, strict=True)):
            if number and number % WORKED_ON == 0:
                await breathe()
                alike = alike.anew()
            drafted = check.no or alike.draft(check, fresh, deadline, number, len(checked))
            if check.restores is not None:
                drafted, alike = await self._restores.adopt(drafted), alike.anew()
            if isinstance(drafted, Refusal):
                outcomes[place], alike = await self._unless_seen(check, drafted), alike.anew()
            else:
                fresh += check.tasks
                drafts.append((place, drafted))
        return drafts

    async def _with_files(self, found: Checked) -> Checked:
        """With the versions of the datasets it reads and the checkpoint it goes on from; refused when they or the files
        it starts with are not here."""
        found = await self.inputs.given(found)
        if found.no is not None:
            return found
        tenant, spec = found.who.tenant, found.judged.spec
        no = await self._projects.unknown(tenant, spec)
        if no is not None or spec.restore_from is None:
            return found._replace(no=no)
        record = await self._restores.find(tenant, spec.restore_from)
        return found._replace(no=record) if isinstance(record, Refusal) else found._replace(restores=record)

    async def _know_all(self, who: Principal, requests: Sequence[SubmitRequest]) -> None:
        """What a request names may have been made through another replica a moment ago."""
        known, classes, secrets = self._view.reservations, self._deadlines.classes, self._view.kept.secrets
        if any(
            request.spec.reservation not in (None, *known)
            or request.spec.sla not in (None, *classes)
            or any(f"{who.tenant}/{ref.name}" not in secrets for ref in request.spec.secrets)
            or (request.spec.needs and not self._parents.known(who.tenant, request.spec))
            or request.spec.notify
            for request in requests
        ):
            await self._view.catch_up()

    async def _count_all(self, tenant: str, tasks: int) -> None:
        """Jobs that were acknowledged here and that the view has not shown yet count too, where that could matter."""
        behind = self._writer.revision - self._view.revision
        if behind > 0 and self._drafting.no_room(tenant, tasks + behind * TXN_OPS_MAX) is not None:
            await self._view.catch_up()

    async def _tell(self, who: Principal, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            for said in draft.checked.judged.alerts:
                text = f"job {draft.job} of {who.tenant}: {said.message} ({said.by_values})"
                await self._raise("policy", said.tenant, said.policy, text)

    async def _tell_soft(self, who: Principal, outcomes: Iterable[AcceptedJob | Refusal]) -> None:
        passed = {text for outcome in outcomes if isinstance(outcome, AcceptedJob) for text in outcome.soft_limits}
        if passed:
            await self._raise("quota-soft", who.tenant, who.tenant, min(passed))

    async def _raise(self, kind: str, tenant: str, subject: str, text: str) -> None:
        """Raises an alert in the background: the job exists already, and its client need not wait for a slow store."""
        task = asyncio.create_task(self._alerts.raise_(kind, tenant, subject, text), name="alert")
        self._raising.add(task)
        task.add_done_callback(self._raising.discard)
        await asyncio.wait({task}, timeout=_ALERT_S)

    async def _unless_seen(self, checked: Checked, no: Refusal, draft: Draft | None = None) -> AcceptedJob | Refusal:
        """What was taken in before is still known when nothing new would be."""
        request_id = checked.request.request_id
        if request_id is not None:
            with contextlib.suppress(StoreError):
                kv = await self._store.get(keys.request(checked.who.tenant, request_id))
                if kv is not None:
                    return await self._seen(checked, kv, draft)
        return no

    # ---- writing

    async def claim(self, tenant: str, draft: Draft) -> AcceptedJob | Refusal:
        """Writes the header of a workflow under its request id, where its tenant's quota has room for all of it."""
        return (await self._write(tenant, [(0, draft)]))[0]

    async def _write(self, tenant: str, drafts: list[tuple[int, Draft]]) -> dict[int, AcceptedJob | Refusal]:
        outcomes: dict[int, AcceptedJob | Refusal] = {}
        if not self._admissions.limited(tenant):
            outcomes = await self._create(tenant, drafts)
            # The tenant has got a quota meanwhile.
            drafts = [(place, draft) for place, draft in drafts if place not in outcomes]
        if drafts:
            admitted = await self._admissions.admit(tenant, [draft for _, draft in drafts])
            settled = await together(
                [self._settle_admitted(draft, outcome) for (_, draft), outcome in zip(drafts, admitted, strict=True)]
            )
            outcomes.update(zip((place for place, _ in drafts), settled, strict=True))
        return outcomes

    async def _create(self, tenant: str, drafts: list[tuple[int, Draft]]) -> dict[int, AcceptedJob | Refusal]:
        """Without those that need room in a quota."""
        written = await self._writer.create([draft for _, draft in drafts], (self._admissions.unlimited(tenant),))
        outcomes: dict[int, AcceptedJob | Refusal] = {}
        waiting: list[tuple[int, Coroutine[Any, Any, AcceptedJob | Refusal | None]]] = []
        for (place, draft), outcome in zip(drafts, written, strict=True):
            if landed(outcome) and draft.array is None:
                outcomes[place] = _new(draft)
            else:
                waiting.append((place, self._settle(draft, outcome)))
        if waiting:
            settled = await together([settling for _, settling in waiting])
            found = zip((place for place, _ in waiting), settled, strict=True)
            outcomes |= {place: outcome for place, outcome in found if outcome is not None}
        return outcomes

    async def _settle_admitted(self, draft: Draft, outcome: Outcome) -> AcceptedJob | Refusal:
        match outcome:
            case CreatedJob(passed):
                return msgspec.structs.replace(await self._created(draft), soft_limits=passed)
            case SeenRequest(kv):
                return await self._found(draft, kv)
            case Refusal():
                return await self._unless_seen(draft.checked, outcome, draft)

    async def _settle(self, draft: Draft, written: Committed | Unknown | Full) -> AcceptedJob | Refusal | None:
        """None when what the draft is to be written under does not hold any more."""
        if not isinstance(written, Committed):
            return unwritten(written, draft.request)
        if written.succeeded:
            return await self._created(draft)
        kv = written.gets[0]
        if kv is None:
            await self._view.reach(written.revision)
            return self._drafting.parents_gone(draft)
        return await self._found(draft, kv)

    async def _found(self, draft: Draft, kv: KV) -> AcceptedJob | Refusal:
        """What is there under the key that only a new job may write."""
        if draft.request.request_id is None:
            # The id is random, so no other job has it: an earlier try was written.
            return await self._created(draft)
        return await self._seen(draft.checked, kv, draft)

    async def _seen(self, checked: Checked, kv: KV, draft: Draft | None) -> AcceptedJob | Refusal:
        """What the record kept under the request id means for this request."""
        seen = msgspec.json.decode(kv.value, type=RequestRecord)
        match resolve(seen, payload_sha256(checked.request.spec) if draft is None else draft.digest):
            case Replayed(job=job) if draft is not None and job == draft.job:
                # An earlier try of this very call had landed.
                return await self._created(draft)
            case Replayed(job=job):
                # The same payload has the same number of tasks.
                return AcceptedJob(job=job, replayed=True, tasks=checked.tasks, warnings=checked.judged.warnings)
            case Refusal() as conflict:
                return conflict
            case New():
                return unacknowledged(checked.request)

    async def _created(self, draft: Draft) -> AcceptedJob:
        if draft.array is None:
            return _new(draft)
        # The array is durable already; should this fail, the leader finishes its tasks.
        with contextlib.suppress(StoreError):
            await self._expanding.expand(draft.array)
        return _new(draft)


def _has_files(spec: JobSpec) -> bool:
    return bool(spec.inputs or projects_of(spec)) or spec.restore_from is not None


def _new(draft: Draft) -> AcceptedJob:
    checked = draft.checked
    return AcceptedJob(
        job=draft.job,
        replayed=False,
        tasks=checked.tasks,
        warnings=checked.judged.warnings,
        deadline=draft.deadline,
    )


def _is_new(outcome: AcceptedJob | Refusal) -> bool:
    return isinstance(outcome, AcceptedJob) and not outcome.replayed


def _label(outcome: AcceptedJob | Refusal) -> str:
    if isinstance(outcome, Refusal):
        return "rejected"
    return "replayed" if outcome.replayed else "created"
