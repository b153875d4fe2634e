"""E19: jobs that wait for jobs are released once, and only when what they wait for has happened."""

from collections.abc import Iterator
from typing import Literal

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Ended, Event
from ares.check.invariants.records import ENDED, Condition, Entry, Spec, State
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

# Entries that say that a job ran. A rank that started is not its gang: that runs when all ranks do.
_RAN = frozenset({"started", "succeeded", "restarted"})
# An attempt that failed so ended by its own program, which ran then.
_RAN_INTO = frozenset({"exit", "signal", "oom", "time-limit"})
# A leader's clock may run so much faster than the history's.
_FAST = 0.9

_Found = Literal["met", "open", "impossible"]


class Released(Rule):
    """Each release, or the decision that there will be none, is written once; only when the condition holds, by the
    records as they are at that commit; never for a held job, nor before its workflow is whole. A job is created only
    while each job it waits for is kept. When the history ends with nothing left to do, no decided job still waits."""

    id = "E19"
    title = "each release once, and only when its condition holds"
    hears = (Ended,)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._born: dict[str, float] = {}
        self._decided: set[str] = set()
        self._ran: set[str] = set()
        # Jobs whose time was over while what they need was open.
        self._overdue: set[str] = set()

    def step(self, step: CommittedStep) -> None:
        after, before = step.after, step.before
        if after is None or not step.wrote:
            return
        spec = self.books.spec_of(after)
        if any(_ran(entry) for entry in step.entries):
            self._ran.add(step.job)
        if spec is None or not (spec.needs or after.flow is not None):
            return
        if before is None:
            self._created(step.job, after, spec)
        for entry in step.entries:
            if entry.kind == "overdue":
                self._time_over(step.job, after, spec)
            if entry.kind in ("ready", "unmet"):
                self._decision(step.job, entry.kind, after, spec, again=before is not None and before.needs_met)
        if before is not None and before.phase == "WAITING" and after.phase == "PENDING":
            self.tested += 1
            if after.held_by or step.job not in self._decided:
                kept = f"held by {after.held_by}" if after.held_by else "in want of what it needs"
                self.blame(step.job, f"was queued while it was {kept}")

    def _created(self, job: str, state: State, spec: Spec) -> None:
        self._born.setdefault(job, self.books.t)
        self.tested += 1
        if state.phase != "WAITING":
            self.blame(job, f"waits for others, and was born {state.phase}")
        flow = None if state.flow is None else self.books.flows.get(state.flow)
        if flow is not None and (flow.whole or flow.abandoned):
            self.blame(job, f"was added to workflow {flow.id} after that was whole or given up")
        for parent in () if flow is not None else _parents(spec, state):
            kept = parent in self.books.states or parent in self.books.arrays
            if not kept and self._missing(parent) == "impossible":
                self.blame(job, f"was made to wait for {parent}, which is not kept")

    def _decision(self, job: str, kind: str, state: State, spec: Spec, *, again: bool) -> None:
        self.tested += 1
        if job in self._decided and again:
            # Only its time, or its release by a person, was still to come.
            if kind == "unmet" or spec.needs:
                self.blame(job, f"was decided a second time: {kind}")
            return
        self._decided.add(job)
        flow = None if state.flow is None else self.books.flows.get(state.flow)
        if flow is not None and flow.abandoned:
            if kind == "ready":
                self.blame(job, f"was released, and its workflow {flow.id} was given up")
            return
        if state.flow is not None and (flow is None or not flow.whole):
            self.blame(job, f"was decided ({kind}) before its workflow {state.flow} was whole")
            return
        found = self._judged(state, spec)
        if found == ("met" if kind == "ready" else "impossible"):
            return
        if kind == "ready" and found == "impossible" and spec.on_impossible == "run":
            return
        limit = spec.needs_timeout
        if job in self._overdue and limit is not None and (limit.then == "run") == (kind == "ready"):
            return
        self.blame(job, f"was decided ({kind}), and what it needs is {found}")

    def _time_over(self, job: str, state: State, spec: Spec) -> None:
        """What happens after this commit may count or not; what happened before it must."""
        self.tested += 1
        limit, waited = spec.needs_timeout, self.books.t - self._born.get(job, 0.0)
        if limit is None or waited < _FAST * limit.after_s:
            long = "for ever" if limit is None else f"{limit.after_s:.1f} s"
            self.blame(job, f"was given up after {waited:.1f} s, it was to wait {long}")
        if self._judged(state, spec) == "open":
            self._overdue.add(job)

    def hear(self, event: Event) -> None:
        if isinstance(event, Ended):
            healed_at = self.scene.healed_at
            overdue = healed_at is not None and event.t > healed_at + self.scene.settings.liveness_s
            if event.quiet or overdue:
                self._judge_the_end()

    def _judge_the_end(self) -> None:
        for job, state in self.books.states.items():
            spec = self.books.spec_of(state)
            if state.phase != "WAITING" or spec is None or state.needs_met:
                continue
            flow = None if state.flow is None else self.books.flows.get(state.flow)
            if not spec.needs and flow is None:
                continue
            self.tested += 1
            found = "impossible" if flow is not None and flow.abandoned else self._judged(state, spec)
            if found != "open" and (flow is None or flow.whole or flow.abandoned):
                self.blame(job, f"still waits at the end, and what it needs is {found}")

    # ---- the conditions, told anew

    def _judged(self, state: State, spec: Spec) -> _Found:
        found = [self._condition(need, state) for need in spec.needs]
        if "impossible" in found:
            return "impossible"
        if "open" in found:
            return "open"
        if state.is_finally and any(
            other.phase not in ENDED
            for other in self.books.states.values()
            if other.flow == state.flow and not other.is_finally
        ):
            return "open"
        return "met"

    def _condition(self, need: Condition, state: State) -> _Found:
        names = list(_named(need, state))
        each = [self._parent(name, need.on, need.at_step or 0) for name in names]
        wanted = need.k or len(names)
        if each.count("met") >= wanted:
            return "met"
        return "impossible" if len(names) - each.count("impossible") < wanted else "open"

    def _parent(self, name: str, on: str, at_step: int) -> _Found:
        array = self.books.arrays.get(name)
        if array is None:
            state = self.books.states.get(name)
            return self._missing(name) if state is None else self._task(state, on, at_step)
        tasks = [self._task(task, on, at_step) for task in self.books.states.values() if task.array == name]
        if on == "failure":
            ended = [task.phase in ENDED for task in self.books.states.values() if task.array == name]
            if len(ended) < array.tasks or not all(ended):
                return "open"
            return "met" if "met" in tasks else "impossible"
        if "impossible" in tasks:
            return "impossible"
        return "met" if tasks.count("met") == array.tasks else "open"

    def _missing(self, name: str) -> _Found:
        """A task of an array that is still being written is to come."""
        array = self.books.arrays.get(name.rpartition("_")[0])
        return "impossible" if array is None or array.expanded else "open"

    def _task(self, state: State, on: str, at_step: int) -> _Found:
        ended = state.phase in ENDED
        match on:
            case "success":
                met = state.phase == "SUCCEEDED"
            case "failure":
                met = state.phase in ("FAILED", "UNKNOWN")
            case "start":
                met = state.id in self._ran
            case "checkpoint":
                met = state.checkpoint is not None and state.checkpoint.step >= at_step
            case _:
                met = ended
        return "met" if met else "impossible" if ended else "open"


def _ran(entry: Entry) -> bool:
    return entry.kind in _RAN or (entry.kind in ("failed", "retrying") and entry.data.failure in _RAN_INTO)


def _named(need: Condition, state: State) -> Iterator[str]:
    for name in (need.job,) if need.job is not None else (parent.job for parent in need.of):
        yield f"{name}_{state.index}" if need.each else name


def _parents(spec: Spec, state: State) -> Iterator[str]:
    for need in spec.needs:
        yield from _named(need, state)
