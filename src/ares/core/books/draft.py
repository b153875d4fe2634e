"""A day of one tenant, summed up from the jobs that are known, some at a time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Final

from msgspec.structs import replace

from ares.core.books import waits
from ares.core.books.days import day_end, day_of, day_start
from ares.core.books.lines import BookSum
from ares.core.lifecycle.deadline import outcome
from ares.core.lifecycle.usage_report import cluster_of, parts_of
from ares.model.books.book import BookLine, MissedDeadline, SlaLine, TenantBook
from ares.model.state import TERMINAL, JobState, Phase, Spent

_WORST_MAX: Final = 20
_CAUSE_MAX: Final = 200
# The class of jobs with a deadline of their own.
OWN: Final = "(own)"


def book_day(state: JobState) -> str:
    """The day on which a job that ended is counted."""
    return state.book_day or day_of(state.ended_at or 0.0)


class DayDraft:
    """`opening` is what the day before has accrued; None before the first book: then it is told from the jobs, as well
    as it can be. `until` is when the day ends, or now while it is not over."""

    def __init__(self, tenant: str, day: str, until: float, opening: Sequence[BookLine] | None) -> None:
        self._tenant = tenant
        self.day = day
        self._until = min(until, day_end(day))
        self._start = day_start(day)
        self._first = opening is None
        self._settled, self._accrued, self._opening = BookSum(), BookSum(), BookSum()
        self._opening.add_lines(opening or ())
        self._ended = Counter[Phase]()
        self._failures = Counter[str]()
        # By class and cluster.
        self._sla: dict[tuple[str, str], Counter[str]] = {}
        self._elsewhere = Counter[str]()
        self._waits: list[float] = []
        self._worst: list[MissedDeadline] = []

    def add(self, states: Iterable[JobState]) -> None:
        for state in states:
            if state.phase not in TERMINAL:
                self._live(state)
            elif (state.ended_at or 0.0) >= self._start or state.book_day:
                self._over(state)

    def _live(self, state: JobState) -> None:
        if (state.bound_at is None and not state.spent) or cluster_of(state):
            return
        team = state.team or ""
        self._accrued.add(team, parts_of(state, self._until))
        if self._first:
            self._opening.add(team, parts_of(state, self._start))

    def _over(self, state: JobState) -> None:
        day, team = book_day(state), state.team or ""
        if day < self.day:
            return
        if cluster_of(state):
            # What it used is in the books of its cluster; whether its promise was kept is judged here.
            if day == self.day:
                self._note(state)
            return
        parts = parts_of(state, self._until)
        if day > self.day:
            # It ended after the day: the part of its use that lay before.
            self._accrued.add(team, _part_until(state, parts, self._until))
        else:
            self._settled.add(team, parts)
            self._note(state)
        if self._first:
            self._opening.add(team, _part_until(state, parts, self._start))

    def _note(self, state: JobState) -> None:
        self._ended[state.phase] += 1
        if cluster := cluster_of(state):
            self._elsewhere[cluster] += 1
        if state.phase == "FAILED":
            self._failures[(state.exit.failure if state.exit is not None else None) or "other"] += 1
        first = state.first_started_at or state.started_at
        if first is not None:
            self._waits.append(max(0.0, first - state.submitted_at))
        if state.deadline_at is None and state.start_by_at is None:
            return
        verdict = outcome(state) or "excluded"
        self._sla.setdefault((state.sla or OWN, cluster), Counter())[verdict] += 1
        if verdict == "missed":
            self._worst.append(_missed(state))
            if len(self._worst) > 10 * _WORST_MAX:
                self._worst = nlargest(_WORST_MAX, self._worst, key=_late)

    def book(self) -> TenantBook:
        return TenantBook(
            tenant=self._tenant,
            day=self.day,
            settled=self._settled.lines(),
            accrued=self._accrued.lines(),
            opening=self._opening.lines(),
            ended=dict(sorted(self._ended.items())),
            elsewhere=dict(sorted(self._elsewhere.items())),
            failures=dict(sorted(self._failures.items())),
            sla=tuple(
                SlaLine(name=name, cluster=cluster, **counts) for (name, cluster), counts in sorted(self._sla.items())
            ),
            waits=waits.counted(self._waits),
            worst=tuple(nlargest(_WORST_MAX, self._worst, key=_late)),
        )


def is_empty(book: TenantBook) -> bool:
    """Whether there is nothing to keep of the day."""
    return not (book.settled or book.accrued or book.opening or book.ended)


def used_on_the_day(book: TenantBook) -> tuple[BookLine, ...]:
    """An amount may be below nothing: what ran at the end of the day before has since become useful or lost."""
    found = BookSum()
    found.add_lines(book.settled)
    found.add_lines(book.accrued)
    found.add_lines(book.opening, -1)
    return found.lines()


def _part_until(state: JobState, parts: Sequence[Spent], moment: float) -> list[Spent]:
    """What of a job that has ended was used before, as if it had used it evenly during its last attempt."""
    began, ended = state.bound_at, state.ended_at
    if began is None or ended is None or began >= moment or ended <= began:
        return []
    share = min(1.0, (moment - began) / (ended - began))
    return [
        replace(
            part,
            gpu_s=share * part.gpu_s,
            cpu_s=share * part.cpu_s,
            energy_j=share * part.energy_j,
            cost=share * part.cost,
            fate="open",
        )
        for part in parts
    ]


def _missed(state: JobState) -> MissedDeadline:
    late_s = 0.0
    if state.deadline_at is not None and state.ended_at is not None:
        late_s = max(late_s, state.ended_at - state.deadline_at)
    if state.start_by_at is not None and (began := state.first_started_at or state.ended_at) is not None:
        late_s = max(late_s, began - state.start_by_at)
    cause = state.reason or (state.exit.message if state.exit is not None else "") or state.phase.lower()
    return MissedDeadline(
        job=state.id, name=state.name, sla=state.sla or "", late_s=round(late_s, 3), cause=cause[:_CAUSE_MAX]
    )


def _late(missed: MissedDeadline) -> tuple[float, str]:
    return missed.late_s, missed.job
