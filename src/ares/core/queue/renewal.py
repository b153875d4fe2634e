"""Waiting jobs are told anew how long they will run, by what was learned since: a few in each cycle, if any."""

from math import inf

from ares.core.forecast.predictor import Predictor
from ares.core.queue.backlog import Backlog
from ares.core.queue.waiting import WaitingQueue

# Between two looks at the queue, and how many jobs are looked at in one go.
_EVERY_S = 600.0
_JOBS_MAX = 256
# One look at the queue for so many ends of jobs: what an end costs does not grow with the queue.
_LOOKS_PER_END = 32
# A change of a run time that is worth another place in line.
_LEAST = 1.02


class Renewal:
    """Goes through the queue when enough was learned, at most once in ten minutes. Jobs that no news concern cost a
    look each, and the longer the queue, the more jobs have to end before it is gone through again."""

    def __init__(self) -> None:
        self._rest: list[str] = []
        self._news: frozenset[str] = frozenset()
        self._begun_at = -inf
        # How many runs had been learned from then.
        self._learned = 0

    def go_on(self, waiting: WaitingQueue, predictor: Predictor, backlog: Backlog, now: float) -> bool:
        """Whether some job is taken to run for another time."""
        if not self._rest:
            learned = predictor.learned
            enough = len(waiting) and learned - self._learned >= len(waiting) / _LOOKS_PER_END
            if now - self._begun_at < _EVERY_S or not enough or not (news := predictor.news()):
                return False
            self._begun_at, self._learned, self._news = now, learned, news
            self._rest = waiting.jobs()
            self._rest.reverse()
        rest, changed = self._rest, False
        for _ in range(min(_JOBS_MAX, len(rest))):
            job = rest.pop()
            found = waiting.class_of(job)
            # Jobs with a deadline are in line by the latest start that they had when they came.
            if found is None or found.key.dated or (said := predictor.renewed(job, self._news)) is None:
                continue
            likely_s = waiting.likely_of(job)
            if not likely_s / _LEAST <= said.seconds <= likely_s * _LEAST:
                waiting.renew(job, said.hold_s, said.seconds)
                backlog.renew(job, found.key.asks[0], said.seconds)
                changed = True
        return changed
