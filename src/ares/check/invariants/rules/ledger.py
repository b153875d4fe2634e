"""E14 and E15: only the leader grants, and the ledger has every change once."""

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Answered, Asked, Event, Violation
from ares.check.invariants.records import BOUND, Leader, Place, State
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

_BORN = ("PENDING", "WAITING")
# Each of these has its entry; of later ones some.
_CHECKPOINTS_TOLD = 10


class Ownership(Rule):
    """A grant, and the room made for one, is committed only while the leadership it was decided under is in force:
    there is a leader's record, it was there before the commit, and it is the committer's where that is known.
    Leadership is never taken over: a record ends before another begins.

    With federation this becomes: at every revision a job has one owning cluster and epoch, and only that cluster, in
    that epoch, grants it. Today there is one cluster."""

    id = "E14"
    title = "only the leader in force grants"

    notes = ("/leader/",)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        # As of the commit before the present one.
        self._leaders: dict[str, str] = {}

    def note(self, name: str, before: Leader | None, after: Leader | None) -> None:
        self.tested += 1
        self._leaders.pop(name, None)
        if after is not None:
            self._leaders[name] = after.replica
            if before is not None:
                self.blame("", f"{after.replica} leads, and the leadership of {before.replica} had not ended")

    def step(self, step: CommittedStep) -> None:
        for entry in step.entries:
            if entry.kind in ("bound", "preempting") or (entry.kind == "resized" and entry.by == "scheduler"):
                self._decided(step.job, entry.kind)

    def _decided(self, job: str, kind: str) -> None:
        self.tested += 1
        by, leaders = self.books.by, [name for key, name in self._leaders.items() if key in self.books.leaders]
        if not leaders:
            self.blame(job, f"{kind} was committed while nobody led")
        elif by and by not in leaders:
            self.blame(job, f"{kind} was committed by {by} while {' and '.join(leaders)} led")

    def restored(self) -> None:
        self._leaders = {key: leader.replica for key, leader in self.books.leaders.items()}


class Ledger(Rule):
    """Every change of a job comes with exactly its entries, numbered on without holes, written once, kept as long as
    the job. Of checkpoints beyond the tenth only some have one: the job is the same in all else. The ledger and the
    record agree on the ranks that may be alive. Every acknowledged submission, cancel and retry has its entry. No
    tenant's ledger names another's job.

    The hash chain and signed heads come with the audit trail."""

    id = "E15"
    title = "the ledger is whole"
    hears = (Asked, Answered)
    notes = ("/events/",)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._asked: dict[int, Asked] = {}
        self._cancelled: set[str] = set()
        self._retried: set[str] = set()

    def step(self, step: CommittedStep) -> None:
        before, after = step.before, step.after
        if after is None:
            if step.entries:
                self.blame(step.job, f"entry {step.entries[0].seq} was written for a job that is not kept")
            return
        self.tested += 1
        last = 0 if before is None else before.seq
        numbers = [entry.seq for entry in step.entries]
        if not step.wrote:
            if numbers:
                self.blame(step.job, f"entries {numbers} were written without its record")
            return
        if after.seq <= last:
            if numbers or after.seq < last or not _saved_often(before, after):
                self.blame(step.job, f"was changed without an entry: its record says {after.seq} after {last}")
        elif numbers != list(range(last + 1, after.seq + 1)):
            self.blame(step.job, f"entries {numbers} were written, its record went from {last} to {after.seq}")
        elif step.entries[-1].phase != after.phase:
            self.blame(step.job, f"its last entry says {step.entries[-1].phase}, its record {after.phase}")
        self._born(step, after)
        self._who_lives(step, after)
        for entry in step.entries:
            if entry.kind == "cancelled":
                self._cancelled.add(step.job)
            elif entry.kind == "retry-requested":
                self._retried.add(step.job)

    def _born(self, step: CommittedStep, after: State) -> None:
        if step.before is None and (after.phase not in _BORN or after.seq != 1):
            self.blame(step.job, f"was born {after.phase} with entry {after.seq}")

    def _who_lives(self, step: CommittedStep, state: State) -> None:
        held: dict[int, Place] = {}
        if state.phase in BOUND or state.lingering:
            held = {
                place.rank: place
                for place in (*state.placements, *state.leaving)
                if place.rank not in state.ended_ranks
            }  # fmt: skip
        alive = self.books.alive[step.job]
        if held != alive:
            said = ", ".join(f"{rank} on {place.node}" for rank, place in alive.items()) or "nobody"
            record = ", ".join(f"{rank} on {place.node}" for rank, place in held.items()) or "nobody"
            self.blame(step.job, f"may be alive by its record: {record}; by its ledger: {said}")

    def note(self, name: str, before: int, after: None) -> None:
        """`before` is the number of an entry that was removed."""
        if name in self.books.states:
            self.blame(name, f"ledger entry {before} was removed, and the job is kept")

    def finish(self) -> None:
        self.broken += [Violation(self.id, t, job, what, revision) for t, revision, job, what in self.books.odd]
        for tenant, job, words in self.books.mentions:
            self.tested += 1
            for other, whose in self.books.created.items():
                if whose != tenant and other in words:
                    self.blame(job, f"its ledger, which {tenant} reads, names {other} of {whose}")

    def hear(self, event: Event) -> None:
        if isinstance(event, Asked):
            if event.verb in ("submit", "cancel", "retry"):
                self._asked[event.op] = event
        elif isinstance(event, Answered):
            asked = self._asked.pop(event.op, None)
            if asked is not None and event.outcome == "ok":
                self.tested += 1
                self._told(asked, event.job or asked.job)

    def _told(self, asked: Asked, job: str) -> None:
        books, state = self.books, self.books.states.get(job)
        if state is None:
            # An array has no ledger of its own; what was forgotten had one.
            return
        if asked.verb == "submit" and 1 not in books.ledger[job]:
            self.blame(job, "its submission was acknowledged, and its ledger does not say so")
        elif asked.verb == "cancel" and state.phase == "CANCELLED" and job not in self._cancelled:
            self.blame(job, "its cancel was acknowledged, and its ledger does not say so")
        elif asked.verb == "retry" and job not in self._retried and state.retry_of is None:
            self.blame(job, "its retry was acknowledged, and its ledger does not say so")


def _saved_often(before: State | None, after: State) -> bool:
    """Nothing changed but the newest checkpoint, after ten of them."""
    saved = after.checkpoint
    if before is None or saved is None or saved.nth <= _CHECKPOINTS_TOLD or saved == before.checkpoint:
        return False
    return (before.phase, before.fence, before.placements) == (after.phase, after.fence, after.placements)
