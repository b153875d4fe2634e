"""E26: a job that a job submitted was made by that job's current attempt, once for each call."""

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

_RUNS = frozenset({"STAGING", "RUNNING"})
_DEEPEST = 8


class Children(Rule):
    """At the commit that makes a child, its parent is bound under the fence that the child names, and is of the same
    tenant; no other child is of the same call; it is at most eight deep."""

    id = "E26"
    title = "a job's child is made by its current attempt, once for each call"

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._made: dict[tuple[str, int], str] = {}

    def step(self, step: CommittedStep) -> None:
        after = step.after
        if after is None or step.before is not None or after.child_of is None or not step.wrote:
            return
        self.tested += 1
        maker = after.child_of
        parent = self.books.states.get(maker.job)
        if parent is None or parent.tenant != after.tenant:
            self.blame(step.job, f"is a child of {maker.job}, which its tenant has not")
            return
        if parent.phase not in _RUNS or parent.fence != maker.fence:
            now = f"{parent.phase} under fence {parent.fence}"
            self.blame(step.job, f"was made by {maker.job} under fence {maker.fence}, and that job is {now}")
        depth = 1 if parent.child_of is None else parent.child_of.depth + 1
        if maker.depth != depth or depth > _DEEPEST:
            self.blame(step.job, f"says that it is {maker.depth} deep, and it is {depth}")
        other = self._made.setdefault((maker.job, maker.call), step.job)
        if other != step.job:
            self.blame(step.job, f"was made by call {maker.call} of {maker.job}, which made {other} before")

    def restored(self) -> None:
        made = ((state.child_of, job) for job, state in self.books.states.items())
        self._made = {(maker.job, maker.call): job for maker, job in made if maker is not None}
