"""E6: a checkpoint never goes back, and an attempt resumes from the newest."""

from typing import NamedTuple

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Event, ProcessStarted
from ares.check.invariants.records import BOUND, Checkpoint, Fence, fence_of
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene


class _Saved(NamedTuple):
    fence: Fence
    seq: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.fence}/{self.seq}/{self.sha256}"


class Checkpoints(Rule):
    """A checkpoint is accepted from the attempt whose fence is valid; (fence, number) of those accepted only grows, so
    a late or repeated report of the same attempt cannot roll it back. An attempt resumes from the newest that was
    accepted before its grant, with the same digest, and from nothing when there was none."""

    id = "E6"
    title = "a checkpoint never goes back"
    hears = (ProcessStarted,)
    notes = ("/checkpoints/",)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._newest: dict[str, _Saved] = {}
        # What an attempt has to resume from.
        self._before: dict[tuple[str, Fence], _Saved] = {}

    def step(self, step: CommittedStep) -> None:
        saved = self._newest.get(step.job)
        if saved is not None:
            for entry in step.entries:
                if entry.kind == "bound":
                    self._before[step.job, fence_of(entry.fence)] = saved

    def note(self, name: str, before: Checkpoint | None, after: Checkpoint | None) -> None:
        if after is None:
            return
        self.tested += 1
        saved = _Saved(after.fence, after.seq, after.sha256)
        state = self.books.states.get(name)
        if state is None or state.phase not in BOUND or state.fence != after.fence:
            now = "is not kept" if state is None else f"is {state.phase} with fence {state.fence}"
            self.blame(name, f"checkpoint {saved} was accepted, and the job {now}")
        newest = self._newest.get(name)
        if newest is not None and saved[:2] <= newest[:2]:
            self.blame(name, f"checkpoint {saved} was accepted after {newest}")
        else:
            self._newest[name] = saved

    def hear(self, event: Event) -> None:
        assert isinstance(event, ProcessStarted)
        saved = self._before.get((event.job, fence_of(event.fence)))
        if saved is None and not event.resumed:
            return
        self.tested += 1
        if event.resumed != ("" if saved is None else str(saved)):
            self.blame(event.job, f"attempt {event.fence} resumes from {event.resumed or 'nothing'}, not from {saved}")

    def restored(self) -> None:
        kept = self.books.checkpoints
        self._newest = {
            job: _Saved(checkpoint.fence, checkpoint.seq, checkpoint.sha256) for job, checkpoint in kept.items()
        }
