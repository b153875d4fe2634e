"""What is known at a moment of a federation's history, followed event by event."""

from collections.abc import Callable
from typing import Any

from ares.check.federation.history import (
    AllMended,
    CancelAsked,
    ClusterWritten,
    FederationSettings,
    Happening,
    JobSubmitted,
    LocalOver,
    OutcomeWritten,
    OwnerWritten,
    PossessionWritten,
    RunBegan,
    RunOver,
    StoreRestored,
    WorldOver,
)

# (cluster, job, epoch) of a process.
Run = tuple[str, str, int]


class FederationBooks:
    """A restore of the global plane takes its records back to what they were; what clusters and processes did stays."""

    def __init__(self) -> None:
        self.t = 0.0
        self.settings = FederationSettings(t=0.0)
        self.jobs: dict[str, JobSubmitted] = {}
        self.owners: dict[str, OwnerWritten] = {}
        self.clusters: dict[str, ClusterWritten] = {}
        self.outcomes: dict[str, OutcomeWritten] = {}
        self.possessions: dict[tuple[str, str], PossessionWritten] = {}
        self.alive: dict[Run, float] = {}
        # Every (job, cluster, epoch) that was ever confirmed, and the highest epoch each job ever had.
        self.confirmed: set[tuple[str, str, int]] = set()
        self.highest: dict[str, int] = {}
        # The highest epoch that a cluster ever refused of a job, also when its store has forgotten since.
        self.refused: dict[tuple[str, str], int] = {}
        # When each epoch of a job was first offered or confirmed.
        self.offered_at: dict[tuple[str, int], float] = {}
        self.dead_at: dict[str, float] = {}
        self.restored_at: dict[str, float] = {}
        self.local_over: set[str] = set()
        self.cancelled: dict[str, float] = {}
        self.mended_at: float | None = None
        self.over = False
        self._written: list[OwnerWritten | ClusterWritten | OutcomeWritten] = []
        self._takers: dict[type, Callable[[Any], None]] = {
            FederationSettings: self._settings,
            JobSubmitted: self._submitted,
            OwnerWritten: self._global,
            ClusterWritten: self._global,
            OutcomeWritten: self._global,
            PossessionWritten: self._possession,
            RunBegan: self._began,
            RunOver: self._ended,
            LocalOver: lambda event: self.local_over.add(event.job),
            CancelAsked: self._cancel,
            StoreRestored: self._restored,
            AllMended: self._mended,
            WorldOver: self._world_over,
        }

    def take(self, event: Happening) -> None:
        taker = self._takers.get(type(event))
        if taker is not None:
            taker(event)

    def _settings(self, event: FederationSettings) -> None:
        self.settings = event

    def _submitted(self, event: JobSubmitted) -> None:
        self.jobs[event.job] = event

    def _global(self, event: OwnerWritten | ClusterWritten | OutcomeWritten) -> None:
        self._written.append(event)
        self._apply(event)
        if isinstance(event, OwnerWritten):
            self.highest[event.job] = max(self.highest.get(event.job, 0), event.epoch)
            if event.cluster:
                self.offered_at.setdefault((event.job, event.epoch), event.t)
            if event.stage == "CONFIRMED":
                self.confirmed.add((event.job, event.cluster, event.epoch))
        elif isinstance(event, ClusterWritten) and event.state == "DEAD":
            self.dead_at[event.cluster] = event.t

    def _apply(self, event: OwnerWritten | ClusterWritten | OutcomeWritten) -> None:
        if isinstance(event, OwnerWritten):
            self.owners[event.job] = event
        elif isinstance(event, ClusterWritten):
            self.clusters[event.cluster] = event
        else:
            self.outcomes[event.job] = event

    def _possession(self, event: PossessionWritten) -> None:
        place = (event.cluster, event.job)
        self.possessions[place] = event
        self.refused[place] = max(self.refused.get(place, 0), event.refused)

    def _began(self, event: RunBegan) -> None:
        self.alive[event.cluster, event.job, event.epoch] = event.t

    def _ended(self, event: RunOver) -> None:
        self.alive.pop((event.cluster, event.job, event.epoch), None)

    def _cancel(self, event: CancelAsked) -> None:
        self.cancelled.setdefault(event.job, event.t)

    def _restored(self, event: StoreRestored) -> None:
        self.restored_at[event.cluster] = event.t
        if event.cluster:
            for place in [place for place in self.possessions if place[0] == event.cluster]:
                del self.possessions[place]
            return
        self._written = [written for written in self._written if written.revision <= event.revision]
        self.owners, self.clusters, self.outcomes = {}, {}, {}
        for written in self._written:
            self._apply(written)
        # What was asked for after the backup is as forgotten as what was submitted after it.
        self.cancelled = {job: at for job, at in self.cancelled.items() if job in self.outcomes}

    def _mended(self, event: AllMended) -> None:
        self.mended_at = event.t

    def _world_over(self, _event: WorldOver) -> None:
        self.over = True
