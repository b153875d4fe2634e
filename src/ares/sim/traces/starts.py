"""Whether jobs start when predicted: predictions are made and scored in replays as the service does it."""

from ares.api.predictions import Hits
from ares.check.replay.decisions import CycleDecisions
from ares.core.forecast.eta import LONGEST_S, Etas
from ares.core.schedule.cluster import Cluster
from ares.core.starts.wait import Supplies
from ares.model.base import Record


class StartsVerdict(Record, frozen=True):
    """Of jobs that had to wait: how many were told when they would start, and how many did so within that interval.

    Intervals are meant to hold for four jobs of five."""

    told: int
    within: int

    @property
    def rate(self) -> float | None:
        return self.within / self.told if self.told else None


class StartsWatch:
    """A `Watch`: give it to a replay, then ask for the verdict."""

    def __init__(self) -> None:
        self._etas = Etas()

    def __call__(self, cluster: Cluster, decision: CycleDecisions) -> None:
        now = decision.time
        for started in decision.started:
            self._etas.started(_id(started.job), now)
        waiting = [name for job in decision.submitted if cluster.waiting.class_of(name := _id(job)) is not None]
        if not waiting:
            return
        supplies = Supplies(cluster, now)
        for name in waiting:
            wait = supplies.wait_of(name)
            if wait is not None and wait.seconds < LONGEST_S:
                self._etas.give(name, wait, now)

    def judged(self) -> StartsVerdict:
        first: Hits = self._etas.first
        return StartsVerdict(told=first.given, within=first.within)


def _id(job: int) -> str:
    """As the replay names its jobs to the scheduler."""
    return f"{job:08d}"
