"""E7: no attempt without a cause, and causes within their limits."""

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Event, Fault, ProcessEnded, ProcessStarted
from ares.check.invariants.records import Fence, RetryBudget, Spec, State, fence_of
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

# Limits of failure classes that do not go by the job's own limit.
_LIMITS = {"time-limit": 0, "node-lost": 10, "staging": 2}
_MANUAL_MAX = 10
# How a history says that an agent was told to stop.
_TOLD_TO_STOP = "told-to-stop"
# Rules of leaving that the profile's cap counts.
_CAPPED = frozenset({"priority", "reclaim", "consolidate"})


class Budget(Rule):
    """Attempts are at most one and one for each retry, restart and preemption, each counted with its own entry.

    Retries keep to the limits of their class, restarts to jobs that ask for them, preemptions for others to the cap of
    a profile, manual retries to ten for a lineage. A job whose effects are unsafe starts once. What an agent ends
    because it was told to stop costs no retry."""

    id = "E7"
    title = "every attempt has a cause, within its limits"
    hears = (ProcessStarted, ProcessEnded, Fault)
    notes = ("/retry/",)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        # Jobs of which something may have started, and for unsafe ones under which fence.
        self._started: set[str] = set()
        self._ran: dict[str, Fence] = {}
        self._left: dict[str, int] = {}
        # Nodes whose agent was told to stop, and the attempts that it ended since.
        self._stopping: set[str] = set()
        self._sent_off: set[tuple[str, Fence]] = set()
        self._causes: dict[str, int] = {}

    def step(self, step: CommittedStep) -> None:
        after = step.after
        if after is None or not step.wrote:
            return
        before = step.before or State(id=step.job, tenant=after.tenant, manual_retries=after.manual_retries)
        spec = self.books.spec_of(after)
        kinds = [entry.kind for entry in step.entries]
        if after.attempt != before.attempt or "bound" in kinds:
            self._granted(step, before, after, spec, kinds.count("bound"))
        retried = sum(after.retries.values()) - sum(before.retries.values())
        if (step.job, before.fence) in self._sent_off:
            self.tested += 1
            if retried or "retrying" in kinds or "failed" in kinds:
                self.blame(step.job, f"its agent was told to stop and ended it, and that counts: {', '.join(kinds)}")
        if retried or "retrying" in kinds:
            self._retried(step.job, after, spec, retried, kinds.count("retrying"))
        if after.restarts != before.restarts or "restarted" in kinds:
            self.tested += 1
            if after.restarts - before.restarts != kinds.count("restarted") or (spec and spec.restart != "always"):
                self.blame(step.job, f"{after.restarts} restarts after {before.restarts}, by {', '.join(kinds)}")
        if "preempted" in kinds or "requeue-requested" in kinds:
            self._preempted(step)
        if after.manual_retries != before.manual_retries or after.manual_retries > _MANUAL_MAX:
            self.tested += 1
            asked = kinds.count("retry-requested")
            if after.manual_retries - before.manual_retries != asked or after.manual_retries > _MANUAL_MAX:
                self.blame(step.job, f"{after.manual_retries} manual retries after {before.manual_retries}")
        if "started" in kinds or "rank-started" in kinds:
            self._started.add(step.job)

    def _granted(self, step: CommittedStep, before: State, after: State, spec: Spec | None, bound: int) -> None:
        self.tested += 1
        if after.attempt - before.attempt != bound:
            self.blame(step.job, f"attempt {after.attempt} after {before.attempt}, by {bound} grants")
        causes = sum(after.retries.values()) + after.restarts + self._causes.get(step.job, 0)
        if after.attempt > 1 + causes:
            self.blame(step.job, f"has attempt {after.attempt}, and {causes} retries, restarts and preemptions")
        if spec is not None and spec.effects == "unsafe" and step.job in self._started:
            self.blame(step.job, "its effects are unsafe, it had started, and it was granted again")

    def _retried(self, job: str, after: State, spec: Spec | None, retried: int, entries: int) -> None:
        self.tested += 1
        if retried != entries:
            self.blame(job, f"{retried} more retries are counted, its ledger has {entries} entries for them")
        if spec is None:
            return
        for failure, used in after.retries.items():
            limit = spec.retry.class_limits.get(failure, _LIMITS.get(failure, spec.retry.limit))
            if used > limit:
                self.blame(job, f"{used} retries of class {failure}, its limit is {limit}")

    def _preempted(self, step: CommittedStep) -> None:
        job = step.job
        for entry in step.entries:
            if entry.kind not in ("preempted", "requeue-requested"):
                continue
            self.tested += 1
            self._causes[job] = self._causes.get(job, 0) + 1
            if entry.data.rule in _CAPPED:
                left = self._left[job] = self._left.get(job, 0) + 1
                cap = max((profile.preemption.cap for profile in self.books.in_force), default=None)
                if cap is not None and left > cap:
                    self.blame(job, f"left its place {left} times for others, the cap is {cap}")

    def note(self, name: str, before: RetryBudget | None, after: RetryBudget | None) -> None:
        if after is not None:
            self.tested += 1
            if len(after.jobs) > _MANUAL_MAX:
                self.blame(name, f"was retried {len(after.jobs)} times by hand, the limit is {_MANUAL_MAX}")

    def hear(self, event: Event) -> None:
        if isinstance(event, Fault):
            if event.kind == _TOLD_TO_STOP:
                self._stopping.add(event.who.removeprefix("agent "))
            return
        if isinstance(event, ProcessEnded):
            if event.node in self._stopping and not event.how.startswith("exit"):
                self._sent_off.add((event.job, fence_of(event.fence)))
            return
        assert isinstance(event, ProcessStarted)
        # Its next agent is up.
        self._stopping.discard(event.node)
        state = self.books.states.get(event.job)
        spec = None if state is None else self.books.spec_of(state)
        fence = fence_of(event.fence)
        # A fence ahead of the record is of a grant that a restore took back while the start was on its way.
        if state is not None and spec is not None and spec.effects == "unsafe" and fence <= state.fence:
            self.tested += 1
            if self._ran.setdefault(event.job, fence) != fence:
                self.blame(event.job, f"its effects are unsafe, and it ran as {self._ran[event.job]} and {fence}")

    def restored(self) -> None:
        """What was counted since is counted anew; the times a job left are then taken from its attempts."""
        self._started.clear()
        self._ran.clear()
        self._left.clear()
        self._sent_off.clear()
        states = self.books.states.values()
        self._causes = {state.id: state.attempt for state in states}
