"""Whether the latest plan stands: a cycle now would place no job, and promise the same start to the same job.

Most news are of this kind: a job came that does not fit, time went on, or the cycle before did all there was to do. Of
the rest most move the promise and start no job: a running job took longer than estimated, or left too little room.
"""

from collections.abc import Iterable

from ares.core.queue.order import LEVELS
from ares.core.queue.waiting import JobClass
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.quick_look import may_have_room
from ares.model.job import JobSpec
from ares.model.profile import Profile


class StandingPlan:
    """Goes by the one promise that EASY makes. It keeps its turn before jobs of no higher priority without a deadline,
    so while it stands and there is no room for any job, the order of the others does not matter."""

    def __init__(self, cluster: Cluster, profile: Profile, specs: Iterable[JobSpec]) -> None:
        self._cluster = cluster
        self._most_urgent, plain = len(LEVELS), True
        for spec in specs:
            self._most_urgent = min(self._most_urgent, LEVELS[spec.priority])
            plain = plain and _plain(spec)
        self._rotates = "rotate" in profile.actions
        # Time alone makes some jobs eligible for preemption.
        self._yields_from = self._most_urgent + profile.preemption.gap
        filling = profile.backfill
        easy = "backfill" in profile.actions and filling.strategy == "easy" and filling.reservations == 1
        self._judges = plain and easy and not any(share.soft for share in profile.shares.values())

    def holds(self, now: float, submitted: Iterable[str]) -> bool:
        """Since the latest plan nothing has happened but that these jobs came and that time went on."""
        cluster = self._cluster
        if cluster.moment != (cluster.promised_at, cluster.promised_before, cluster.promised_when):
            return False
        promise = next(iter(cluster.promises.values()), None)
        # Without a promise: no job could get one, as no end of a running job is known.
        if promise is None and cluster.future.ending:
            return False
        if promise is not None and (promise.start <= now or not self._is_first(promise.job)):
            return False
        if not self._only_room_counts():
            return False
        return not self._room_for(found for job in submitted if (found := cluster.waiting.class_of(job)))

    def starts_none(self) -> bool:
        """Since the latest plan nothing has happened but that jobs ended or came, and that time went on: a cycle might
        promise the first in line another start, and is run once there may be room for some job."""
        cluster = self._cluster
        promise = next(iter(cluster.promises.values()), None)
        if promise is None or not self._is_first(promise.job) or not self._only_room_counts():
            return False
        return not self._room_for(cluster.waiting.active.values())

    def _only_room_counts(self) -> bool:
        """Whether jobs start only where there is free room: no running job has to make any."""
        cluster = self._cluster
        if not self._judges or cluster.bookings or cluster.reserved or cluster.elastic:
            return False
        if self._rotates and cluster.yields.due(cluster.pauses.now):
            return False
        return not any(count for level, count in cluster.preemptible.items() if level >= self._yields_from)

    def _room_for(self, classes: Iterable[JobClass]) -> bool:
        most = self._cluster.most_free()
        return any(may_have_room(found.key.asks, most) for found in classes)

    def _is_first(self, job: str) -> bool:
        """Whether no job that waits can come before it."""
        waiting = self._cluster.waiting
        if waiting.settled is not None:
            return waiting.settled.line[0][2][3] == job
        found = waiting.class_of(job)
        return found is not None and found.key.level <= self._most_urgent


def _plain(spec: JobSpec) -> bool:
    """Whether time alone changes nothing about the job but its rank among others like it."""
    dated = spec.deadline_at is not None or spec.start_by_at is not None or spec.sla
    elastic = spec.gang is not None and spec.gang.min_ranks is not None
    return not (dated or elastic or spec.expected_runtimes_s)
