"""All waiting jobs, gathered into classes of one shape so that scheduling costs per class, not per job."""

from dataclasses import dataclass, field
from typing import NamedTuple

from ares.core.queue.line import Line
from ares.core.queue.order import LEVELS, Rank, rank
from ares.model.job import JobSpec
from ares.model.state import JobState

# Classes that ran empty are kept this long for the next job of their shape.
_EMPTY_KEPT = 256


class Shape(NamedTuple):
    """What jobs of one class have in common: all that filters, scorers and the order look at."""

    level: int
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_model: str | None
    selector: tuple[tuple[str, str], ...]


def shape_of(spec: JobSpec) -> Shape:
    wants = spec.resources
    selector = tuple(sorted(spec.selector.items())) if spec.selector else ()
    return Shape(LEVELS[spec.priority], wants.cpu_milli, wants.memory_mib, wants.gpus, wants.gpu_model, selector)


@dataclass(slots=True)
class JobClass:
    """Jobs of one shape, in order."""

    id: int
    shape: Shape
    line: Line = field(default_factory=Line)


class Waiting:
    """The queue. Every operation costs about the same however many jobs wait."""

    def __init__(self) -> None:
        self._ranks: dict[str, Rank] = {}
        self._by_shape: dict[Shape, JobClass] = {}
        self._by_id: dict[int, JobClass] = {}
        # Classes with jobs, in no order: the cycle orders them.
        self.active: dict[int, JobClass] = {}
        self._next_id = 1

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._ranks

    def add(self, state: JobState, spec: JobSpec) -> JobClass:
        """Queues a job, once: a job that is already there is put where it belongs now."""
        found = self._class(shape_of(spec))
        place = rank(state, found.id)
        if self._ranks.get(state.id) != place:
            self.remove(state.id)
            self._ranks[state.id] = place
            found.line.add(place)
            self.active[found.id] = found
        return found

    def remove(self, job_id: str) -> bool:
        place = self._ranks.pop(job_id, None)
        if place is None:
            return False
        found = self._by_id[place[3]]
        found.line.remove(place)
        if not len(found.line):
            del self.active[found.id]
        return True

    def class_of(self, job_id: str) -> int | None:
        place = self._ranks.get(job_id)
        return None if place is None else place[3]

    def position(self, job_id: str) -> int | None:
        """How many waiting jobs are ahead, or None when the job does not wait."""
        place = self._ranks.get(job_id)
        if place is None:
            return None
        level = self._by_id[place[3]].shape.level
        ahead = 0
        for other in self.active.values():
            if other.shape.level < level:
                ahead += len(other.line)
            elif other.shape.level == level:
                ahead += other.line.before(place)
        return ahead

    def _class(self, shape: Shape) -> JobClass:
        found = self._by_shape.get(shape)
        if found is None:
            self._forget_empty()
            found = self._by_shape[shape] = JobClass(self._next_id, shape)
            self._by_id[found.id] = found
            self._next_id += 1
        return found

    def _forget_empty(self) -> None:
        # Sweeping only when most are empty keeps the cost per new class constant.
        if len(self._by_shape) <= 2 * len(self.active) + _EMPTY_KEPT:
            return
        self._by_shape = {one.shape: one for one in self.active.values()}
        self._by_id = {one.id: one for one in self.active.values()}
