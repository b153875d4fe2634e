"""Changing jobs that wait or run: one, an array, or a page of all that fit a filter.

A filter may fit tens of thousands of jobs. A request takes a page of them, and within it small groups, so that other
requests and the scheduler have their turns in between; the caller goes on with the cursor. Each job is changed by
itself: one that cannot be changed does not save the others.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import UNSET
from msgspec.json import encode
from msgspec.structs import replace

from ares.api.updates import BulkAction, BulkAnswer, BulkBody, BulkRefusal, BulkUpdateBody, JobUpdate
from ares.control.execution.transitions import GuardFailed, JobChange, MissingJob, Outcome, Transitions, Written
from ares.control.queries.job_list import JobQuery, Listing, count, whole
from ares.control.state.pacing import breathe
from ares.control.state.records import Records, same
from ares.control.state.view import View
from ares.control.submit.arrays import Expanding
from ares.control.submit.updates import Updates
from ares.core import keys
from ares.core.access.table import reaches
from ares.core.admit.updates import asks
from ares.core.lifecycle.inputs import Cancel, HoldBack, Input, LetGo, SendBack
from ares.core.refusal import Refusal
from ares.model.access import Permission, Principal
from ares.model.state import BOUND, TERMINAL, ArrayRecord, JobState, Phase
from ares.ports.store import Put

# Jobs that are changed together before others have their turn.
_GROUP = 50
_REFUSALS_SHOWN = 20
_LIVE: tuple[Phase, ...] = ("WAITING", "PENDING", "STAGING", "RUNNING", "RETRYING", "PREEMPTED")
# Without a state, those that the action is for.
_MEANT: dict[BulkAction, tuple[Phase, ...]] = {
    "requeue": ("STAGING", "RUNNING"), "hold": ("PENDING", "RETRYING", "WAITING"), "release": ("WAITING",),
}  # fmt: skip
_WAITING = frozenset[Phase]({"WAITING", "PENDING", "RETRYING", "PREEMPTED"})
Steered = Callable[[Sequence[JobState]], Awaitable[list[JobState | Refusal]]]


class Steering:
    def __init__(
        self,
        view: View,
        records: Records,
        listing: Listing,
        transitions: Transitions,
        updates: Updates,
        expanding: Expanding,
    ) -> None:
        self._records = records
        self._view = view
        self._listing = listing
        self._transitions = transitions
        self.updates = updates
        self._expanding = expanding

    # ---- one job, or the tasks of an array

    async def update(self, who: Principal, job_id: str, change: JobUpdate) -> JobState | Refusal | None:
        """What the job asks for from now on. Of an array: every task that waits; the first refusal, if none took it."""
        if change.throttle is not UNSET:
            throttled = await self._throttle(who, job_id, change.throttle)
            change = replace(change, throttle=UNSET)
            if not isinstance(throttled, JobState) or not asks(change):
                return throttled
        return await self._steer(who, job_id, "jobs:update", self._updating(who, change), _WAITING)

    async def _throttle(self, who: Principal, job_id: str, limit: int | None) -> JobState | Refusal | None:
        """How many tasks of an array may hold a place at once. Those that have one keep it."""
        await self._view.catch_up()
        known = self._view.arrays.get(job_id)
        if known is None or known.tenant != who.tenant:
            entry = self._view.entries.get(job_id)
            if entry is None or entry.state.tenant != who.tenant:
                return None
            return Refusal(code="not-allowed", message=f"{job_id} is no array; only arrays are throttled")
        if not reaches(who, "jobs:update", known.tenant, known.submitted_by, known.submitter_id):
            return not_yours(job_id)
        key = keys.array(known.tenant, known.id)

        async def attempt() -> ArrayRecord | Refusal | None:
            found = await self._records.read(key, ArrayRecord)
            if found is None:
                return _gone_array(job_id)
            kv, array = found
            changed = replace(array, throttle=limit)
            done = changed == array or await self._records.ensure([same(kv)], [Put(key, encode(changed))])
            return changed if done else None

        settled = await self._records.settle(f"the throttle of array {job_id}", attempt)
        return settled if isinstance(settled, Refusal) else whole(settled, self._listing.tasks(settled))

    async def requeue(self, who: Principal, job_id: str, reason: str = "") -> JobState | Refusal | None:
        """Sends a running job back to the queue, or every running task of an array."""
        what = SendBack(by=who.subject, reason=reason)
        return await self._steer(who, job_id, "jobs:retry", self._applying(what), BOUND)

    async def _steer(
        self, who: Principal, job_id: str, permission: Permission, steered: Steered, phases: frozenset[Phase]
    ) -> JobState | Refusal | None:
        await self._view.catch_up()
        array = self._view.arrays.get(job_id)
        if array is not None and array.tenant == who.tenant:
            if not reaches(who, permission, array.tenant, array.submitted_by, array.submitter_id):
                return not_yours(job_id)
            return await self._steer_array(array, steered, phases)
        entry = self._view.entries.get(job_id)
        if entry is None or entry.state.tenant != who.tenant:
            return None
        if not _reaches(who, permission, entry.state):
            return not_yours(job_id)
        (outcome,) = await steered([entry.state])
        return outcome

    async def _steer_array(self, array: ArrayRecord, steered: Steered, phases: frozenset[Phase]) -> JobState | Refusal:
        if not array.expanded:
            # A task that does not exist yet would be left as it was.
            await self._expanding.expand(array)
            await self._view.catch_up()
        tasks = [task for task in self._listing.tasks(array) if task.phase in phases]
        outcomes = [done for group in _groups(tasks) for done in await self._group(group, steered)]
        refusals = [outcome for outcome in outcomes if isinstance(outcome, Refusal)]
        if not tasks:
            found = whole(array, self._listing.tasks(array)).phase
            message = f"no task of array {array.id} is {' or '.join(sorted(phases))}; as a whole it is {found}"
            return Refusal(code="terminal" if found in TERMINAL else "not-allowed", message=message)
        if len(refusals) == len(outcomes):
            return refusals[0]
        return whole(array, self._listing.tasks(array))

    # ---- all that fit

    async def cancel_found(self, who: Principal, asked: BulkBody) -> BulkAnswer | Refusal:
        what = Cancel(by=who.subject, reason=asked.reason)
        return await self._bulk(who, asked, "cancel", "jobs:cancel", self._applying(what))

    async def requeue_found(self, who: Principal, asked: BulkBody) -> BulkAnswer | Refusal:
        what = SendBack(by=who.subject, reason=asked.reason)
        return await self._bulk(who, asked, "requeue", "jobs:retry", self._applying(what))

    async def hold_found(self, who: Principal, asked: BulkBody) -> BulkAnswer | Refusal:
        what = HoldBack(by=who.subject, reason=asked.reason)
        return await self._bulk(who, asked, "hold", "jobs:hold", self._applying(what))

    async def release_found(self, who: Principal, asked: BulkBody) -> BulkAnswer | Refusal:
        what = LetGo(by=who.subject, reason=asked.reason)
        return await self._bulk(who, asked, "release", "jobs:hold", self._applying(what))

    async def update_found(self, who: Principal, asked: BulkUpdateBody) -> BulkAnswer | Refusal:
        return await self._bulk(who, asked, "update", "jobs:update", self._updating(who, asked.update))

    async def _bulk(
        self, who: Principal, asked: BulkBody, action: BulkAction, permission: Permission, steered: Steered
    ) -> BulkAnswer | Refusal:
        """Jobs of other users are passed over where the caller may only change its own."""
        await self._view.catch_up()
        fit = asked.filter
        query = JobQuery(
            phases=frozenset(fit.phases or _MEANT.get(action, _LIVE)),
            name=fit.name, labels=fit.labels, array=fit.array, node=fit.node, user=fit.user,
            since=fit.since, until=fit.until, limit=asked.limit, cursor=asked.cursor, bare=True,
        )  # fmt: skip
        found = await self._listing.page(who.tenant, query)
        if isinstance(found, Refusal):
            return found
        mine = [state for state in found.jobs if state.phase not in TERMINAL and _reaches(who, permission, state)]
        changed, refusals = 0, list[BulkRefusal]()
        for group in _groups(mine) if not asked.dry_run else ():
            outcomes = await self._group(group, steered)
            for state, outcome in zip(group, outcomes, strict=True):
                if isinstance(outcome, Refusal):
                    refusals.append(_refused(state, outcome))
                else:
                    changed += 1
        return BulkAnswer(
            action=action, matched=len(mine), changed=changed, refused=len(refusals), phases=count(mine),
            refusals=tuple(refusals[:_REFUSALS_SHOWN]), cursor=found.cursor,
        )  # fmt: skip

    # ---- what is done

    async def _group(self, group: Sequence[JobState], steered: Steered) -> list[JobState | Refusal]:
        outcomes = await steered(group)
        await breathe()
        return outcomes

    def _applying(self, what: Input) -> Steered:
        async def apply(states: Sequence[JobState]) -> list[JobState | Refusal]:
            changes = [JobChange(state.id, state.tenant, (what,)) for state in states]
            outcomes = await self._transitions.apply(changes)
            return [_settled(state, outcome) for state, outcome in zip(states, outcomes, strict=True)]

        return apply

    def _updating(self, who: Principal, change: JobUpdate) -> Steered:
        async def update(states: Sequence[JobState]) -> list[JobState | Refusal]:
            return [await self.updates.update(who, state.id, change) or _gone(state) for state in states]

        return update


def _groups(states: Sequence[JobState]) -> list[Sequence[JobState]]:
    return [states[first : first + _GROUP] for first in range(0, len(states), _GROUP)]


def _reaches(who: Principal, permission: Permission, state: JobState) -> bool:
    return reaches(who, permission, state.tenant, state.submitted_by, state.submitter_id)


def _settled(state: JobState, outcome: Outcome) -> JobState | Refusal:
    match outcome:
        case Written(state=after):
            return after
        case Refusal():
            return outcome
        case MissingJob() | GuardFailed():
            return _gone(state)


def _gone_array(array_id: str) -> Refusal:
    return Refusal(code="terminal", message=f"array {array_id} is gone")


def _refused(state: JobState, no: Refusal) -> BulkRefusal:
    return BulkRefusal(job=state.id, code=no.code, message=no.message, fix=no.fix)


def _gone(state: JobState) -> Refusal:
    return Refusal(code="terminal", message=f"job {state.id} is gone")


def not_yours(job_id: str) -> Refusal:
    return Refusal(code="not-yours", message=f"{job_id} is another user's; ask them or a tenant-admin")
