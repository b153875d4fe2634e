"""E2 to E4: what is final, that fences grow, and that only the attempt with the fence writes about its job."""

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Event, ProcessStarted
from ares.check.invariants.records import BOUND, ENDED, NO_FENCE, Entry, Fence, State, fence_of
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Rank, Scene

_END_KINDS = frozenset({"succeeded", "failed", "cancelled", "unknown", "unmet"})
# Entries by an attempt or about it: they carry its fence.
_GUARDED = frozenset(
    {"started", "rank-started", "rank-exited", "succeeded", "failed", "retrying", "restarted", "resized", "lease-lost",
     "preempted", "requeue-requested"}
)  # fmt: skip
# With these an attempt is over.
_OVER = frozenset(
    {"succeeded", "failed", "retrying", "restarted", "preempted", "requeue-requested", "cancelled", "unknown"}
)


class Terminal(Rule):
    """A job ends once. After that its record changes only by the release of what it still held; nothing is granted,
    nothing committed, nothing reopened. A record that has not ended is never removed."""

    id = "E2"
    title = "what has ended stays as it ended"

    def step(self, step: CommittedStep) -> None:
        before, after = step.before, step.after
        ends = [entry.kind for entry in step.entries if entry.kind in _END_KINDS]
        if len(ends) > 1:
            self.blame(step.job, f"ended twice in one commit: {', '.join(ends)}")
        if before is None or not step.wrote:
            return
        if after is None:
            self.tested += 1
            if before.phase not in ENDED or before.lingering:
                self.blame(step.job, f"was forgotten while {before.phase}")
        elif before.phase in ENDED:
            self.tested += 1
            self._after_end(step, before, after)
        elif after.phase in ENDED:
            self.tested += 1
            if not ends:
                self.blame(step.job, f"became {after.phase} without an entry that says so")

    def _after_end(self, step: CommittedStep, before: State, after: State) -> None:
        if after.phase != before.phase:
            self.blame(step.job, f"{before.phase} became {after.phase}")
        elif not before.lingering:
            self.blame(step.job, f"{before.phase} and holding nothing, was changed again")
        elif (after.fence, after.attempt) != (before.fence, before.attempt) or step.result is not None:
            self.blame(step.job, f"{before.phase}, got fence {after.fence}, attempt {after.attempt} or a result")
        elif any(entry.kind != "released" for entry in step.entries):
            self.blame(step.job, f"{before.phase}, its ledger goes on with {step.entries[0].kind}")


class Monotone(Rule):
    """Every grant has a higher fence than whatever was granted or taken away before, compared as (epoch, counter), also
    across a restore. Taking away raises the fence; within one life of the store it never falls.

    After a restore a revocation counts on from the restored record, in its old epoch: what it makes may have been a
    fence before. Nothing is accepted under it: only a grant, which takes the new epoch, lets an attempt write again."""

    id = "E3"
    title = "fences only grow"

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._highest: dict[str, Fence] = {}

    def step(self, step: CommittedStep) -> None:
        before, after = step.before, step.after
        if after is None or not step.wrote:
            return
        fence = after.fence
        highest = self._highest.get(step.job, NO_FENCE)
        for entry in step.entries:
            if entry.kind == "bound":
                self.tested += 1
                granted = fence_of(entry.fence)
                if granted <= highest:
                    self.blame(step.job, f"was granted {granted}, and {highest} had been before")
                highest = max(highest, granted)
        if before is not None:
            self._compare(step.job, before, after)
        if fence > highest:
            highest = fence
        self._highest[step.job] = highest

    def _compare(self, job: str, before: State, after: State) -> None:
        old, new = before.fence, after.fence
        if new < old:
            self.blame(job, f"its fence fell from {old} to {new}")
        if before.phase not in BOUND or after.phase in BOUND:
            return
        self.tested += 1
        # An attempt that ended by itself needs no new fence: no process of it is left to shut out.
        if new == old and (after.lingering or after.phase not in ("SUCCEEDED", "FAILED")):
            self.blame(job, f"attempt {old} was taken away ({after.phase}) and its fence is still valid")


class Guarded(Rule):
    """What is written about an attempt carries the fence that was valid before, of a job that was bound.

    Where the machines' own events are known: what an attempt is said to have done, a process of that very fence did,
    and no process runs under a fence that was never granted."""

    id = "E4"
    title = "only the attempt with the fence writes"
    hears = (ProcessStarted,)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._granted: set[tuple[str, Fence]] = set()

    def step(self, step: CommittedStep) -> None:
        if not step.entries:
            return
        before = step.before
        live = before.fence if before is not None and before.phase in BOUND else None
        phase = "nothing" if before is None else before.phase
        for entry in step.entries:
            kind = entry.kind
            if kind == "bound":
                self.tested += 1
                live = fence_of(entry.fence)
                self._granted.add((step.job, live))
                if phase != "PENDING":
                    self.blame(step.job, f"was granted {live} while {phase}")
            elif kind in _GUARDED:
                self.tested += 1
                self._guarded(step, entry, live)
                if kind in _OVER:
                    live = None
            elif kind in _OVER:
                live = None
            phase = entry.phase
        after = step.after
        if after is not None and after.phase in BOUND and after.fence != live:
            self.blame(step.job, f"is {after.phase} with fence {after.fence}, its ledger says {live}")

    def _guarded(self, step: CommittedStep, entry: Entry, live: Fence | None) -> None:
        fence = fence_of(entry.fence)
        if fence != live:
            valid = "no attempt is valid" if live is None else f"the valid fence is {live}"
            self.blame(step.job, f"{entry.kind} with fence {fence} was accepted, and {valid}")
            return
        if not self.scene.settings.machines:
            return
        if entry.kind in ("started", "succeeded") and self._is_gang(step):
            ranks = [place.rank for place in (step.after or step.before or _NOBODY).placements]
        elif entry.kind in ("started", "succeeded", "rank-started", "rank-exited"):
            ranks = [entry.data.rank or 0]
        else:
            return
        for rank in ranks:
            self._ran(step.job, entry.kind, Rank(step.job, fence, rank), failed=entry.data.failure is not None)

    def _ran(self, job: str, kind: str, rank: Rank, *, failed: bool) -> None:
        if rank not in self.scene.started:
            self.blame(job, f"{kind} was accepted, and no process of {rank} ever ran")
        elif kind in ("succeeded", "rank-exited"):
            how = self.scene.endings.get(rank, "still runs")
            if how != "still runs" and (how == "exit 0") != failed:
                return
            self.blame(job, f"{kind} was accepted, and the process of {rank} {how}")

    def _is_gang(self, step: CommittedStep) -> bool:
        spec = None if step.after is None else self.books.spec_of(step.after)
        return spec is not None and spec.gang is not None

    def hear(self, event: Event) -> None:
        assert isinstance(event, ProcessStarted)
        self.tested += 1
        if (event.job, fence_of(event.fence)) not in self._granted:
            self.blame(event.job, f"a process of it runs on {event.node} with fence {event.fence}, never granted")


_NOBODY = State(id="", tenant="")
