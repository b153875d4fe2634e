"""Reading and steering jobs, always within the asker's tenant.

Another tenant's job and a job that does not exist are the same answer: None.
"""

from typing import Any

import msgspec

from ares.api.jobs import ChildJob, JobDetail, JobPage
from ares.control.execution.transitions import JobChange, MissingJob, Outcome, Transitions, Written
from ares.control.flow.child_index import ChildIndex
from ares.control.flow.waiting_reasons import WaitingReasons
from ares.control.queries.job_list import JobQuery, Listing, count, whole
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.deadlines import Deadlines
from ares.control.state.cursors import Cursors
from ares.control.state.pacing import LOOKED_AT, breathe
from ares.control.state.view import View
from ares.control.submit.arrays import Expanding
from ares.control.submit.manual_retries import Retries
from ares.control.submit.oom_growth import OomGrowth
from ares.control.submit.submit import AcceptedJob, Submit, SubmitRequest
from ares.core import keys
from ares.core.access.table import reaches, scope_of
from ares.core.lifecycle.inputs import Cancel, HoldBack, LetGo, RetryNow
from ares.core.lifecycle.usage_report import use_of
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.state import (
    TERMINAL,
    ArrayRecord,
    JobState,
    LedgerEvent,
    Phase,
    Result,
)
from ares.ports.clock import Clock
from ares.ports.store import Store

_RESOLVE_MAX = 10
_CHILDREN_SHOWN = 20
# A job that is run again by hand is run now, and by itself.
_NOW = {
    "array": None, "deadline_at": None, "start_by_at": None, "needs": (), "needs_timeout": None, "finally_": False,
    "begin_at": None, "held": False,
}  # fmt: skip
# In place of the command, for callers that may see facts only.
NOT_SHOWN = "(not shown)"


class Jobs:
    """Reads wait until the view holds everything acknowledged before the call."""

    def __init__(
        self,
        store: Store,
        view: View,
        transitions: Transitions,
        submit: Submit,
        expanding: Expanding,
        planner: LiveCluster,
        deadlines: Deadlines,
        reasons: WaitingReasons,
        cursors: Cursors,
        clock: Clock,
        growth: OomGrowth,
        children: ChildIndex,
    ) -> None:
        self._store = store
        self._view = view
        self._transitions = transitions
        self._submit = submit
        self._expanding = expanding
        self._planner = planner
        self._clock = clock
        self._retries = Retries(store)
        self._deadlines = deadlines
        self._growth = growth
        self._children = children
        self.listing = Listing(store, view, planner, deadlines, reasons, cursors, clock)

    # ---- reading

    async def get(self, who: Principal, job_id: str) -> JobDetail | None:
        await self._view.catch_up()
        array = self._view.arrays.get(job_id)
        if array is not None:
            return await self._get_array(who, array)
        state = self._mine(who, job_id)
        spec = None if state is None else await self.listing.spec(state)
        if state is None or spec is None:
            return None
        detail = JobDetail(
            spec=spec,
            state=self.listing.shown(state),
            result=await self._result(state),
            progress=self._view.progress.get(job_id),
            queue_position=await self._position(state),
            waiting=await self.listing.waiting((state,)),
            used=use_of((state,), self._clock.wall()),
            deadline=await self._deadlines.of(state, spec),
            mock_gpus=self.listing.on_mock_gpus(state),
            **self._children_of(job_id),
        )
        return _seen_by(who, detail)

    def _children_of(self, job_id: str) -> dict[str, Any]:
        found = self._children.children(job_id)
        if not found:
            return {}
        newest = tuple(
            ChildJob(id=child.id, name=child.name, phase=child.phase, call=child.child_of.call)
            for child in found[-_CHILDREN_SHOWN:]
            if child.child_of is not None
        )
        return {"child_counts": count(found), "children": newest}

    async def _get_array(self, who: Principal, array: ArrayRecord) -> JobDetail | None:
        kv = await self._store.get(keys.job(array.tenant, array.id))
        if array.tenant != who.tenant or kv is None:
            return None
        tasks = self.listing.tasks(array)
        detail = JobDetail(
            spec=self._view.decode_spec(kv.value),
            state=whole(array, tasks),
            waiting=await self.listing.waiting(tasks),
            array_counts=count(tasks),
            array_throttle=array.throttle,
            used=use_of(tasks, self._clock.wall()),
        )
        return _seen_by(who, detail)

    async def resolve(self, who: Principal, prefix: str) -> tuple[str, ...]:
        """Ids of the tenant's jobs and arrays that begin with `prefix`, newest first, a handful at most."""
        await self._view.catch_up()
        found: list[str] = []
        for place, array in enumerate(tuple(self._view.arrays.values())):
            if array.tenant == who.tenant and array.id.startswith(prefix):
                found.append(array.id)
            if place % LOOKED_AT == LOOKED_AT - 1:
                await breathe()
        for place, (_, job) in enumerate(reversed(tuple(self._view.order.get(who.tenant, ())))):
            if len(found) >= _RESOLVE_MAX:
                break
            if job.startswith(prefix) and ("_" not in job or "_" in prefix):
                found.append(job)
            if place % LOOKED_AT == LOOKED_AT - 1:
                await breathe()
        return tuple(found[:_RESOLVE_MAX])

    async def list(self, who: Principal, query: JobQuery) -> JobPage | Refusal:
        await self._view.catch_up()
        return await self.listing.page(who.tenant, query)

    async def events(self, who: Principal, job_id: str) -> tuple[LedgerEvent, ...] | None:
        """The attempt ledger, oldest first."""
        await self._view.catch_up()
        if self._mine(who, job_id) is None:
            return None
        page = await self._store.range(keys.job_events(who.tenant, job_id))
        return tuple(msgspec.json.decode(kv.value, type=LedgerEvent) for kv in page.kvs)

    def _mine(self, who: Principal, job_id: str) -> JobState | None:
        entry = self._view.entries.get(job_id)
        return None if entry is None or entry.state.tenant != who.tenant else entry.state

    async def _result(self, state: JobState) -> Result | None:
        if state.phase not in TERMINAL:
            return None
        kv = await self._store.get(keys.result(state.tenant, state.id))
        return None if kv is None else msgspec.json.decode(kv.value, type=Result)

    async def _position(self, state: JobState) -> int | None:
        return None if state.phase != "PENDING" else await self._planner.position(state.id)

    # ---- changing

    async def cancel(self, who: Principal, job_id: str, reason: str = "") -> JobState | Refusal | None:
        """Final as soon as this returns. Cancelling an array cancels every task that has not ended."""
        await self._view.catch_up()
        what = Cancel(by=who.subject, reason=reason)
        array = self._view.arrays.get(job_id)
        if array is not None and array.tenant == who.tenant:
            if not reaches(who, "jobs:cancel", array.tenant, array.submitted_by, array.submitter_id):
                return _not_yours(job_id)
            if not array.expanded:
                # A task that does not exist yet would be created later, and run.
                await self._expanding.expand(array)
                await self._view.catch_up()
            tasks = [task for task in self.listing.tasks(array) if task.phase not in TERMINAL]
            await self._transitions.apply([JobChange(task.id, task.tenant, (what,)) for task in tasks])
            return whole(array, self.listing.tasks(array))
        state = self._mine(who, job_id)
        if state is None:
            return None
        if not reaches(who, "jobs:cancel", state.tenant, state.submitted_by, state.submitter_id):
            return _not_yours(job_id)
        (outcome,) = await self._transitions.apply([JobChange(job_id, who.tenant, (what,))])
        if isinstance(outcome, Refusal) and outcome.code == "terminal":
            # The job is cancelled already: a repeated cancel gets the same answer.
            await self._view.catch_up()
            state = self._mine(who, job_id)
            if state is not None and state.phase == "CANCELLED":
                return state
        return _state_of(outcome)

    async def hold(self, who: Principal, job_id: str, reason: str = "") -> JobState | Refusal | None:
        """Keeps a job that has not begun from being started. Of an array, every task that has not begun."""
        return await self._steer(who, job_id, HoldBack(by=who.subject, reason=reason), ("PENDING", "WAITING"))

    async def release(self, who: Principal, job_id: str, reason: str = "") -> JobState | Refusal | None:
        """Lets a held job go on; of an array, every held task."""
        return await self._steer(who, job_id, LetGo(by=who.subject, reason=reason), ("WAITING",))

    async def _steer(
        self, who: Principal, job_id: str, what: HoldBack | LetGo, phases: tuple[Phase, ...]
    ) -> JobState | Refusal | None:
        await self._view.catch_up()
        array = self._view.arrays.get(job_id)
        if array is not None and array.tenant == who.tenant:
            return await self._steer_tasks(who, array, what, phases)
        state = self._mine(who, job_id)
        if state is None:
            return None
        if not reaches(who, "jobs:hold", state.tenant, state.submitted_by, state.submitter_id):
            return _not_yours(job_id)
        (outcome,) = await self._transitions.apply([JobChange(job_id, who.tenant, (what,))])
        return _state_of(outcome)

    async def _steer_tasks(
        self, who: Principal, array: ArrayRecord, what: HoldBack | LetGo, phases: tuple[Phase, ...]
    ) -> JobState | Refusal:
        if not reaches(who, "jobs:hold", array.tenant, array.submitted_by, array.submitter_id):
            return _not_yours(array.id)
        if not array.expanded:
            await self._expanding.expand(array)
            await self._view.catch_up()
        tasks = [task for task in self.listing.tasks(array) if task.phase in phases]
        tasks = [task for task in tasks if bool(task.held_by) == isinstance(what, LetGo)]
        if not tasks:
            kind = "is held" if isinstance(what, LetGo) else "waits and is not held already"
            return Refusal(code="not-allowed", message=f"no task of array {array.id} {kind}")
        await self._transitions.apply([JobChange(task.id, task.tenant, (what,)) for task in tasks])
        return whole(array, self.listing.tasks(array))

    async def retry(
        self, who: Principal, job_id: str, reason: str = "", request_id: str = ""
    ) -> JobState | Refusal | None:
        """A waiting job is tried now; a finished one becomes a new job that points back to it. Under a request id that
        was used before nothing more is done: the answer is the job that came of it."""
        await self._view.catch_up()
        array = self._view.arrays.get(job_id)
        if array is not None and array.tenant == who.tenant:
            return Refusal(code="not-allowed", message=f"{job_id} is an array; retry its tasks, such as {job_id}_0")
        state = self._mine(who, job_id)
        if state is None:
            return None
        if not reaches(who, "jobs:retry", state.tenant, state.submitted_by, state.submitter_id):
            return _not_yours(job_id)
        if request_id and await self._retries.hurried(state, request_id):
            return state
        if state.phase not in TERMINAL:
            if request_id and state.phase == "RETRYING":
                await self._retries.hurry(state, request_id)
            note = await self._grown(state)
            what = RetryNow(by=who.subject, reason=reason, note=note)
            (outcome,) = await self._transitions.apply([JobChange(job_id, who.tenant, (what,))])
            return _state_of(outcome)
        if state.phase == "SUCCEEDED":
            return Refusal(code="not-allowed", message=f"job {job_id} SUCCEEDED; submit it again as a new job instead")
        return await self._retry_finished(who, state, reason, request_id)

    async def _grown(self, state: JobState) -> str:
        """What the ledger says to the memory of the next attempt: as much as it would get after its backoff."""
        if state.phase != "RETRYING" or state.lingering or state.exit is None or state.exit.failure != "oom":
            return ""
        return (await self._growth.grow(state))[1]

    async def _retry_finished(
        self, who: Principal, state: JobState, reason: str, request_id: str
    ) -> JobState | Refusal | None:
        spec = await self.listing.spec(state)
        if spec is None:
            return None
        spent = await self._retries.spend(state, request_id)
        if isinstance(spent, Refusal):
            return spent
        budget, number = spent
        request = SubmitRequest(
            # Its deadline may be over by now. A manual retry is wanted either way.
            spec=msgspec.structs.replace(spec, **_NOW),
            # No client's id may have a space in it, so this id cannot be taken.
            request_id=f"retry {budget.root} {number}" if request_id else None,
            retry_of=budget.root,
            manual_retries=number,
            note=reason,
        )
        (submitted,) = await self._submit.submit(who, [request])
        if not isinstance(submitted, AcceptedJob):
            return submitted
        await self._view.catch_up()
        return self._mine(who, submitted.job)


def _seen_by(who: Principal, detail: JobDetail) -> JobDetail:
    """The job as the caller may see it: operators and auditors see its existence and resources, not its content."""
    if scope_of(who, "jobs:read") != "facts":
        return detail
    spec = msgspec.structs.replace(
        detail.spec, command=(NOT_SHOWN,), env={}, workdir=None, project=None, image=None, labels={}, input_refs=(),
        inputs=(),
    )  # fmt: skip
    result = None if detail.result is None else msgspec.structs.replace(detail.result, value=None, outputs=())
    state = msgspec.structs.replace(detail.state, outputs=())
    return msgspec.structs.replace(detail, spec=spec, state=state, result=result, progress=None, children=())


def _not_yours(job_id: str) -> Refusal:
    return Refusal(code="not-yours", message=f"{job_id} is another user's; ask them or a tenant-admin")


def _state_of(outcome: Outcome) -> JobState | Refusal | None:
    match outcome:
        case Written(state=state):
            return state
        case Refusal():
            return outcome
        case MissingJob() | _:
            return None
