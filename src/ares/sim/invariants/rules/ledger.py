"""E14 and E15: who may grant, and that the ledger tells everything once."""

from ares.sim.invariants.books import Books, Change, Step
from ares.sim.invariants.history import Answered, Asked, Event
from ares.sim.invariants.records import BOUND, Place, State
from ares.sim.invariants.rule import Rule
from ares.sim.invariants.scene import Scene


class Ownership(Rule):
    """A grant, and the room made for one, is committed only while the leadership it was decided under is in force:
    there is a leader's record, it was there before the commit, and it is the committer's where that is known.
    Leadership is never taken over: a record ends before another begins.

    With federation this becomes: at every revision a job has one owning cluster and epoch, and only that cluster, in
    that epoch, grants it. Today there is one cluster."""

    id = "E14"
    title = "only the leader in force grants"

    def commit(self, change: Change) -> None:
        fresh: set[str] = set()
        for key, before, after in change.others.get("/leader/", ()):
            self.tested += 1
            if after is not None:
                fresh.add(key)
                if before is not None:
                    self.blame("", f"{after.replica} leads, and the leadership of {before.replica} had not ended")
        leaders = [leader.replica for key, leader in self.books.leaders.items() if key not in fresh]
        for step in change.steps.values():
            for entry in step.entries:
                if entry.kind in ("bound", "preempting") or (entry.kind == "resized" and entry.by == "scheduler"):
                    self._decided(step, entry.kind, leaders, change.by)

    def _decided(self, step: Step, kind: str, leaders: list[str], by: str) -> None:
        self.tested += 1
        if not leaders:
            self.blame(step.job, f"{kind} was committed while nobody led")
        elif by and by not in leaders:
            self.blame(step.job, f"{kind} was committed by {by} while {' and '.join(leaders)} led")


class Ledger(Rule):
    """Every change of a job comes with exactly its entries, numbered on without holes, written once, kept as long as
    the job. The ledger and the record agree about who may be alive. Every acknowledged submission, cancel and retry has
    its entry. No tenant's ledger names another's job.

    The hash chain and signed heads come with the audit trail."""

    id = "E15"
    title = "the ledger is whole"
    hears = (Asked, Answered)

    def __init__(self, books: Books, scene: Scene) -> None:
        super().__init__(books, scene)
        self._asked: dict[int, Asked] = {}
        self._cancelled: set[str] = set()
        self._retried: set[str] = set()

    def step(self, step: Step) -> None:
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
            self.blame(step.job, f"was changed without an entry: its record says {after.seq} after {last}")
        elif numbers != list(range(last + 1, after.seq + 1)):
            self.blame(step.job, f"entries {numbers} were written, its record went from {last} to {after.seq}")
        elif step.entries[-1].phase != after.phase:
            self.blame(step.job, f"its last entry says {step.entries[-1].phase}, its record {after.phase}")
        if before is None and (after.phase, after.seq) != ("PENDING", 1):
            self.blame(step.job, f"was born {after.phase} with entry {after.seq}")
        self._who_lives(step, after)
        for entry in step.entries:
            if entry.kind == "cancelled":
                self._cancelled.add(step.job)
            elif entry.kind == "retry-requested":
                self._retried.add(step.job)

    def _who_lives(self, step: Step, state: State) -> None:
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

    def commit(self, change: Change) -> None:
        for job, what in self.books.odd:
            self.blame(job, what)
        self.books.odd.clear()
        for job, seq, _ in change.others.get("/events/", ()):
            if job in self.books.states:
                self.blame(job, f"ledger entry {seq} was removed, and the job is kept")

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
        elif asked.verb == "cancel" and job not in self._cancelled:
            self.blame(job, "its cancel was acknowledged, and its ledger does not say so")
        elif asked.verb == "retry" and job not in self._retried and state.retry_of is None:
            self.blame(job, "its retry was acknowledged, and its ledger does not say so")
