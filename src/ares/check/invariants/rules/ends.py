"""E11 to E13: that everything comes to its end, that losses are noticed in time, that a cancel is kept."""

from typing import NamedTuple

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import (
    Answered,
    Asked,
    Back,
    Ended,
    Event,
    Fault,
    Frozen,
    Healed,
    Lost,
    Restored,
    Woken,
)
from ares.check.invariants.records import ENDED, Array, Leader, Lease, State
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

# How long a job's lease is unless it asks for a longer one.
_LEASE_S = 9.0
# More than this part of at least so many nodes silent at once: the observer first suspects itself, once.
_STORM_SHARE, _STORM_NODES = 0.2, 5
_LONG_GONE_S = 3 * _LEASE_S


class Liveness(Rule):
    """When a history ends with nothing left to do, or long after everything was healed: every job that was acknowledged
    is there and has ended, holds nothing and waits for nothing, every array has all its tasks, no process is left."""

    id = "E11"
    title = "everything acknowledged comes to its end"
    hears = (Asked, Answered, Ended)
    notes = ("/arrays/",)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._submits: set[int] = set()
        self._told: set[str] = set()
        self._forgotten: set[str] = set()
        # Taken back by a restore: word of them may have been on its way.
        self._undone: set[str] = set()

    def note(self, name: str, before: Array | None, after: Array | None) -> None:
        if after is None:
            self._forgotten.add(name)

    def step(self, step: CommittedStep) -> None:
        if step.after is None and step.wrote:
            self._forgotten.add(step.job)

    def hear(self, event: Event) -> None:
        if isinstance(event, Asked):
            if event.verb == "submit":
                self._submits.add(event.op)
        elif isinstance(event, Answered):
            if event.outcome == "ok" and event.op in self._submits:
                self._told.add(event.job)
        elif isinstance(event, Ended):
            healed_at = self.scene.healed_at
            overdue = healed_at is not None and event.t > healed_at + self.scene.settings.liveness_s
            if event.quiet or overdue:
                self._judge(
                    "nothing is left to do" if event.quiet else f"{event.t - (healed_at or 0):.0f} s after healing"
                )

    def _judge(self, when: str) -> None:
        books = self.books
        for job in sorted(self._told - self._forgotten - self._undone):
            self.tested += 1
            if job not in books.states and job not in books.arrays:
                self.blame(job, "was acknowledged, and is gone")
        for job, state in books.states.items():
            self.tested += 1
            if state.phase not in ENDED:
                self.blame(job, f"is still {state.phase}, and {when}")
            elif state.lingering or books.alive.get(job):
                self.blame(job, f"is {state.phase} and still holds its place, and {when}")
        tasks: dict[str | None, int] = {}
        for state in books.states.values():
            tasks[state.array] = tasks.get(state.array, 0) + 1
        for array in books.arrays.values():
            gone = sum(job.startswith(f"{array.id}_") for job in self._forgotten)
            if not array.expanded or tasks.get(array.id, 0) + gone != array.tasks:
                self.blame(array.id, f"has {tasks.get(array.id, 0)} of {array.tasks} tasks, and {when}")
        for job, ranks in self.scene.alive.items() if self.scene.settings.machines else ():
            for rank, node in ranks.items():
                self.blame(job, f"{rank} still runs on {node}, and {when}")

    def restored(self) -> None:
        self._forgotten -= self.books.states.keys() | self.books.arrays.keys()
        self._undone = self.books.created.keys() - self.books.states.keys() - self.books.arrays.keys()


class _Due(NamedTuple):
    node: str
    job: str
    rank: int


class Recovery(Rule):
    """What a node held when it fell silent is taken away within the bound, and within as much more as a job's own lease
    is longer; half as soon when a fifth of the nodes is silent at once.

    Time counts only while the control plane works: it starts again whenever the control plane was disturbed. That is a
    fault or a stop of the store or of a replica, coming or going (`Fault`, `Frozen`, `Woken` of "store…" or
    "replica …"), a restore, and a change of the leader, as a new leader counts silence from what it saw itself. While
    such a fault lasts, or there is no leader, nothing is due. A renewal that was on its way counts from when it was
    written, as the store cannot tell it from a new one. Faults of agents, nodes, links and clients excuse nothing."""

    id = "E12"
    title = "what a lost node held is taken away in time"
    hears = (Lost, Back, Fault, Frozen, Woken, Healed, Restored, Ended)
    notes = ("/leader/", "/leases/")

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        # Since when.
        self._lost: dict[str, float] = {}
        self._due: dict[_Due, float] = {}

    def note(self, name: str, before: Leader | Lease | None, after: Leader | Lease | None) -> None:
        if not isinstance(before or after, Lease):
            self._begin_anew()
        elif isinstance(after, Lease) and not (isinstance(before, Lease) and after.renewed_at == before.renewed_at):
            for due in [order for order in self._due if order.node == after.node]:
                self._due[due] = max(self._due[due], self.books.t)

    def step(self, step: CommittedStep) -> None:
        if not self._lost:
            return
        for place in step.added:
            if place.node in self._lost:
                self._due[_Due(place.node, step.job, place.rank)] = self.books.t
        held = self.books.alive.get(step.job, {})
        for due in [order for order in self._due if order.job == step.job and order.rank not in held]:
            self._settle(due, self.books.t)

    def hear(self, event: Event) -> None:
        t = event.t
        if isinstance(event, Lost):
            self._lost[event.node] = t
            for job, rank in self.books.on_node.get(event.node, ()):
                self._due.setdefault(_Due(event.node, job, rank), t)
        elif isinstance(event, Back):
            self._lost.pop(event.node, None)
            for due in [order for order in self._due if order.node == event.node]:
                self._settle(due, t)
        elif isinstance(event, Ended):
            for due in list(self._due):
                self._settle(due, t)
        elif self._due and self.scene.disturbed_at == t:
            self._begin_anew()

    def _begin_anew(self) -> None:
        for due in self._due:
            self._due[due] = max(self._due[due], self.scene.disturbed_at, self.books.t)

    def _settle(self, due: _Due, t: float) -> None:
        since = self._due.pop(due)
        leads = bool(self.books.leaders)
        if self.scene.broken or not leads:
            return
        self.tested += 1
        bound = self._bound(due.job)
        if t - since > bound:
            self.blame(due.job, f"{t - since:.1f} s after {due.node} fell silent its rank there was not taken away")

    def _bound(self, job: str) -> float:
        state = self.books.states.get(job)
        spec = None if state is None else self.books.spec_of(state)
        bound = self.scene.settings.recovery_s + max(0.0, (spec.lease_s if spec else 0.0) - _LEASE_S)
        # What has been dead for long is no part of a storm.
        gone = sum(self.books.t - at >= _LONG_GONE_S for at in self._lost.values())
        nodes, lost = len(self.books.nodes) - gone, len(self._lost) - gone
        storm = nodes >= _STORM_NODES and lost > _STORM_SHARE * nodes
        return bound + self.scene.settings.recovery_s if storm else bound


class Cancelled(Rule):
    """Once a cancel was acknowledged the job is CANCELLED; it gets no further grant and no success. Of an array, every
    task has ended. How soon its processes are gone is for E9."""

    id = "E13"
    title = "an acknowledged cancel is kept"
    hears = (Asked, Answered)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._asked: dict[int, str] = {}
        self._kept: set[str] = set()

    def hear(self, event: Event) -> None:
        if isinstance(event, Asked):
            if event.verb == "cancel":
                self._asked[event.op] = event.job
        elif isinstance(event, Answered):
            job = self._asked.pop(event.op, None)
            if job is not None and event.outcome == "ok":
                self._acknowledged(job)

    def _acknowledged(self, job: str) -> None:
        self.tested += 1
        books = self.books
        if job in books.arrays:
            for task in [task for task in books.states.values() if task.array == job and task.phase not in ENDED]:
                self.blame(task.id, f"the cancel of its array was acknowledged, and it is {task.phase}")
            return
        state = books.states.get(job)
        if state is not None:
            self._kept.add(job)
            if state.phase != "CANCELLED":
                self.blame(job, f"its cancel was acknowledged, and it is {state.phase}")

    def step(self, step: CommittedStep) -> None:
        if step.job in self._kept:
            for entry in step.entries:
                if entry.kind in ("bound", "succeeded"):
                    self.blame(step.job, f"{entry.kind} after its cancel was acknowledged")

    def restored(self) -> None:
        self._kept = {job for job in self._kept if self._phase(job) == "CANCELLED"}

    def _phase(self, job: str) -> str:
        state: State | None = self.books.states.get(job)
        return "" if state is None else state.phase
