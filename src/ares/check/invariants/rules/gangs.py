"""E17: a gang starts and ends as one."""

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Ended, Event
from ares.check.invariants.records import Fence, Gang, State
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene


class WholeGang(Rule):
    """A gang is granted with as many ranks as it may have, numbered from 0; it runs when all have started; a number is
    used once per attempt. When all is quiet, of its processes all run or none, under one fence."""

    id = "E17"
    title = "a gang is all or none"
    hears = (Ended,)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._numbers: dict[str, tuple[Fence, set[int]]] = {}

    def step(self, step: CommittedStep) -> None:
        before, after = step.before, step.after
        if after is None or not step.wrote:
            return
        spec = self.books.spec_of(after)
        gang = None if spec is None else spec.gang
        if step.added:
            self._numbered(step, after)
            if any(entry.kind == "bound" for entry in step.entries):
                self._granted(step.job, after, gang)
        if gang is not None and after.phase == "RUNNING" and before is not None and before.phase == "STAGING":
            self.tested += 1
            missing = {place.rank for place in after.placements}.difference(after.started_ranks, after.ended_ranks)
            if missing:
                self.blame(step.job, f"runs, and its ranks {sorted(missing)} have not started")

    def _numbered(self, step: CommittedStep, after: State) -> None:
        fence, numbers = self._numbers.get(step.job, (None, set[int]()))
        if fence != after.fence:
            numbers = set[int]()
        for place in step.added:
            if place.rank in numbers:
                self.blame(step.job, f"rank {place.rank} of attempt {after.fence} was given a second time")
            numbers.add(place.rank)
        self._numbers[step.job] = (after.fence, numbers)

    def _granted(self, job: str, after: State, gang: Gang | None) -> None:
        self.tested += 1
        least, most = (1, 1) if gang is None else (gang.min_ranks or gang.ranks, gang.ranks)
        ranks = [place.rank for place in after.placements]
        if not least <= len(ranks) <= most or ranks != list(range(len(ranks))):
            self.blame(job, f"was granted ranks {ranks}, it may have {least} to {most}")

    def hear(self, event: Event) -> None:
        assert isinstance(event, Ended)
        if not event.quiet or not self.scene.settings.machines:
            return
        for job, ranks in self.scene.alive.items():
            state = self.books.states.get(job)
            if not ranks or state is None or len(state.placements) < 2:
                continue
            self.tested += 1
            fences = {rank.fence for rank in ranks}
            wanted = {place.rank for place in state.placements} - set(state.ended_ranks)
            if len(fences) > 1 or {rank.rank for rank in ranks} != wanted:
                self.blame(job, f"of its ranks {sorted(wanted)} run {sorted(str(rank) for rank in ranks)}")

    def restored(self) -> None:
        self._numbers.clear()
