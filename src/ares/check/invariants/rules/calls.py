"""Beside E16: the calls of all clients about a job fit into one order."""

from typing import Any

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Answered, Asked, Event, Restored
from ares.check.invariants.linearizability import RULE, JobCalls
from ares.check.invariants.records import Array, Request
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene


class OneOrder(Rule):
    """Every answer was true at some moment between its question and itself; see `linearizability`."""

    id = RULE
    title = "all calls about a job fit into one order"
    hears = (Asked, Answered, Restored)
    notes = ("/requests/", "/arrays/")

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._calls = JobCalls()

    def hear(self, event: Event) -> None:
        if isinstance(event, Asked | Answered):
            self.tested += isinstance(event, Answered) and event.outcome != "unknown"
            self._calls.hear(event)
        elif isinstance(event, Restored):
            self._calls.restore(event.revision)

    def step(self, step: CommittedStep) -> None:
        if step.wrote:
            self._calls.move(self.books.revision, step.job, step.after)

    def note(self, name: Any, before: object, after: object) -> None:
        if isinstance(after, Request):
            tenant, request = name
            self._calls.note(tenant, request, after.job)
        elif isinstance(after, Array):
            self._calls.leave_out(name)

    def finish(self) -> None:
        self.broken += self._calls.judge()
