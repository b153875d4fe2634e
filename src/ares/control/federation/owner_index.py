"""Which jobs are with which cluster, and which may be offered. Where there is no cluster, it does nothing."""

from collections.abc import Callable, Iterable

from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.lifecycle.owners import is_away
from ares.model.state import TERMINAL, JobState

Heed = Callable[[JobState | None, JobState], None]


class OwnerIndex:
    def __init__(self, view: View) -> None:
        self._view = view
        # By cluster: jobs that it has or is offered, and that have not ended, or are not known to be gone.
        self._jobs: dict[str, dict[str, None]] = {}
        # Jobs that wait here, with no cluster, in the order in which they came.
        self.held: dict[str, None] = {}
        self._watching = False
        # Told of every job that a cluster has, or had until now, and when jobs come that may be offered.
        self.heeds: list[Heed] = []
        self.wakes: list[Callable[[], None]] = []
        view.subscribe(self._on_delta)

    def jobs(self, cluster: str) -> tuple[str, ...]:
        return tuple(self._jobs.get(cluster, ()))

    def counts(self, cluster: str) -> tuple[int, int]:
        """How many it is offered, and how many are its own."""
        stages = [self._stage(job) for job in self._jobs.get(cluster, ())]
        return stages.count("OFFERED"), stages.count("CONFIRMED")

    def _stage(self, job: str) -> str:
        entry = self._view.entries.get(job)
        return "" if entry is None or entry.state.owner is None else entry.state.owner.stage

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted or (not self._watching and keys.CLUSTERS in delta.kept):
            self._begin()
        if not self._watching:
            return
        came = len(self.held)
        for before, entry in delta.states:
            self._follow(before, entry.state)
        for state in delta.removed:
            self.held.pop(state.id, None)
            if state.owner is not None:
                self._jobs.get(state.owner.cluster, {}).pop(state.id, None)
        if len(self.held) > came or keys.CLUSTERS in delta.kept or keys.REPORTS in delta.kept:
            for wake in self.wakes:
                wake()

    def _begin(self) -> None:
        self._watching = bool(self._view.kept.clusters)
        self._jobs, self.held = {}, {}
        if self._watching:
            for state in self._all():
                self._put(state)

    def _all(self) -> Iterable[JobState]:
        live = (self._view.entries[job].state for jobs in self._view.live.values() for job in jobs)
        gone = (entry.state for entry in self._view.entries.values() if entry.state.lingering)
        yield from live
        yield from gone

    def _follow(self, before: JobState | None, state: JobState) -> None:
        owner = None if before is None else before.owner
        if owner is not None and owner.cluster and (state.owner is None or state.owner.cluster != owner.cluster):
            self._jobs.get(owner.cluster, {}).pop(state.id, None)
        self._put(state)
        if owner is not None or state.owner is not None:
            for heed in self.heeds:
                heed(before, state)

    def _put(self, state: JobState) -> None:
        if state.phase == "PENDING" and not is_away(state):
            self.held[state.id] = None
        else:
            self.held.pop(state.id, None)
        owner = state.owner
        if owner is None or not owner.cluster:
            return
        jobs = self._jobs.setdefault(owner.cluster, {})
        if state.phase in TERMINAL and not state.lingering:
            jobs.pop(state.id, None)
        else:
            jobs[state.id] = None
