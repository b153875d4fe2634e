"""Which jobs are with which cluster, and which may be offered. Where there is no cluster, it does nothing."""

from collections.abc import Callable, Iterable
from operator import itemgetter

from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.lifecycle.owners import is_away
from ares.core.queue.order import LEVELS
from ares.model.state import TERMINAL, JobState

Heed = Callable[[JobState | None, JobState], None]


class UnownedJobs:
    """Jobs that wait here, with no cluster: by priority, then in the order in which they came. A job more costs the
    same however many there are."""

    def __init__(self) -> None:
        # By level: since when each waits.
        self._lines: dict[int, dict[str, float]] = {}
        self._levels: dict[str, int] = {}
        # Levels to which a job came that has waited for longer than others of them: its priority was changed.
        self._mixed: set[int] = set()

    def __len__(self) -> int:
        return len(self._levels)

    def __contains__(self, job: str) -> bool:
        return job in self._levels

    def put(self, job: str, level: int, since: float) -> None:
        before = self._levels.get(job)
        line = self._lines.setdefault(level, {})
        if before == level and line[job] == since:
            return
        self.remove(job)
        if line and since < line[next(reversed(line))]:
            self._mixed.add(level)
        line[job], self._levels[job] = since, level

    def remove(self, job: str) -> None:
        if (level := self._levels.pop(job, None)) is not None:
            del self._lines[level][job]

    def in_order(self) -> list[str]:
        for level in self._mixed:
            self._lines[level] = dict(sorted(self._lines[level].items(), key=itemgetter(1)))
        self._mixed.clear()
        return [job for _, line in sorted(self._lines.items(), key=itemgetter(0)) for job in line]


class OwnerIndex:
    def __init__(self, view: View) -> None:
        self._view = view
        # By cluster: jobs that it has or is offered, and that have not ended, or are not known to be gone.
        self._jobs: dict[str, dict[str, None]] = {}
        # Of these, jobs whose offer is open.
        self._offered: dict[str, dict[str, None]] = {}
        self.unowned = UnownedJobs()
        self._watching = False
        # Told of every job that a cluster has, or had until now, and when jobs come that may be offered.
        self.heeds: list[Heed] = []
        self.wakes: list[Callable[[], None]] = []
        view.subscribe(self._on_delta)

    def jobs(self, cluster: str) -> tuple[str, ...]:
        return tuple(self._jobs.get(cluster, ()))

    def offered(self, cluster: str) -> tuple[str, ...]:
        return tuple(self._offered.get(cluster, ()))

    def counts(self, cluster: str) -> tuple[int, int]:
        """How many it is offered, and how many are its own."""
        offered = len(self._offered.get(cluster, ()))
        return offered, len(self._jobs.get(cluster, ())) - offered

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted or (not self._watching and keys.CLUSTERS in delta.kept):
            self._begin()
        if not self._watching:
            return
        came = len(self.unowned)
        for before, entry in delta.states:
            self._follow(before, entry.state)
        for state in delta.removed:
            self.unowned.remove(state.id)
            if state.owner is not None:
                self._leave(state.owner.cluster, state.id)
        if len(self.unowned) > came or keys.CLUSTERS in delta.kept or keys.REPORTS in delta.kept:
            for wake in self.wakes:
                wake()

    def _begin(self) -> None:
        self._watching = bool(self._view.kept.clusters)
        self._jobs, self._offered, self.unowned = {}, {}, UnownedJobs()
        if self._watching:
            for state in sorted(self._all(), key=lambda state: (state.queued_at, state.id)):
                self._put(state)

    def _all(self) -> Iterable[JobState]:
        live = (self._view.entries[job].state for jobs in self._view.live.values() for job in jobs)
        gone = (entry.state for entry in self._view.entries.values() if entry.state.lingering)
        yield from live
        yield from gone

    def _follow(self, before: JobState | None, state: JobState) -> None:
        owner = None if before is None else before.owner
        if owner is not None and owner.cluster and (state.owner is None or state.owner.cluster != owner.cluster):
            self._leave(owner.cluster, state.id)
        self._put(state)
        if owner is not None or state.owner is not None:
            for heed in self.heeds:
                heed(before, state)

    def _put(self, state: JobState) -> None:
        if state.phase == "PENDING" and not is_away(state):
            self.unowned.put(state.id, self._level(state), state.queued_at)
        else:
            self.unowned.remove(state.id)
        owner = state.owner
        if owner is None or not owner.cluster:
            return
        if state.phase in TERMINAL and not state.lingering:
            self._leave(owner.cluster, state.id)
            return
        self._jobs.setdefault(owner.cluster, {})[state.id] = None
        offered = self._offered.setdefault(owner.cluster, {})
        if owner.stage == "OFFERED":
            offered[state.id] = None
        else:
            offered.pop(state.id, None)

    def _leave(self, cluster: str, job: str) -> None:
        for jobs in (self._jobs, self._offered):
            jobs.get(cluster, {}).pop(job, None)

    def _level(self, state: JobState) -> int:
        spec = self._view.spec(state)
        return 0 if spec is None else LEVELS[spec.priority]
