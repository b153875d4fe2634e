"""Questions about the GPUs of rows that machines of one shape with the same GPUs free answer alike."""

from collections.abc import Callable

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools, Floats, Ints
from ares.core.topology.subset import MachineShape, largest_in_domain


def mask_of(gpus: Bools) -> Ints:
    """One number for each row: bit i is GPU i."""
    return gpus @ (1 << np.arange(gpus.shape[1], dtype=np.int64))


def by_machine(rows: NodeSlice, masks: Ints, answer: Callable[[MachineShape, int], float]) -> Floats:
    """`answer` for each row's machine and mask, asked once for all rows that have the same."""
    # By rank, as a mask may fill all bits of a number; sorting twice is still far cheaper than a loop over rows.
    kinds = np.unique(masks)
    keys = rows.machine * len(kinds) + np.searchsorted(kinds, masks)
    distinct = np.unique(keys)
    machines = rows.table.machines
    answers = [answer(machines[key // len(kinds)], int(kinds[key % len(kinds)])) for key in map(int, distinct)]
    return np.array(answers, np.float64)[np.searchsorted(distinct, keys)]


def one_domain(ask: Ask) -> bool:
    """Whether the GPUs of a rank must be joined by NVLink."""
    return ask.level == "nvlink" and ask.level_required and ask.gpus > 1


def most_in_domain(rows: NodeSlice, masks: Ints) -> Ints:
    """How many GPUs of the mask are in one NVLink domain, at most."""
    return by_machine(rows, masks, _most).astype(np.int64)


def _most(shape: MachineShape, mask: int) -> int:
    return max(largest_in_domain(shape, mask), default=0)
