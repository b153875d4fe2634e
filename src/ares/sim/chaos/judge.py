"""Judges a run from outside: what clients were told, what the API shows in the end, and what jobs left on the disk.

Knows nothing of how Ares works. Each rule is a predicate of the contract and says how often it was put to the test.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from ares.api.jobs import JobDetail
from ares.check.invariants.history import Answered, Asked, Back, Event, Healed, Lost, Violation, digest_of
from ares.check.store.findings import Findings
from ares.check.store.jobs import check_job
from ares.check.store.ledger import parse_fence
from ares.check.store.reading import JobRecords, StoredRecord
from ares.model.state import TERMINAL, Fence, LedgerEvent
from ares.sim.chaos.canary import GRACE_S, CanaryMark, Marks
from ares.sim.chaos.plan import ChaosOptions

# What clocks and a scheduler of processes may be off by.
_SLACK_S = 0.5
_KILL_S = 1.0
_TICK_S = 0.02
_ANY_EPOCH = 1 << 62
_OVER = {"succeeded", "failed", "retrying", "restarted", "lease-lost", "cancelled", "preempted", "requeue-requested"}
# What is found wrong with a job's records, by the predicate it breaks.
_OF_RECORDS = {"ledger": "E2", "fences": "E3", "results": "E5", "budgets": "E7"}


class SeenJob(msgspec.Struct, frozen=True):
    """A job as the API shows it in the end."""

    detail: JobDetail
    ledger: tuple[LedgerEvent, ...]


class ChaosCall(msgspec.Struct, frozen=True):
    asked: Asked
    answer: Answered


class ChaosCase(msgspec.Struct):
    """All that is known about a run."""

    options: ChaosOptions
    jobs: dict[str, SeenJob]
    marks: Marks
    events: list[Event]
    # Wall clock less the history's clock; how long this machine itself stood still; machines there are in all.
    wall_offset: float
    stall_s: float = 0.0
    nodes: int = 0
    tested: Counter[str] = msgspec.field(default_factory=Counter[str])
    detection_s: list[float] = msgspec.field(default_factory=list[float])
    recovery_s: list[float] = msgspec.field(default_factory=list[float])

    def calls(self, *verbs: str) -> list[ChaosCall]:
        answers = {event.op: event for event in self.events if isinstance(event, Answered)}
        return [
            ChaosCall(event, answers[event.op])
            for event in self.events
            if isinstance(event, Asked) and event.verb in verbs and event.op in answers
        ]

    def when(self, entry: LedgerEvent) -> float:
        """By the history's clock."""
        return entry.at - self.wall_offset


Found = Iterator[tuple[str, str]]


def judge(case: ChaosCase) -> list[Violation]:
    """Everything that is wrong, by rule."""
    ended = max((event.t for event in case.events), default=0.0)
    found = [Violation(rule, ended, job, what) for rule, job, what in _records(case)]
    for rule, (_, check) in RULES.items():
        if check is not None:
            found += [Violation(rule, ended, job, what) for job, what in check(case)]
    return sorted(found, key=lambda violation: (int(violation.rule[1:]), violation.job))


def _records(case: ChaosCase) -> Iterator[tuple[str, str, str]]:
    """Each job's ledger, state and result, judged as `ares verify` does."""
    for job, seen in case.jobs.items():
        findings, state = Findings(), seen.detail.state
        records = JobRecords(
            tenant=state.tenant,
            id=job,
            spec=_kept(seen.detail.spec),
            state=_kept(state),
            result=None if seen.detail.result is None else _kept(seen.detail.result),
            events=[_kept(entry) for entry in seen.ledger],
        )
        check_job(records, seen.detail.spec, _ANY_EPOCH, findings)
        for check in findings.checks():
            rule = _OF_RECORDS[check.name]
            case.tested[rule] += 1
            for what in check.first:
                yield rule, job, what.partition(": ")[2] or what


def _kept(record: object) -> StoredRecord:
    """The API does not tell when a record was written: that is for `ares verify`."""
    return StoredRecord(record, 1, 1, 1)


# ---- E1


def _dedup(case: ChaosCase) -> Found:
    first: dict[str, str] = {}
    jobs: dict[str, str] = {}
    for call in case.calls("submit"):
        request, payload = call.asked.request, call.asked.payload
        same = first.setdefault(request, payload) == payload
        case.tested["E1"] += 1
        if call.answer.outcome == "ok":
            if not same:
                yield call.answer.job, f"request {request} was accepted with another payload"
            if jobs.setdefault(request, call.answer.job) != call.answer.job:
                yield call.answer.job, f"request {request} made this job, and {jobs[request]}"
        elif same and call.answer.code == "request-conflict":
            yield "", f"request {request} was refused as if its payload were another one"
    for request, job in jobs.items():
        if job not in case.jobs:
            yield job, f"request {request} was acknowledged, and its job is gone"
        elif case.jobs[job].detail.state.request_id != request:
            yield (
                job,
                f"request {request} was answered with it, and it came by {case.jobs[job].detail.state.request_id}",
            )
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for job, seen in case.jobs.items():
        owners[seen.detail.state.request_id or job].append(job)
    for request, made in owners.items():
        if len(made) > 1:
            yield made[0], f"request {request} made {len(made)} jobs: {', '.join(made)}"


# ---- E5


def _result(case: ChaosCase) -> Found:
    for job, seen in case.jobs.items():
        result = seen.detail.result
        if seen.detail.state.phase == "SUCCEEDED" and result is not None and result.value != str(result.fence):
            yield job, f"its result was written by attempt {result.value}, and committed by {result.fence}"
    for call in case.calls("get"):
        job, shown = call.asked.job, call.answer.seen.get("")
        if shown is None:
            continue
        case.tested["E5"] += 1
        if call.answer.phase not in TERMINAL:
            yield job, f"a result was shown while it was {call.answer.phase}"
        result = case.jobs[job].detail.result if job in case.jobs else None
        if result is not None and digest_of(result.value) != shown:
            yield job, "the result that was shown is not the one that is there in the end"


# ---- E9, E10, E18: by marks


def _zombies(case: ChaosCase) -> Found:
    # An attempt ends by itself before its lease does, also when no command reaches it.
    leaves_s = case.options.lease_s + GRACE_S
    for mark in case.marks.attempts:
        taken = _taken_away(case, mark)
        if taken is None:
            continue
        case.tested["E9"] += 1
        # An attempt that lost its machine has ended before that is decided. One told to stop has its grace.
        until = case.when(taken) + _KILL_S + _SLACK_S + case.stall_s
        until += 0.0 if taken.kind == "lease-lost" else leaves_s
        if mark.beats[-1] > until:
            late = mark.beats[-1] - case.when(taken)
            yield mark.job, f"attempt {mark.fence} was still at work {late:.1f} s after {taken.kind!r}"


def _taken_away(case: ChaosCase, mark: CanaryMark) -> LedgerEvent | None:
    seen = case.jobs.get(mark.job)
    begun = False
    for entry in seen.ledger if seen is not None else ():
        begun = begun or (entry.kind == "bound" and entry.fence == mark.fence)
        if begun and entry.kind in {"lease-lost", "cancelled", "preempted", "requeue-requested"}:
            return entry
        if begun and entry.kind in _OVER:
            return None
    return None


def _overlaps(case: ChaosCase) -> Found:
    runs: defaultdict[str, list[tuple[Fence, CanaryMark]]] = defaultdict(list)
    for mark in case.marks.attempts:
        fence = parse_fence(mark.fence)
        if fence is not None:
            runs[mark.job].append((fence, mark))
    for job, attempts in runs.items():
        attempts.sort(key=lambda pair: pair[0])
        for (_, early), (_, late) in pairwise(attempts):
            case.tested["E10"] += 1
            # A machine that stands still cannot end anything in time: that is the one thing that excuses it.
            if early.beats[-1] > late.beats[0] + _TICK_S + case.stall_s:
                yield (
                    job,
                    f"attempt {early.fence} was at work at {early.beats[-1]}, {late.fence} began at {late.beats[0]}",
                )


def _starts(case: ChaosCase) -> Found:
    for name in case.marks.twice:
        job, _, fence = name.partition(".")
        yield job, f"attempt {fence} was started more than once"
    marked = {(mark.job, mark.fence) for mark in case.marks.attempts}
    for job, fence in marked:
        case.tested["E18"] += 1
        seen = case.jobs.get(job)
        granted = {entry.fence for entry in seen.ledger if entry.kind == "bound"} if seen is not None else set[str]()
        if fence not in granted:
            yield job, f"something ran as attempt {fence}, which was never granted"
    for job, seen in case.jobs.items():
        result = seen.detail.result
        if seen.detail.state.phase == "SUCCEEDED" and result is not None and (job, str(result.fence)) not in marked:
            yield job, f"it succeeded by attempt {result.fence}, which never ran"


# ---- E11, E12, E13, E16


def _liveness(case: ChaosCase) -> Found:
    for job, seen in case.jobs.items():
        state = seen.detail.state
        case.tested["E11"] += 1
        if state.phase not in TERMINAL or state.lingering:
            still = "holds its place" if state.phase in TERMINAL else f"is {state.phase}"
            yield job, f"it still {still} {case.options.liveness_s:g} s after the last fault: {state.reason}"


class MachineSilence(msgspec.Struct, frozen=True):
    """A machine renewed nothing in between. `next_at`: when it fell silent again."""

    node: str
    since: float
    until: float
    next_at: float = float("inf")


def silences(events: Sequence[Event]) -> list[MachineSilence]:
    since: dict[str, float] = {}
    found: list[MachineSilence] = []
    for event in events:
        if isinstance(event, Lost):
            since[event.node] = event.t
        elif isinstance(event, Back) and event.node in since:
            found.append(MachineSilence(event.node, since.pop(event.node), event.t))
        elif isinstance(event, Healed):
            found += [MachineSilence(node, t, event.t) for node, t in since.items()]
            since.clear()
    return [replace(silence, next_at=_next(silence, found)) for silence in found]


def _next(silence: MachineSilence, others: Sequence[MachineSilence]) -> float:
    later = (other.since for other in others if other.node == silence.node and other.since > silence.since)
    return min(later, default=float("inf"))


def _recovery(case: ChaosCase) -> Found:
    options = case.options
    bound_s = options.bound_s + case.stall_s + _SLACK_S
    if case.nodes >= 5 and options.agents / case.nodes > 0.2:
        # So many silent machines at once: the leader first suspects its own link, for one lease.
        bound_s += options.lease_s
    by_node: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for job, seen in case.jobs.items():
        for place, entry in enumerate(seen.ledger):
            if entry.kind == "bound":
                by_node[str(entry.data.get("node", ""))].append((job, place))
    for silence in silences(case.events):
        for job, place in by_node[silence.node]:
            yield from _lost_attempt(case, silence, job, place, bound_s)


def _lost_attempt(case: ChaosCase, silence: MachineSilence, job: str, place: int, bound_s: float) -> Found:
    ledger = case.jobs[job].ledger
    over = next((n for n in range(place + 1, len(ledger)) if ledger[n].kind in _OVER), None)
    ends = float("inf") if over is None else case.when(ledger[over])
    if case.when(ledger[place]) > silence.since or ends < silence.since:
        return
    took_s = ends - silence.since
    if over is not None and ledger[over].kind == "lease-lost" and ends <= min(silence.until + bound_s, silence.next_at):
        case.tested["E12"] += 1
        case.detection_s.append(took_s)
        again = next((case.when(entry) for entry in ledger[over:] if entry.kind == "bound"), None)
        if again is not None:
            case.recovery_s.append(again - silence.since)
    if took_s > bound_s and silence.until - silence.since > bound_s:
        late = "not at all" if over is None else f"after {took_s:.1f} s"
        yield (
            job,
            f"{silence.node} fell silent; attempt {ledger[place].fence} was taken away {late}, not in {bound_s:.1f} s",
        )


def _cancels(case: ChaosCase) -> Found:
    for call in case.calls("cancel"):
        job = call.asked.job
        if call.answer.outcome != "ok" or job not in case.jobs:
            continue
        case.tested["E13"] += 1
        seen = case.jobs[job]
        if seen.detail.state.phase != "CANCELLED":
            yield job, f"it was cancelled for certain, and is {seen.detail.state.phase}"
        kinds = [entry.kind for entry in seen.ledger]
        if "cancelled" in kinds and "bound" in kinds[kinds.index("cancelled") :]:
            yield job, "it was granted a place after it was cancelled"


def _reads(case: ChaosCase) -> Found:
    last: dict[tuple[str, str], Answered] = {}
    for call in case.calls("get"):
        if call.answer.outcome != "ok":
            continue
        key = (call.asked.client, call.asked.job)
        before, seen = last.get(key), call.answer
        last[key] = seen
        if before is None:
            continue
        case.tested["E16"] += 1
        if seen.seq < before.seq or (before.phase in TERMINAL and seen.phase != before.phase):
            yield (
                call.asked.job,
                f"{call.asked.client} saw {before.phase} ({before.seq}), then {seen.phase} ({seen.seq})",
            )


RULES: dict[str, tuple[str, Callable[[ChaosCase], Found] | None]] = {
    "E1": ("one job per request id; another payload is refused", _dedup),
    "E2": ("every job ends once, its ledger is whole", None),
    "E3": ("fences grow", None),
    "E5": ("one result, of the last grant, shown only when committed", _result),
    "E7": ("nothing is repeated more often than allowed", None),
    "E9": ("what lost its right to run stops in time", _zombies),
    "E10": ("no two attempts of a job at once", _overlaps),
    "E11": ("everything acknowledged comes to an end", _liveness),
    "E12": ("the loss of a machine is noticed in time", _recovery),
    "E13": ("what is cancelled stays cancelled", _cancels),
    "E16": ("nobody sees a job go back", _reads),
    "E18": ("an attempt is started once, and only if granted", _starts),
}
