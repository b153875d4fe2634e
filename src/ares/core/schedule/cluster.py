"""The scheduler's picture of the cluster: nodes, what is held on them, and who waits. In memory, without I/O.

The service keeps it up to date from what it sees in the store; every operation may be repeated.
"""

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ares.core.queue.waiting import Shape, Waiting
from ares.core.schedule.columns import GpuColumn, empty_columns, gpu_mask, grown, matches
from ares.core.schedule.snapshot import Identity, Snapshot, WaitingClass, identity
from ares.model.job import JobSpec
from ares.model.node import NodeRecord
from ares.model.state import JobState, Placement


@dataclass(slots=True)
class _Used:
    """What attempts hold on one node, known to the cluster or not."""

    jobs: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    # How many attempts hold each GPU: more than one only if something went wrong, and then it must not get lost.
    gpus: dict[int, int] = field(default_factory=dict[int, int])

    def add(self, place: Placement, sign: int) -> None:
        self.jobs += sign
        self.cpu_milli += sign * place.cpu_milli
        self.memory_mib += sign * place.memory_mib
        for gpu in place.gpus:
            self.gpus[gpu] = self.gpus.get(gpu, 0) + sign

    def gpu_mask(self) -> int:
        return sum(1 << gpu for gpu, holders in self.gpus.items() if holders > 0)


class Free(NamedTuple):
    """What is left of one node, and how many attempts hold something on it."""

    jobs: int
    cpu_milli: int
    memory_mib: int
    gpus: tuple[int, ...]


class Cluster:
    def __init__(self) -> None:
        self._columns = empty_columns()
        self._slots: dict[str, int] = {}
        self._unused: list[int] = []
        self._records: list[NodeRecord | None] = [None] * self._columns.capacity
        self._ready: set[str] = set()
        self._used: dict[str, _Used] = {}
        self._holds: dict[str, tuple[Placement, ...]] = {}
        self._waiting = Waiting()
        # Rebuilt only when a node comes, changes or goes.
        self._identities: tuple[Identity, ...] | None = None

    # ---- nodes

    def put_node(self, record: NodeRecord) -> None:
        """Adds a node or replaces what is known about it. What is held on it stays held."""
        name = record.info.name
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = self._new_slot()
        self._records[slot] = record
        self._identities = None
        columns, info = self._columns, record.info
        columns.exists[slot] = True
        # Never 0: scorers divide by these. What is free may be 0.
        columns.cpu_milli[slot] = max(1, info.cpu_milli)
        columns.memory_mib[slot] = max(1, info.memory_mib)
        for column in columns.gpus.values():
            column.masks[slot] = gpu_mask(info, column.model)
            column.total[slot] = column.masks[slot].bit_count()
        for selector, mask in columns.selected.items():
            mask[slot] = matches(info, selector)
        self._set_healthy(name)
        self._set_free(name)
        self._set_gpus(name)

    def set_ready(self, name: str, ready: bool) -> None:
        """Whether the node's agent is alive. May come before the node itself."""
        (self._ready.add if ready else self._ready.discard)(name)
        self._set_healthy(name)

    def drop_node(self, name: str) -> None:
        self._ready.discard(name)
        slot = self._slots.pop(name, None)
        if slot is None:
            return
        self._records[slot] = None
        self._identities = None
        heapq.heappush(self._unused, slot)
        columns = self._columns
        columns.exists[slot] = columns.healthy[slot] = False
        columns.cpu_milli[slot] = columns.memory_mib[slot] = 1
        columns.cpu_milli_free[slot] = columns.memory_mib_free[slot] = 0
        for column in columns.gpus.values():
            column.masks[slot] = 0
            column.total[slot] = 0
        for mask in columns.selected.values():
            mask[slot] = False
        columns.set_gpu_free_mask(slot, 0)

    def free(self, name: str) -> Free | None:
        """What is left of a node, or None when there is no such node."""
        slot = self._slots.get(name)
        if slot is None:
            return None
        columns, mask = self._columns, self._columns.gpu_free_masks[slot]
        gpus = tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)
        used = self._used.get(name, _Used())
        return Free(used.jobs, columns.cpu_milli_free.item(slot), columns.memory_mib_free.item(slot), gpus)

    # ---- what attempts hold

    def hold(self, job_id: str, placements: tuple[Placement, ...]) -> None:
        """Takes an attempt's resources, instead of any that the job held before."""
        if self._holds.get(job_id) == placements:
            return
        self.release(job_id)
        self._holds[job_id] = placements
        self._change(placements, +1)

    def release(self, job_id: str) -> None:
        placements = self._holds.pop(job_id, None)
        if placements is not None:
            self._change(placements, -1)

    # ---- who waits

    def enqueue(self, state: JobState, spec: JobSpec) -> None:
        shape = self._waiting.add(state, spec).shape
        self._know(shape)

    def dequeue(self, job_id: str) -> None:
        self._waiting.remove(job_id)

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def position(self, job_id: str) -> int | None:
        """How many waiting jobs are ahead of this one, or None when it does not wait."""
        return self._waiting.position(job_id)

    def class_of(self, job_id: str) -> int | None:
        """The class of a waiting job: a plan gives its reasons per class."""
        return self._waiting.class_of(job_id)

    # ---- for the cycle

    def snapshot(self, heads: int = 512) -> Snapshot:
        """A copy to decide on, with at most `heads` jobs of each class."""
        self._forget_unasked()
        if self._identities is None:
            self._identities = tuple(identity(record) for record in self._records)
        classes = tuple(
            WaitingClass(one.id, one.shape, len(one.line), one.line.heads(heads))
            for one in self._waiting.active.values()
        )
        return Snapshot(self._columns.copy(), self._identities, classes)

    # ---- inside

    def _new_slot(self) -> int:
        if self._unused:
            return heapq.heappop(self._unused)
        slot = len(self._slots)
        if slot == self._columns.capacity:
            self._columns = grown(self._columns)
            self._records += [None] * (self._columns.capacity - slot)
        return slot

    def _set_healthy(self, name: str) -> None:
        slot = self._slots.get(name)
        if slot is not None:
            record = self._records[slot]
            self._columns.healthy[slot] = name in self._ready and record is not None and not record.cordoned

    def _set_free(self, name: str) -> None:
        slot = self._slots.get(name)
        record = None if slot is None else self._records[slot]
        if slot is None or record is None:
            return
        used = self._used.get(name)
        self._columns.cpu_milli_free[slot] = record.info.cpu_milli - (used.cpu_milli if used else 0)
        self._columns.memory_mib_free[slot] = record.info.memory_mib - (used.memory_mib if used else 0)

    def _set_gpus(self, name: str) -> None:
        slot = self._slots.get(name)
        if slot is None:
            return
        used = self._used.get(name)
        all_of_them = self._columns.gpus[None].masks[slot]
        self._columns.set_gpu_free_mask(slot, all_of_them & ~(used.gpu_mask() if used else 0))

    def _change(self, placements: tuple[Placement, ...], sign: int) -> None:
        for place in placements:
            used = self._used.get(place.node)
            if used is None:
                used = self._used[place.node] = _Used()
            used.add(place, sign)
            if used.jobs == 0:
                del self._used[place.node]
            self._set_free(place.node)
            if place.gpus:
                self._set_gpus(place.node)

    def _know(self, shape: Shape) -> None:
        """Makes sure there are columns for the model and the selector of a shape."""
        columns = self._columns
        if shape.gpu_model not in columns.gpus:
            masks = [gpu_mask(record.info, shape.gpu_model) if record else 0 for record in self._records]
            total = np.array([mask.bit_count() for mask in masks], np.int64)
            left = [mask & free for mask, free in zip(masks, columns.gpu_free_masks, strict=True)]
            free = np.array([mask.bit_count() for mask in left], np.int64)
            columns.gpus[shape.gpu_model] = GpuColumn(shape.gpu_model, masks, total, free)
        if shape.selector not in columns.selected:
            found = [record is not None and matches(record.info, shape.selector) for record in self._records]
            columns.selected[shape.selector] = np.array(found, np.bool_)

    def _forget_unasked(self) -> None:
        """Drops columns that no waiting job asks for, once they outnumber those that some do."""
        columns, active = self._columns, self._waiting.active
        if len(columns.selected) + len(columns.gpus) <= 2 * len(active) + 16:
            return
        shapes = [one.shape for one in active.values()]
        models, selectors = {None, *(shape.gpu_model for shape in shapes)}, {shape.selector for shape in shapes}
        columns.gpus = {model: column for model, column in columns.gpus.items() if model in models}
        columns.selected = {selector: mask for selector, mask in columns.selected.items() if selector in selectors}
