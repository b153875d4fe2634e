"""A quick look at whether a job could have room now: most jobs behind the first that waits could not."""

from collections.abc import Iterable
from itertools import chain

from ares.core.ask import Ask
from ares.core.queue.waiting import JobClass
from ares.core.schedule.trial import Trial

# CPU and memory, and thousandths of GPUs.
_Most = tuple[int, int, int]
# Of more jobs than this the least is not looked for.
_LINE_MAX = 256


def may_have_room(asks: Iterable[Ask], most: _Most) -> bool:
    """Whether any of the alternatives asks for no more of anything than the most that a row has left."""
    cpu, memory, gpu = most
    for ask in asks:
        enough = (ask.cpu_milli <= cpu and ask.memory_mib <= memory) or ask.qos != "guaranteed"
        if enough and (not ask.gpus or ask.gpus_milli <= gpu):
            return True
    return False


class QuickLook:
    """The most that any one row has left. More may be refused after a longer look, but nothing that fits is."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        # By what claims hide from a job.
        self._most: dict[tuple[float, str], _Most] = {}
        # With nothing hidden, when it was first asked for: within a cycle no row gets more.
        self._at_most: _Most | None = None
        # By class: the least that its jobs take, where that was asked for.
        self._shortest: dict[int, float] = {}

    def again(self) -> None:
        """Something was placed, or is claimed."""
        self._most.clear()

    def may_fit(self, job_class: JobClass, runs_s: float) -> bool:
        """Whether any row has as much of everything as some alternative asks for, for so long."""
        ends_at, claims = self._trial.now + runs_s, self._trial.claims
        for ask in job_class.key.asks:
            most = self._most.get(claims.hidden_from(ends_at, ask.reservation))
            cpu, memory, gpu = most or self._most_free(ends_at, ask.reservation)
            enough = (ask.cpu_milli <= cpu and ask.memory_mib <= memory) or ask.qos != "guaranteed"
            if enough and (not ask.gpus or ask.gpus_milli <= gpu):
                return True
        return False

    def shortest(self, job_class: JobClass) -> float:
        """What no job of the class takes less than, as it is now: what the class itself says may be of a job that has
        left since, or of one that is by now taken to run longer."""
        if len(job_class.line) > _LINE_MAX:
            return job_class.shortest_s
        found = self._shortest.get(job_class.id)
        if found is None:
            waiting = self._trial.waiting
            jobs = job_class.line.jobs(0, _LINE_MAX)
            gaps = (gap_s for job in jobs if (gap_s := waiting.gap_of(job)) is not None)
            found = self._shortest[job_class.id] = min(chain(map(waiting.runs_of, jobs), gaps))
        return found

    def too_large(self, job_class: JobClass) -> bool:
        """Whether no row has as much as any alternative asks for, however short the job is."""
        if self._at_most is None:
            self._trial.claims.lift()
            self._at_most = self._trial.cluster.most_free()
        return not may_have_room(job_class.key.asks, self._at_most)

    def _most_free(self, ends_at: float, reservation: str) -> _Most:
        claims = self._trial.claims
        key = claims.hidden_from(ends_at, reservation)
        claims.hide(ends_at, reservation)
        most = self._most[key] = self._trial.cluster.most_free()
        return most
