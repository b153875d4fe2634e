"""Whether the calls of all clients about a job fit into one order: the public API is linearizable, job by job.

Where the history has the store's commits, their order is the truth: every state a job was in is known, and what became
of calls without an answer is too. A call must then fit into a moment between its question and its answer. Without
commits the job is a register that the platform may move forward at any time, and a call without an answer may
have happened at any time later, or never.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from ares.check.invariants.history import Answered, Asked, Commit, Event, Restored, Violation
from ares.check.invariants.records import DECODERS, ENDED, Request, State, job_of, kind_of

# ---- one order for operations that overlap in time


S = TypeVar("S")


class TimedOperation(NamedTuple):
    """`ended` is None when the outcome is unknown: the operation may take effect at any later time, or never."""

    began: int
    ended: int | None
    what: Any


class _Mark:
    """The beginning or the end of an operation, in a list from which an operation can be lifted and put back."""

    __slots__ = ("after", "before", "end", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.before: _Mark = self
        self.after: _Mark = self
        # Of a beginning: its end.
        self.end: _Mark | None = None


def misplaced(
    operations: Sequence[TimedOperation], state: S, step: Callable[[S, Any], S | None]
) -> TimedOperation | None:
    """An operation that fits nowhere, or None when there is an order.

    `step` gives the state after an operation, or None where it makes no sense. The one returned is the one that the
    longest attempt did not get past."""
    head = _marks(operations)
    done, taken, tried = 0, list[tuple[_Mark, S]](), set[tuple[int, S]]()
    furthest: tuple[int, _Mark] | None = None
    mark = head.after
    while mark is not head:
        if mark.end is not None:
            new = step(state, operations[mark.number].what)
            key = (done | 1 << mark.number, new)
            if new is not None and key not in tried:
                tried.add((key[0], new))
                taken.append((mark, state))
                done, state = key[0], new
                _lift(mark)
                mark = head.after
            else:
                mark = mark.after
            continue
        if furthest is None or len(taken) >= furthest[0]:
            furthest = (len(taken), mark)
        if not taken:
            return operations[furthest[1].number]
        mark, state = taken.pop()
        done ^= 1 << mark.number
        _put_back(mark)
        mark = mark.after
    return None


def _marks(operations: Sequence[TimedOperation]) -> _Mark:
    """All beginnings and ends in their order, in a ring behind a mark that is neither."""
    rows: list[tuple[int, int, _Mark]] = []
    for number, operation in enumerate(operations):
        begin, end = _Mark(number), _Mark(number)
        begin.end = end
        rows.append((operation.began, 0, begin))
        if operation.ended is not None:
            rows.append((operation.ended, 1, end))
    rows.sort(key=lambda row: row[:2])
    head = _Mark(-1)
    for _, _, mark in rows:
        last = head.before
        last.after = head.before = mark
        mark.before, mark.after = last, head
    return head


def _lift(mark: _Mark) -> None:
    for lifted in (mark, mark.end):
        # An operation of unknown outcome has no end in the ring.
        if lifted is not None:
            lifted.before.after, lifted.after.before = lifted.after, lifted.before


def _put_back(mark: _Mark) -> None:
    for lifted in (mark.end, mark):
        if lifted is not None:
            lifted.before.after = lifted.after.before = lifted


RULE = "linear"
_CONFLICT = "request-conflict"
_ABSENT = "not-found"
# How a job ended of which only that is known.
_SOMEHOW = "ended"
_TERMINAL = "terminal"


class _Call(NamedTuple):
    """One call and how it ended; of an unknown one `answered` is None."""

    asked: Asked
    answered: Answered | None
    began: int
    ended: int | None


class _Seen(NamedTuple):
    """What a job was, between two commits that changed it. Absent with an empty phase."""

    phase: str = ""
    seq: int = 0


def check(events: Iterable[Event]) -> tuple[Violation, ...]:
    """Answers that no order explains; without the store's commits, the first of each job."""
    calls = JobCalls()
    for event in events:
        if isinstance(event, Commit):
            _take(calls, event)
        elif isinstance(event, Asked | Answered):
            calls.hear(event)
        elif isinstance(event, Restored):
            calls.restore(event.revision)
    return calls.judge()


def _take(calls: "JobCalls", commit: Commit) -> None:
    for write in commit.writes:
        kind = kind_of(write.key)
        if kind == "/state/":
            state: State | None = None if write.value is None else DECODERS[kind](write.value)
            calls.move(commit.revision, job_of(write.key), state)
        elif kind == "/requests/" and write.value is not None:
            _, _, tenant, request = write.key.split("/", 3)
            noted: Request = DECODERS[kind](write.value)
            calls.note(tenant, request, noted.job)
        elif kind == "/arrays/":
            calls.leave_out(job_of(write.key))


class JobCalls:
    """Takes calls and commits in their order, and then judges every job that was asked about."""

    def __init__(self) -> None:
        self._place = 0
        self._asked: dict[int, tuple[int, Asked]] = {}
        self._calls: list[_Call] = []
        # Of every job: the place of each commit about it, and what it was from there on.
        self._moves: defaultdict[str, list[tuple[int, _Seen]]] = defaultdict(list)
        self._requests: dict[tuple[str, str], str] = {}
        self._arrays: set[str] = set()
        self._commits: list[tuple[int, str, _Seen]] = []
        self._restored = False

    def hear(self, event: Asked | Answered) -> None:
        self._place += 1
        if isinstance(event, Asked):
            self._asked[event.op] = (self._place, event)
            return
        began, question = self._asked.pop(event.op)
        known = event.outcome != "unknown"
        self._calls.append(_Call(question, event if known else None, began, self._place if known else None))

    def move(self, revision: int, job: str, state: State | None) -> None:
        """A commit wrote the job's record, or removed it."""
        self._place += 1
        seen = _Seen() if state is None else _Seen(state.phase, state.seq)
        self._moves[job].append((self._place, seen))
        self._commits.append((revision, job, seen))

    def note(self, tenant: str, request: str, job: str) -> None:
        self._requests[tenant, request] = job

    def leave_out(self, array: str) -> None:
        """An array has no number: it is as far as its tasks."""
        self._arrays.add(array)

    def restore(self, revision: int) -> None:
        self._place += 1
        self._restored = True
        self._commits = [commit for commit in self._commits if commit[0] <= revision]
        kept = {job: seen for _, job, seen in self._commits}
        for job, moves in self._moves.items():
            if moves[-1][1] != kept.get(job, _Seen()):
                moves.append((self._place, kept.get(job, _Seen())))

    def judge(self) -> tuple[Violation, ...]:
        calls = self._calls + [_Call(question, None, began, None) for began, question in self._asked.values()]
        by_job = self._sort_out(calls)
        found = [violation for job in sorted(by_job) for violation in self._judge(job, by_job[job])]
        return tuple(sorted(found, key=lambda violation: violation.t))

    def _sort_out(self, calls: list[_Call]) -> dict[str, list[_Call]]:
        """By job. A submission is about the job that its request made."""
        by_job: defaultdict[str, list[_Call]] = defaultdict(list)
        for call in calls:
            if call.answered is not None and call.answered.phase and not call.answered.seq:
                self._arrays.add(call.asked.job)
            if call.asked.verb == "submit" and call.answered is not None and call.answered.outcome == "ok":
                self._requests.setdefault((call.asked.tenant, call.asked.request), call.answered.job)
        for call in calls:
            job = call.asked.job
            if call.asked.verb == "submit":
                of_request = self._requests.get((call.asked.tenant, call.asked.request), "")
                told = "" if call.answered is None else call.answered.job
                job = told if not call.asked.request else of_request
            if job and job not in self._arrays:
                by_job[job].append(call)
        return by_job

    # ---- one job

    def _judge(self, job: str, calls: list[_Call]) -> list[Violation]:
        if not self._moves:
            # Without the log it is unknown what a restore took back.
            return [] if self._restored else _judge_by_calls(job, calls)
        moves = self._moves.get(job, [])
        known = _Known([-1, *(place for place, _ in moves)], [_Seen(), *(seen for _, seen in moves)])
        # What became of calls without an answer is in the log.
        return [_blamed(job, call, known.states) for call in calls if not known.explains(call)]


# ---- with the store's log


class _Known(NamedTuple):
    """Every state of a job, and from which place in the history on it was in it.

    No call but a commit changes a state, and the places of commits are known. So calls explain one another nothing: a
    call fits if it fits into any state the job was in between its question and its answer."""

    places: list[int]
    states: list[_Seen]

    def explains(self, call: _Call) -> bool:
        if call.ended is None:
            return True
        first = bisect_right(self.places, call.began) - 1
        last = bisect_right(self.places, call.ended)
        return any(self._fits(call, number) for number in range(first, last))

    def _fits(self, call: _Call, number: int) -> bool:
        """Whether the answer is true of the job as it was then."""
        asked, answer = call.asked, call.answered
        assert answer is not None
        now = self.states[number]
        if answer.outcome == "refused":
            if answer.code == _TERMINAL:
                return now.phase in ENDED
            if answer.code == _ABSENT:
                return not now.phase
            return answer.code != _CONFLICT or bool(now.phase)
        if asked.verb == "submit":
            return bool(now.phase) and (answer.replayed or self.places[1] > call.began)
        if asked.verb == "cancel":
            # By its own commit or by an earlier one: cancelling a cancelled job succeeds.
            return now.phase == "CANCELLED"
        return asked.verb == "retry" or not answer.phase or now == (answer.phase, answer.seq)


# ---- without it


class _Register(NamedTuple):
    """What is known of a job from calls alone: with which payload it was made, and how far it has come at least."""

    payload: str | None = None
    seq: int = 0
    phase: str = ""


_NOTHING = _Register()


def _judge_by_calls(job: str, calls: list[_Call]) -> list[Violation]:
    operations: list[TimedOperation] = []
    unknown: dict[tuple[str, str], TimedOperation] = {}
    for call in calls:
        operation = TimedOperation(call.began, call.ended, call)
        if call.ended is not None:
            operations.append(operation)
        elif call.asked.verb in ("submit", "cancel"):
            # The first of its kind can be placed wherever a later one could.
            name = (call.asked.verb, call.asked.payload)
            if name not in unknown or unknown[name].began > call.began:
                unknown[name] = operation
    found = misplaced([*operations, *unknown.values()], _NOTHING, _moved)
    return [] if found is None else [_blamed(job, found.what, ())]


def _moved(now: _Register, call: _Call) -> _Register | None:
    asked, answer = call.asked, call.answered
    if asked.verb == "submit":
        return _submitted(now, asked.payload, answer)
    if answer is not None and answer.outcome == "refused":
        return _refused(now, answer)
    if now.payload is None:
        # Made by a call that is not in the history.
        now = _Register("", 0, "")
    if asked.verb == "cancel":
        seq = 0 if answer is None else answer.seq
        if now.phase in ("CANCELLED", _SOMEHOW):
            # Asked for again: it is so, and stays as it is.
            return _Register(now.payload, seq or now.seq, "CANCELLED")
        if now.phase in ENDED:
            return None
        return None if seq and seq <= now.seq else _Register(now.payload, seq or now.seq + 1, "CANCELLED")
    if asked.verb == "get" and answer is not None and answer.seq:
        return _shown(now, answer)
    return now


def _submitted(now: _Register, payload: str, answer: Answered | None) -> _Register | None:
    conflict = answer is not None and answer.outcome == "refused" and answer.code == _CONFLICT
    if answer is not None and answer.outcome == "refused" and not conflict:
        return now
    if now.payload is None:
        return None if conflict else _Register(payload, 1, "PENDING")
    return now if (now.payload != payload) == conflict else None


def _refused(now: _Register, answer: Answered) -> _Register | None:
    if answer.code == _ABSENT:
        return now if now.payload is None else None
    if answer.code == _TERMINAL and now.phase not in ENDED:
        return _Register(now.payload or "", now.seq + 1, _SOMEHOW)
    return now


def _shown(now: _Register, answer: Answered) -> _Register | None:
    if now.phase == _SOMEHOW:
        return _Register(now.payload, answer.seq, answer.phase) if answer.phase in ENDED else None
    if answer.seq < now.seq or (answer.seq == now.seq and now.phase not in ("", answer.phase)):
        return None
    if now.phase in ENDED and answer.phase != now.phase:
        return None
    return _Register(now.payload, answer.seq, answer.phase)


# ---- in words


def _blamed(job: str, call: _Call, states: Iterable[_Seen]) -> Violation:
    asked, answer = call.asked, call.answered
    assert answer is not None
    said = " ".join(part for part in (answer.outcome, answer.code, answer.phase) if part)
    been = ", ".join(f"{state.phase} ({state.seq})" for state in states if state.phase)
    what = f"{asked.verb} by {asked.client}, from {asked.t:.2f} to {answer.t:.2f}, was answered {said} ({answer.seq}), "
    return Violation(RULE, answer.t, job, f"{what}which fits nowhere{': it was ' if been else ''}{been}")
