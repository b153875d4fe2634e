"""Nodes as columns: one integer array per quantity, kept up to date node by node."""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ares.core.queue.waiting import Shape
from ares.model.node import NodeInfo

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
# A column over all nodes, or one node's plain number: the same arithmetic serves both.
Column = Any

_CAPACITY = 16


class Nodes(NamedTuple):
    """What filters and scorers see, as one class of jobs sees it: GPUs are those of the model it asks for."""

    cpu_milli: Column
    cpu_milli_free: Column
    memory_mib: Column
    memory_mib_free: Column
    gpus: Column
    gpus_free: Column
    healthy: Column
    selected: Column


@dataclass(slots=True)
class GpuColumn:
    """GPUs that answer to one asked-for model (None: any). Bit i of a mask is the GPU with index i."""

    model: str | None
    masks: list[int]
    total: Ints
    free: Ints

    def copy(self) -> "GpuColumn":
        return GpuColumn(self.model, self.masks.copy(), self.total.copy(), self.free.copy())

    def draft(self) -> "GpuColumn":
        return GpuColumn(self.model, self.masks, self.total, self.free.copy())


@dataclass(slots=True)
class Columns:
    """Every quantity of every node slot. A slot that is not used has nothing free and is not healthy."""

    cpu_milli: Ints
    cpu_milli_free: Ints
    memory_mib: Ints
    memory_mib_free: Ints
    exists: Bools
    healthy: Bools
    gpu_free_masks: list[int]
    gpus: dict[str | None, GpuColumn]
    selected: dict[tuple[tuple[str, str], ...], Bools]

    @property
    def capacity(self) -> int:
        return len(self.exists)

    def copy(self) -> "Columns":
        return Columns(
            self.cpu_milli.copy(), self.cpu_milli_free.copy(), self.memory_mib.copy(), self.memory_mib_free.copy(),
            self.exists.copy(), self.healthy.copy(), self.gpu_free_masks.copy(),
            {model: column.copy() for model, column in self.gpus.items()},
            {selector: mask.copy() for selector, mask in self.selected.items()},
        )  # fmt: skip

    def draft(self) -> "Columns":
        """A copy of what placing a job changes; the rest is shared."""
        return Columns(
            self.cpu_milli, self.cpu_milli_free.copy(), self.memory_mib, self.memory_mib_free.copy(),
            self.exists, self.healthy, self.gpu_free_masks.copy(),
            {model: column.draft() for model, column in self.gpus.items()}, self.selected,
        )  # fmt: skip

    def seen_by(self, shape: Shape) -> Nodes:
        """Whole columns, as jobs of this shape see them."""
        gpus = self.gpus[shape.gpu_model]
        return Nodes(
            self.cpu_milli, self.cpu_milli_free, self.memory_mib, self.memory_mib_free,
            gpus.total, gpus.free, self.healthy, self.selected[shape.selector],
        )  # fmt: skip

    def one(self, shape: Shape, slot: int) -> Nodes:
        """One node in plain numbers, many times faster than arrays of length one."""
        gpus = self.gpus[shape.gpu_model]
        return Nodes(
            self.cpu_milli.item(slot), self.cpu_milli_free.item(slot),
            self.memory_mib.item(slot), self.memory_mib_free.item(slot),
            gpus.total.item(slot), gpus.free.item(slot),
            self.healthy.item(slot), self.selected[shape.selector].item(slot),
        )  # fmt: skip

    def emptied(self, shape: Shape) -> Nodes:
        """The same nodes if all were ready and nothing ran: what could ever fit."""
        gpus = self.gpus[shape.gpu_model]
        return Nodes(
            self.cpu_milli, self.cpu_milli, self.memory_mib, self.memory_mib,
            gpus.total, gpus.total, self.exists, self.selected[shape.selector],
        )  # fmt: skip

    def set_gpu_free_mask(self, slot: int, mask: int) -> None:
        self.gpu_free_masks[slot] = mask
        for column in self.gpus.values():
            column.free[slot] = (mask & column.masks[slot]).bit_count()


def empty_columns() -> Columns:
    def zeros() -> Ints:
        return np.zeros(_CAPACITY, np.int64)

    return Columns(
        zeros() + 1, zeros(), zeros() + 1, zeros(), zeros() > 0, zeros() > 0, [0] * _CAPACITY,
        {None: GpuColumn(None, [0] * _CAPACITY, zeros(), zeros())}, {},
    )  # fmt: skip


def grown(old: Columns) -> Columns:
    """Twice the slots, with the same content."""
    more = old.capacity

    def longer(column: Any) -> Any:
        return np.concatenate([column, np.zeros(more, column.dtype)])

    def ones(column: Ints) -> Ints:
        return np.concatenate([column, np.ones(more, np.int64)])

    return Columns(
        ones(old.cpu_milli), longer(old.cpu_milli_free), ones(old.memory_mib), longer(old.memory_mib_free),
        longer(old.exists), longer(old.healthy), old.gpu_free_masks + [0] * more,
        {
            model: GpuColumn(model, column.masks + [0] * more, longer(column.total), longer(column.free))
            for model, column in old.gpus.items()
        },
        {selector: longer(mask) for selector, mask in old.selected.items()},
    )  # fmt: skip


def gpu_mask(info: NodeInfo, model: str | None) -> int:
    """The node's GPUs that answer to a model: every word of what is asked for is a word of the GPU's name."""
    wanted = _words(model or "")
    return sum({1 << gpu.index for gpu in info.gpus if wanted <= _words(gpu.model)})


def _words(name: str) -> frozenset[str]:
    # By whole words, so that "A10" does not get an A100.
    return frozenset(re.findall(r"[a-z0-9]+", name.casefold()))


def matches(info: NodeInfo, selector: tuple[tuple[str, str], ...]) -> bool:
    return all(info.labels.get(key) == value for key, value in selector)
