"""E6: a checkpoint never goes back, and an attempt resumes from the newest."""

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Event, Fault, ProcessStarted
from ares.check.invariants.records import BOUND, Checkpoint, Fence, State, fence_of
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

# Of a fault that changes files which are kept: only then may one turn out to be damaged.
DAMAGE = "blob-damage"


class Checkpoints(Rule):
    """A checkpoint is accepted from the attempt whose fence is valid, or was taken away just now by a preemption, while
    a rank of it still holds its place. (fence, number) of those accepted only grows, so a late or repeated report of
    the same attempt cannot roll it back. An attempt resumes from the newest that was accepted before its grant, with
    the same digest, and from nothing when there was none. What was accepted is there: none is found damaged unless a
    fault damaged it."""

    id = "E6"
    title = "a checkpoint never goes back"
    hears = (ProcessStarted, Fault)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        # What an attempt has to resume from.
        self._before: dict[tuple[str, Fence], Checkpoint] = {}
        self._damaging = False

    def step(self, step: CommittedStep) -> None:
        before, after = step.before, step.after
        if after is None:
            return
        newest = None if before is None else before.checkpoint
        for entry in step.entries:
            if entry.kind == "bound" and newest is not None:
                self._before[step.job, fence_of(entry.fence)] = newest
            if entry.kind == "checkpoint-damaged" and not self._damaging:
                self.blame(step.job, f"attempt {entry.fence} found a checkpoint damaged, and nothing had damaged it")
        said = any(entry.kind == "checkpointed" for entry in step.entries)
        if before is None or (after.checkpoint == newest and not said):
            return
        self.tested += 1
        saved = after.checkpoint
        if saved is None:
            self.blame(step.job, f"its checkpoint {newest} was forgotten")
            return
        if not _may_save(before, saved.fence):
            now = f"is {before.phase} with fence {before.fence}"
            self.blame(step.job, f"checkpoint {saved} was accepted, and the job {now}")
        if newest is not None and (saved.fence, saved.seq) <= (newest.fence, newest.seq):
            self.blame(step.job, f"checkpoint {saved} was accepted after {newest}")

    def hear(self, event: Event) -> None:
        if isinstance(event, Fault):
            self._damaging = self._damaging or event.kind == DAMAGE
            return
        assert isinstance(event, ProcessStarted)
        saved = self._before.get((event.job, fence_of(event.fence)))
        if saved is None and not event.resumed:
            return
        self.tested += 1
        if event.resumed != ("" if saved is None else str(saved)) and not self._damaging:
            self.blame(event.job, f"attempt {event.fence} resumes from {event.resumed or 'nothing'}, not from {saved}")


def _may_save(state: State, fence: Fence) -> bool:
    if state.phase in BOUND:
        return fence == state.fence
    revoked = Fence(state.fence.epoch, state.fence.counter - 1)
    return state.phase == "PREEMPTED" and state.lingering and fence == revoked
