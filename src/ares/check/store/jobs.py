"""Checks of one job: its specification, state, ledger and result agree."""

from collections.abc import Iterator

from ares.check.store.findings import Findings
from ares.check.store.ledger import LedgerEnd, parse_fence, replay
from ares.check.store.reading import JobRecords, StoredRecord
from ares.model.job import FAILURE_CLASSES, FailureClass, JobSpec
from ares.model.state import TERMINAL, Fence, JobState

_WITH_RESULT = {"SUCCEEDED", "FAILED"}
_WAITING = {"PENDING", "PREEMPTED"}
_HOLDING = {"STAGING", "RUNNING"}
MANUAL_RETRIES_MAX = 10
# How often an attempt is repeated for these reasons, unless the job says otherwise; for all others as the job says.
_LIMITS: dict[FailureClass, int] = {"time-limit": 0, "node-lost": 10, "staging": 2}


def check_job(job: JobRecords, spec: JobSpec | None, epoch: int, findings: Findings) -> None:
    """`spec` is the array's for a task."""
    if job.array is not None:
        return
    state = job.the_state
    if state is None:
        if not job.unread:
            _without_state(job, findings)
        return
    name = f"job {job.id}"
    if spec is None and not job.unread:
        findings.wrong("ledger", f"{name} is {state.phase} and has no specification")
    if job.unread:
        findings.notes.append(f"{name} was not judged further: {job.unread} of its records cannot be read")
        return
    findings.looked("ledger", len(job.events))
    findings.looked("fences", len(job.events))
    told, wrong = replay(job.ledger)
    for check, what in wrong:
        findings.wrong(check, f"{name}: {what}")
    for what in (*_whole(job, state), *_agrees(state, told)):
        findings.wrong("ledger", f"{name}: {what}")
    for what in _of_epoch(job, state, epoch):
        findings.wrong("fences", f"{name}: {what}")
    _check_result(job, state, told, findings)
    if spec is not None:
        findings.looked("budgets")
        for what in _over_budget(spec, state, told):
            findings.wrong("budgets", f"{name}: {what}")


def _without_state(job: JobRecords, findings: Findings) -> None:
    """The record of manual retries may outlive its job, and so may a last word about its progress."""
    left = [word for word, found in (("specification", job.spec), ("result", job.result)) if found is not None]
    left += [f"{len(job.events)} ledger entries"] if job.events else []
    if left:
        findings.wrong("ledger", f"job {job.id} of tenant {job.tenant} has no state, and yet {' and '.join(left)}")


def _whole(job: JobRecords, state: JobState) -> Iterator[str]:
    """Nothing is missing, nothing was written over, and what belongs together was written together."""
    numbers = [event.seq for event in job.ledger]
    if numbers != list(range(1, state.seq + 1)):
        missing = sorted(set(range(1, state.seq + 1)) - set(numbers))
        more = sorted(set(numbers) - set(range(1, state.seq + 1)))
        yield (
            f"its state is after {state.seq} entries, its ledger has {len(numbers)}"
            f"{f', without {missing[0]}' if missing else ''}{f', with {more[0]}' if more else ''}"
        )
    written_over = [kept.record.seq for kept in job.events if kept.version != 1]
    if written_over:
        yield f"entry {written_over[0]} was written more than once"
    if job.spec is not None and job.spec.version != 1:
        yield f"its specification was written {job.spec.version} times"
    if not job.events or job.state is None:
        return
    if job.state.version > state.seq:
        yield f"its state was written {job.state.version} times for {state.seq} entries"
    times = [kept.created for kept in job.events]
    if times != sorted(times):
        yield "its entries were not written in their order"
    if job.state.changed != times[-1]:
        yield f"its state is of revision {job.state.changed}, the last entry of {times[-1]}: not of one transaction"
    if job.spec is not None and not job.spec.created == job.state.created == times[0]:
        yield f"it was not created at once: revisions {job.spec.created}, {job.state.created} and {times[0]}"


def _agrees(state: JobState, told: LedgerEnd) -> Iterator[str]:
    """The state is what the ledger says."""
    if not told.kinds:
        return
    if state.phase != told.phase:
        yield f"its state is {state.phase}, its ledger ends with {told.phase}"
    if state.attempt != told.attempt:
        yield f"its state is of attempt {state.attempt}, its ledger has {told.attempt} grants"
    if state.fence not in told.fences:
        yield f"its state has fence {state.fence}, its ledger leads to {' or '.join(map(str, told.fences))}"
    if state.phase in _HOLDING and not state.placements:
        yield f"it is {state.phase} and holds nothing"
    if state.phase not in _WAITING and (state.hold or state.evicting):
        yield f"room is held for it while it is {state.phase}"
    if state.phase in TERMINAL and state.ended_at is None:
        yield f"it is {state.phase} and has no time of its end"


def _of_epoch(job: JobRecords, state: JobState, epoch: int) -> Iterator[str]:
    fences = [fence for event in job.ledger if (fence := parse_fence(event.fence)) is not None]
    highest = max((state.fence, *fences))
    if highest.epoch > epoch:
        yield f"fence {highest} is of an epoch to come, the store is in epoch {epoch}"


# ---- results


def _check_result(job: JobRecords, state: JobState, told: LedgerEnd, findings: Findings) -> None:
    findings.looked("results")
    for what in _result(job.result, state, told, job.events):
        findings.wrong("results", f"job {job.id}: {what}")


def _result(kept: StoredRecord | None, state: JobState, told: LedgerEnd, events: list[StoredRecord]) -> Iterator[str]:
    # A job whose needs were not met has not run.
    if state.phase not in _WITH_RESULT or told.kinds["unmet"]:
        if kept is not None:
            yield f"it is {state.phase} and has a result"
        return
    if kept is None:
        yield f"it is {state.phase} without a result"
        return
    result = kept.record
    if kept.version != 1:
        yield f"its result was written {kept.version} times"
    granted: Fence | None = told.granted
    if result.fence != granted:
        yield f"its result is of fence {result.fence}, the last grant was {granted}"
    if result.attempt != state.attempt:
        yield f"its result is of attempt {result.attempt}, the last was {state.attempt}"
    if result.exit != state.exit:
        yield "its result and its state tell different ends"
    ends = [event.created for event in events if event.record.kind in {"succeeded", "failed"}]
    if ends and kept.created != ends[-1]:
        yield f"its result is of revision {kept.created}, its end of {ends[-1]}: not of one transaction"


# ---- budgets


def _over_budget(spec: JobSpec, state: JobState, told: LedgerEnd) -> Iterator[str]:
    for failure in FAILURE_CLASSES:
        used = state.retries.get(failure, 0)
        limit = spec.retry.class_limits.get(failure, _LIMITS.get(failure, spec.retry.limit))
        if used > limit:
            yield f"{used} retries of class {failure}, {limit} are allowed"
        if used != told.retries[failure]:
            yield f"{used} retries of class {failure} by its state, {told.retries[failure]} by its ledger"
    counted = (
        ("restarts", "restarted"),
        ("preemptions", "preempted"),
        ("requeues", "requeue-requested"),
        ("updates", "updated"),
    )
    for field, kind in counted:
        if getattr(state, field) != told.kinds[kind]:
            yield f"{getattr(state, field)} {field} by its state, {told.kinds[kind]} by its ledger"
    again = sum(state.retries.values()) + state.restarts + state.preemptions + state.requeues
    if told.attempt > 1 + again:
        yield f"{told.attempt} attempts, only {again} were to be repeated"
    by_hand = state.manual_retries - told.kinds["retry-requested"]
    if by_hand < 0 or (by_hand > 0 and state.retry_of is None):
        yield f"{state.manual_retries} retries by hand by its state, {told.kinds['retry-requested']} by its ledger"
    if state.manual_retries > MANUAL_RETRIES_MAX:
        yield f"{state.manual_retries} retries by hand, {MANUAL_RETRIES_MAX} are allowed"
    if told.attempt > 1 and (spec.effects == "unsafe" or spec.restart == "never") and _started_twice(told):
        yield f"{told.attempt} attempts of a job that must not be repeated"


def _started_twice(told: LedgerEnd) -> bool:
    """A try that failed before anything ran may be made again."""
    return told.kinds["started"] > 1
