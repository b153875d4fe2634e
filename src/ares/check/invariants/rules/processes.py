"""E9, E10 and E18: a process without a valid fence ends soon, attempts do not overlap, a start happens once."""

from typing import NamedTuple

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Effect, Ended, Event, ProcessEnded, ProcessStarted
from ares.check.invariants.records import BOUND, State, fence_of
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Rank, Scene

# With these an attempt may save its work before it ends.
_SAVING = frozenset({"preempted", "requeue-requested"})


class _Taken(NamedTuple):
    """When a fence was revoked, and how long the processes under it may take to end."""

    t: float
    # 0 for an attempt lost with its node: it ends by itself, without a command.
    leaves_s: float
    why: str


class Zombie(Rule):
    """A process that lost its fence with its node is gone within the self-fence time and the time of a kill.

    A process that was told to stop (a cancel, a preemption, a gang that is over) has its grace in addition. The command
    must be able to reach it: its time counts from when all faults were healed, and before that nothing is checked.
    A process that was stopped as by SIGSTOP is gone within one check after it goes on."""

    id = "E9"
    title = "an attempt without a fence ends in time"
    hears = (Effect, ProcessEnded, Ended)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._taken: dict[Rank, _Taken] = {}

    def step(self, step: CommittedStep) -> None:
        before, after = step.before, step.after
        if before is None or after is None or before.phase not in BOUND:
            return
        fence = before.fence
        lost = {loss.rank for entry in step.entries if entry.kind == "resized" for loss in entry.data.lost}
        if after.fence != fence:
            for place in (*before.placements, *before.leaving):
                self._take(step, before, Rank(step.job, fence, place.rank))
        for rank in lost:
            self._taken.setdefault(Rank(step.job, fence, rank), _Taken(self.books.t, 0.0, "resized"))

    def _take(self, step: CommittedStep, state: State, rank: Rank) -> None:
        kinds = [entry.kind for entry in step.entries]
        # Whatever the commit says is gone was lost or has ended; the rest must be told.
        told = rank.rank in self.books.alive[step.job]
        leaves_s = 0.0
        if told:
            spec = self.books.spec_of(state)
            leaves_s = 30.0 if spec is None else spec.grace_s + spec.preemption.wait_s * (not _SAVING.isdisjoint(kinds))
        self._taken.setdefault(rank, _Taken(self.books.t, leaves_s if told else 0.0, kinds[0] if kinds else "nothing"))

    def hear(self, event: Event) -> None:
        if isinstance(event, Effect | ProcessEnded):
            self._seen(Rank(event.job, fence_of(event.fence), event.rank), event.node, event.t)
        elif self.scene.settings.machines:
            for ranks in self.scene.alive.values():
                for rank, node in ranks.items():
                    if not self.scene.is_frozen(rank, node):
                        self._seen(rank, node, event.t)

    def restored(self) -> None:
        """A fence that is valid again was never taken away."""
        for rank in list(self._taken):
            state = self.books.states.get(rank.job)
            if state is not None and state.phase in BOUND and state.fence == rank.fence:
                del self._taken[rank]

    def _seen(self, rank: Rank, node: str, t: float) -> None:
        taken = self._taken.get(rank)
        if taken is None:
            return
        scene, bounds = self.scene, self.scene.settings
        since = taken.t
        if taken.leaves_s:
            if scene.faulty and scene.healed_at is None:
                return
            since = max(since, scene.healed_at or since)
        self.tested += 1
        until = since + bounds.self_fence_s * (1 + bounds.drift) + taken.leaves_s + bounds.kill_s
        until = max(until, scene.woken_at(rank, node) + bounds.check_s + taken.leaves_s)
        if t > until:
            late = f"{t - taken.t:.1f} s after its fence was taken away ({taken.why}), {t - until:.1f} s too late"
            self.blame(rank.job, f"{rank} was still there on {node} {late}")
            del self._taken[rank]


class Overlap(Rule):
    """While a process of one attempt runs, none of another begins, and none of an older attempt begins after a newer.

    A process that was stopped as by SIGSTOP cannot end itself: it may be there until one check after it went on."""

    id = "E10"
    title = "no two attempts of a job at once"
    hears = (ProcessStarted, Effect, ProcessEnded, Ended)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        # Stopped when a newer attempt began.
        self._asleep: set[Rank] = set()
        self._blamed: set[Rank] = set()
        self._newest: dict[str, Rank] = {}

    def hear(self, event: Event) -> None:
        if isinstance(event, ProcessStarted):
            self._began(event)
        elif isinstance(event, Effect):
            rank = Rank(event.job, fence_of(event.fence), event.rank)
            if self._newest.get(event.job, rank).fence > rank.fence and rank not in self._blamed:
                self._asleep.add(rank)
                self._seen(rank, event.node, event.t)
        elif isinstance(event, ProcessEnded):
            if self._asleep:
                self._seen(Rank(event.job, fence_of(event.fence), event.rank), event.node, event.t)
        else:
            for rank in tuple(self._asleep):
                node = self.scene.alive[rank.job].get(rank)
                if node is not None and not self.scene.is_frozen(rank, node):
                    self._seen(rank, node, event.t)

    def _began(self, event: ProcessStarted) -> None:
        new = Rank(event.job, fence_of(event.fence), event.rank)
        newest = self._newest.get(event.job)
        self.tested += newest is not None and newest.fence != new.fence
        if newest is None or newest.fence < new.fence:
            self._newest[event.job] = new
        elif newest.fence > new.fence:
            self.blame(event.job, f"{new} began on {event.node} after {newest}")
        # Without events of the machines it is unknown which processes ended: then only an effect is proof of life.
        for rank, node in self.scene.alive[event.job].items() if self.scene.settings.machines else ():
            if rank.fence == new.fence:
                continue
            if self.scene.is_frozen(rank, node) or event.t <= self._awake_until(rank, node):
                self._asleep.add(rank)
            elif rank not in self._blamed:
                self._blamed.add(rank)
                self.blame(event.job, f"{new} began on {event.node} while {rank} ran on {node}")

    def _seen(self, rank: Rank, node: str, t: float) -> None:
        if rank in self._asleep:
            self.tested += 1
            if t > self._awake_until(rank, node) and not self.scene.is_frozen(rank, node):
                self._asleep.discard(rank)
                self._blamed.add(rank)
                self.blame(rank.job, f"{rank} was still there on {node} after {self._newest[rank.job]} began")

    def _awake_until(self, rank: Rank, node: str) -> float:
        return self.scene.woken_at(rank, node) + self.scene.settings.check_s + self.scene.settings.kill_s


class StartOnce(Rule):
    """Start messages may come twice; a process of a rank of an attempt is started once, and acts only while it is."""

    id = "E18"
    title = "a rank of an attempt is started once"
    hears = (ProcessStarted, Effect)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._seen: dict[Rank, str] = {}

    def hear(self, event: Event) -> None:
        assert isinstance(event, ProcessStarted | Effect)
        rank = Rank(event.job, fence_of(event.fence), event.rank)
        self.tested += 1
        if isinstance(event, Effect):
            if self.scene.settings.machines and rank not in self.scene.alive[event.job]:
                self.blame(event.job, f"{rank} acted on {event.node}, where it does not run")
        elif rank in self._seen:
            self.blame(event.job, f"{rank} was started on {self._seen[rank]} and again on {event.node}")
        else:
            self._seen[rank] = event.node
