"""An overlay of the queue: what questions about jobs that do not wait, or wait in another form, are answered by."""

from math import inf

from ares.core.lifecycle.ranks import gap_needed
from ares.core.queue.factors import JobFacts, latest_start
from ares.core.queue.order import Place, job_of, place
from ares.core.queue.static_queue import Rank
from ares.core.queue.waiting import JobClass, WaitingQueue, facts_of, traits_of
from ares.model.job import JobSpec
from ares.model.state import JobState


class QueueOverlay:
    """The queue as if one job waited in it, or waited in another form. The queue itself is not touched.

    For a question that is answered at once: what happens to the queue later, the overlay does not see."""

    def __init__(
        self, queue: WaitingQueue, state: JobState, spec: JobSpec, runs_s: float = inf, likely_s: float = inf
    ) -> None:
        """As in `WaitingQueue.add`."""
        self._queue, self._job = queue, state.id
        self._labels, self._runs_s, self._gap_s = spec.labels or None, runs_s, gap_needed(spec)
        self._likely_s = min(runs_s, likely_s)
        self.settled = queue.settled
        self.active = dict(queue.active)
        self._take_out()
        found = queue.class_like(queue.key_of(state, spec))
        self._place = place(state, latest_start(spec, self._likely_s), found.id)
        # The job, where it waits already, is not in this line.
        line = (self.active.get(found.id) or JobClass(found.id, found.key)).line.without(self._place)
        self._limited = spec.time_limit_s is not None
        shortest_s = min(self._likely_s if queue.run_times.holds_likely and self._limited else runs_s, self._gap_s)
        self._class = JobClass(
            found.id, found.key, line, min(found.shortest_s, shortest_s) if len(line) else shortest_s
        )
        line.add(self._place)
        self.active[found.id] = self._class
        traits = [(job_class, *traits_of(job_class.key)) for job_class in self.active.values()]
        self.pacing = {job_class.id: job_class for job_class, tells, _ in traits if tells}
        self.nearing = {job_class.id: job_class for job_class, _, looks in traits if looks}

    def _take_out(self) -> None:
        before, at = self._queue.class_of(self._job), self._queue.place_of(self._job)
        if before is None or at is None:
            return
        if len(before.line) == 1:
            del self.active[before.id]
        else:
            self.active[before.id] = JobClass(before.id, before.key, before.line.without(at), before.shortest_s)

    def __len__(self) -> int:
        return len(self._queue) + (self._job not in self._queue)

    def __contains__(self, job_id: str) -> bool:
        return job_id == self._job or job_id in self._queue

    def heads(self) -> None:
        """A question about one job goes through the classes."""

    def ahead(self, job_id: str) -> list[Rank]:
        if self.settled is None or job_id != self._job:
            return self._queue.ahead(job_id)
        found = self.settled.before(self._place, self.facts_of(job_id))
        return [rank for rank in found if job_of(rank[2]) != job_id] if job_id in self._queue else found

    def place_of(self, job_id: str) -> Place | None:
        return self._place if job_id == self._job else self._queue.place_of(job_id)

    def class_of(self, job_id: str) -> JobClass | None:
        if job_id == self._job:
            return self._class
        found = self._queue.class_of(job_id)
        return None if found is None else self.active[found.id]

    def facts_of(self, job_id: str) -> JobFacts:
        if job_id == self._job:
            return facts_of(self._place, self._class.key, self._likely_s)
        return self._queue.facts_of(job_id)

    def labels_of(self, job_id: str) -> dict[str, str] | None:
        return self._labels if job_id == self._job else self._queue.labels_of(job_id)

    def runs_of(self, job_id: str) -> float:
        if job_id != self._job:
            return self._queue.runs_of(job_id)
        return self._likely_s if self._queue.run_times.by_likely and self._limited else self._runs_s

    def likely_of(self, job_id: str) -> float:
        return self._likely_s if job_id == self._job else self._queue.likely_of(job_id)

    def gap_of(self, job_id: str) -> float | None:
        if job_id == self._job:
            return None if self._gap_s == inf else self._gap_s
        return self._queue.gap_of(job_id)
