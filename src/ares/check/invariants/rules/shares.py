"""E20: what is a tenant's own does not yield to a borrower."""

from collections import deque
from typing import Any

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.records import ProfileVersion, State
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

# A decision may be so old when it is written; it was right if it was right at any time since.
_LATE_S = 6.0
_RUNS = frozenset({"STAGING", "RUNNING"})
# Of CPUs: jobs with GPUs go by what is declared of those.
_RESOURCE = "cpu"

# When, and the most and the least that each tenant could be said to hold from then on.
_Moment = tuple[float, dict[str, int], dict[str, int]]


class OwnShare(Rule):
    """A job that is preempted by priority for a job of another tenant does not belong to a tenant that was within its
    soft share all the time, while the other tenant, with that job, was beyond its own all the time."""

    id = "E20"
    title = "what is a tenant's own does not yield to a borrower"
    notes = ("/profiles/",)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._moments: deque[_Moment] = deque()
        self._said_at = 0.0

    def step(self, step: CommittedStep) -> None:
        soft = self._soft()
        if not soft:
            self._moments.clear()
            return
        self._look(soft)
        for entry in step.entries:
            if entry.kind == "preempted" and entry.data.rule == "priority" and step.before is not None:
                self._judge(step.job, step.before, soft)

    def restored(self) -> None:
        self._moments.clear()

    def note(self, name: Any, before: ProfileVersion | None, after: ProfileVersion | None) -> None:
        self._said_at = self.books.t

    def _soft(self) -> dict[str, int]:
        """By account, once it has been in force for so long that no scheduler goes by another."""
        if self.books.t - self._said_at <= _LATE_S:
            return {}
        shares = self.books.profile().shares
        return {path: share.soft[_RESOURCE] for path, share in shares.items() if _RESOURCE in share.soft}

    def _look(self, soft: dict[str, int]) -> None:
        most, least = dict.fromkeys(soft, 0), dict.fromkeys(soft, 0)
        for job, ranks in self.books.alive.items():
            state = self.books.states.get(job)
            if state is None or state.tenant not in soft:
                continue
            held = sum(place.cpu_milli for place in ranks.values())
            most[state.tenant] += held
            if state.phase in _RUNS and not state.lingering and not state.leaving:
                least[state.tenant] += held
        for state in self.books.states.values():
            if state.tenant in soft:
                most[state.tenant] += sum(place.cpu_milli for place in state.hold)
        self._moments.append((self.books.t, most, least))
        # The oldest that counts is the last one before the time begins.
        while len(self._moments) > 1 and self._moments[1][0] < self.books.t - _LATE_S:
            self._moments.popleft()

    def _judge(self, job: str, victim: State, soft: dict[str, int]) -> None:
        asker = next((state for state in self.books.states.values() if job in state.evicting), None)
        if asker is None or asker.tenant == victim.tenant or not {asker.tenant, victim.tenant} <= soft.keys():
            return
        if any(place.gpus for place in asker.hold):
            return
        self.tested += 1
        asked = sum(place.cpu_milli for place in asker.hold)
        most = max(held[victim.tenant] for _, held, _ in self._moments)
        least = min(held[asker.tenant] for _, _, held in self._moments) + asked
        if most <= soft[victim.tenant] and least > soft[asker.tenant]:
            self.blame(
                job,
                f"{victim.tenant} held {most} of its own {soft[victim.tenant]} milli-CPUs at most, and yields to "
                f"{asker.tenant}, which has {least} with it, of {soft[asker.tenant]}",
            )
