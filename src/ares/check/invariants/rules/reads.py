"""E16: no client sees a job go back in time."""

from ares.check.invariants.books import LedgerBooks
from ares.check.invariants.history import Answered, Asked, Event
from ares.check.invariants.records import ENDED
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene


class MonotoneReads(Rule):
    """The sequence number of a job never falls for one client, the same number means the same phase, and an ended job
    stays ended. Reads across clients are checked by `linearizability`."""

    id = "E16"
    title = "a client never sees a job go back"
    hears = (Asked, Answered)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._asked: dict[int, Asked] = {}
        self._seen: dict[tuple[str, str], tuple[int, str]] = {}

    def hear(self, event: Event) -> None:
        if isinstance(event, Asked):
            if event.verb == "get":
                self._asked[event.op] = event
        elif isinstance(event, Answered):
            asked = self._asked.pop(event.op, None)
            if asked is not None and event.outcome == "ok" and event.phase:
                self._shown(asked.client, asked.job, event)

    def _shown(self, client: str, job: str, shown: Answered) -> None:
        earlier = self._seen.get((client, job))
        self._seen[client, job] = (shown.seq, shown.phase)
        if earlier is None:
            return
        self.tested += 1
        seq, phase = earlier
        # An array has no number: it is as far as its tasks.
        if shown.seq < seq or (shown.seq == seq > 0 and shown.phase != phase):
            self.blame(job, f"{client} saw {phase} ({seq}), then {shown.phase} ({shown.seq})")
        elif phase in ENDED and shown.phase != phase:
            self.blame(job, f"{client} saw {phase}, which is final, then {shown.phase}")

    def restored(self) -> None:
        self._seen.clear()
