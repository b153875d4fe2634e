"""E25: a schedule makes one job for each of its moments."""

from itertools import pairwise

from ares.check.invariants.books import LedgerBooks
from ares.check.invariants.history import Ended, Event
from ares.check.invariants.records import Cron
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

_PREFIX = "cron "


class OneFiring(Rule):
    """A schedule notes each moment once, in order. When all is quiet, every job that it made is one that it noted: of a
    moment that made two jobs only one is."""

    id = "E25"
    title = "a schedule makes one job for each moment"
    hears = (Ended,)
    notes = ("/crons/",)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        # Jobs that schedules noted, by (tenant, schedule): the oldest notes are forgotten.
        self._noted: dict[tuple[str, str], set[str]] = {}

    def note(self, name: tuple[str, str], before: Cron | None, after: Cron | None) -> None:
        if after is None:
            self._noted.pop(name, None)
            return
        self.tested += 1
        moments = [firing.at for firing in after.history]
        if any(later <= sooner for sooner, later in pairwise(moments)):
            self.blame(after.name, f"notes its moments as {moments[-5:]}")
        self._noted.setdefault(name, set()).update(firing.job for firing in after.history if firing.outcome == "fired")

    def hear(self, event: Event) -> None:
        assert isinstance(event, Ended)
        if not event.quiet:
            return
        for job, state in self.books.states.items():
            request = state.request_id or ""
            schedule = (state.tenant, request.split(" ")[1]) if request.startswith(_PREFIX) else None
            if schedule in self._noted:
                self.tested += 1
                if job not in self._noted[schedule]:
                    self.blame(job, f"was made under {request!r}, and the schedule knows nothing of it")

    def restored(self) -> None:
        self._noted = {
            name: {firing.job for firing in cron.history if firing.outcome == "fired"}
            for name, cron in self.books.crons.items()
        }
