"""What a rule is: it looks at steps, commits or other events in their order, and says what is wrong."""

from typing import Any, ClassVar

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Event, Violation
from ares.check.invariants.scene import Scene


class Rule:
    """Everything is offered after `books` and `scene` have taken it. A rule overrides what it looks at."""

    id: ClassVar[str]
    title: ClassVar[str]
    # The events that `hear` is called with, and the kinds of keys that `note` is.
    hears: ClassVar[tuple[type, ...]] = ()
    notes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        self.books = books
        self.scene = scene
        # How often the promise was really put to the test.
        self.tested = 0
        self.broken: list[Violation] = []

    def step(self, step: CommittedStep) -> None:
        """What a commit did to one job."""

    def note(self, name: Any, before: Any, after: Any) -> None:
        """A key of one of `notes` was written: from what, to what; None where there is nothing. After all steps."""

    def hear(self, event: Event) -> None:
        """One of `hears`."""

    def restored(self) -> None:
        """The store is as it was once: what was only committed later never happened."""

    def finish(self) -> None:
        """The history is over."""

    def blame(self, job: str, what: str) -> None:
        books = self.books
        self.broken.append(Violation(self.id, books.t, job, what, books.revision))
