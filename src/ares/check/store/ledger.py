"""A job's ledger, told again from its first entry: what may follow what, and which fence and attempt come of it.

The tables are written from the promises (docs/concepts/lifecycle.md, docs/concepts/exactly-once.md), not from the
code that keeps them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ares.model.state import TERMINAL, Fence, LedgerEvent

_ENDS = {"succeeded", "failed", "cancelled", "unknown", "unmet"}
_OF_AN_ATTEMPT = {
    "started", "rank-started", "rank-exited", "succeeded", "failed", "retrying", "restarted", "lease-lost",
    "preempted", "requeue-requested", "updated", "cancelled", "released", "checkpointed", "checkpoint-damaged",
}  # fmt: skip
# Which entries may come next in a phase.
_NEXT: dict[str, set[str]] = {
    "": {"submitted"},
    "WAITING": {"held", "unheld", "ready", "overdue", "unmet", "updated", "cancelled"},
    "PENDING": {"bound", "preempting", "updated", "cancelled", "held"},
    "STAGING": _OF_AN_ATTEMPT,
    "RUNNING": _OF_AN_ATTEMPT | {"resized"},
    "RETRYING": {"requeued", "retry-requested", "updated", "released", "cancelled", "held"},
    "PREEMPTED": {"requeued", "updated", "released", "cancelled", "checkpointed"},
    "SUCCEEDED": {"released"},
    "FAILED": {"released"},
    "CANCELLED": {"released"},
    "UNKNOWN": {"released"},
    "SKIPPED": set(),
}
# The loss of a machine, or the end of a gang's last rank, is told together with what becomes of the job, in one step.
_AFTER_LOSS = {"retrying", "failed", "unknown"}
# Where an entry leads.
_LEADS: dict[str, set[str]] = {
    "submitted": {"PENDING", "WAITING"},
    "bound": {"STAGING"},
    "started": {"RUNNING"},
    "rank-started": {"STAGING", "RUNNING"},
    "rank-exited": {"STAGING", "RUNNING", "RETRYING", "FAILED"},
    "resized": {"RUNNING"},
    "succeeded": {"SUCCEEDED"},
    "failed": {"FAILED"},
    "retrying": {"RETRYING"},
    "restarted": {"RETRYING"},
    "lease-lost": {"RETRYING", "FAILED", "UNKNOWN"},
    "preempted": {"PREEMPTED"},
    "requeue-requested": {"PREEMPTED"},
    "checkpointed": {"STAGING", "RUNNING", "PREEMPTED"},
    "checkpoint-damaged": {"STAGING", "RUNNING"},
    "updated": {"WAITING", "PENDING", "STAGING", "RUNNING", "RETRYING", "PREEMPTED"},
    "preempting": {"PENDING"},
    "requeued": {"PENDING"},
    "retry-requested": {"PENDING"},
    "cancelled": {"CANCELLED"},
    "unknown": {"UNKNOWN"},
    "held": {"WAITING"},
    "unheld": {"WAITING", "PENDING"},
    "ready": {"WAITING", "PENDING"},
    "overdue": {"WAITING"},
    "unmet": {"SKIPPED", "FAILED"},
    "released": {"STAGING", "RUNNING", "RETRYING", "PREEMPTED", *TERMINAL},
}
# After these the attempt's fence is no longer the job's.
_REVOKES = {"preempted", "requeue-requested", "retrying", "restarted"}
# After these it may or may not be: it is, when nothing of the attempt is left.
_MAY_REVOKE = {"succeeded", "failed"}
_HOLDING = {"STAGING", "RUNNING"}


class LedgerEnd(msgspec.Struct):
    """Where the ledger leaves the job. `fences`: what its fence can be."""

    phase: str = ""
    attempt: int = 0
    fences: tuple[Fence, ...] = ()
    granted: Fence | None = None
    # How many entries of each kind there are, and of the retries how many of each class.
    kinds: Counter[str] = msgspec.field(default_factory=Counter[str])
    retries: Counter[str] = msgspec.field(default_factory=Counter[str])


def parse_fence(text: str) -> Fence | None:
    epoch, dot, counter = text.partition(".")
    return Fence(epoch=int(epoch), counter=int(counter)) if dot and epoch.isdecimal() and counter.isdecimal() else None


def after(fence: Fence) -> Fence:
    return Fence(epoch=fence.epoch, counter=fence.counter + 1)


def before(fence: Fence) -> Fence:
    return Fence(epoch=fence.epoch, counter=fence.counter - 1)


def replay(ledger: Sequence[LedgerEvent]) -> tuple[LedgerEnd, list[tuple[str, str]]]:
    """What the entries, in their order, make of the job; and what is wrong with them, as (check, words)."""
    told, wrong, last = LedgerEnd(), list[tuple[str, str]](), ""
    for event in ledger:
        wrong += [("ledger", f"entry {event.seq}: {what}") for what in _out_of_turn(told, event, last)]
        wrong += [("fences", f"entry {event.seq}: {what}") for what in _fence(told, event)]
        told.phase, last = event.phase, event.kind
        told.kinds[event.kind] += 1
        if event.kind == "retrying":
            told.retries[str(event.data.get("failure", ""))] += 1
    ends = sum(told.kinds[kind] for kind in _ENDS)
    if ends > 1:
        wrong.append(("ledger", f"it ended {ends} times"))
    return told, wrong


def _out_of_turn(told: LedgerEnd, event: LedgerEvent, last: str) -> Iterator[str]:
    told_before = last == "lease-lost" or (last == "rank-exited" and told.phase not in _HOLDING)
    allowed = _AFTER_LOSS if told_before else _NEXT[told.phase]
    if event.kind not in allowed:
        yield f"{event.kind!r} cannot follow {last!r} in phase {told.phase or 'none'}"
    if event.phase not in _LEADS[event.kind]:
        yield f"{event.kind!r} cannot lead to {event.phase}"
    if event.kind == "bound":
        told.attempt += 1
    if event.attempt != told.attempt:
        yield f"it is of attempt {event.attempt}, {told.attempt} were granted until then"


def _fence(told: LedgerEnd, event: LedgerEvent) -> Iterator[str]:
    fence = parse_fence(event.fence)
    if fence is None:
        yield f"{event.fence!r} is not a fence"
        return
    now = told.fences
    if event.kind == "submitted":
        if fence.counter != 0:
            yield f"a job begins with fence {fence}"
        told.fences = (fence,)
        return
    if event.kind == "bound":
        if not all(earlier < fence and fence.counter == earlier.counter + 1 for earlier in now):
            yield f"fence {fence} was granted after {_or(now)}"
        told.fences, told.granted = (fence,), fence
        return
    expected = _expected(now, event)
    if fence not in expected:
        yield f"{event.kind!r} carries fence {fence}, not {_or(expected)}"
    told.fences = _left(now, fence, event.kind)


def _expected(now: tuple[Fence, ...], event: LedgerEvent) -> tuple[Fence, ...]:
    if event.kind == "cancelled":
        return (*now, *map(after, now))
    if event.kind == "unknown":
        return tuple(map(after, now))
    if event.kind in {"released", "checkpointed"} and event.phase not in _HOLDING:
        return tuple(map(before, now))
    if event.kind == "requeued":
        return (*now, *map(before, now))
    return now


def _left(now: tuple[Fence, ...], fence: Fence, kind: str) -> tuple[Fence, ...]:
    if kind in {"cancelled", "unknown"}:
        return (fence,)
    if kind in _REVOKES:
        return tuple(map(after, now))
    if kind in _MAY_REVOKE:
        return (*now, *map(after, now))
    if kind == "released" and len(now) > 1:
        # Something was left of the attempt, so it was revoked.
        return (after(fence),)
    return now


def _or(fences: Sequence[Fence]) -> str:
    return " or ".join(map(str, fences)) or "none"
