"""How much of the idle GPU is of no use to the jobs that are common in a trace."""

from collections.abc import Iterable

import numpy as np

from ares.core.ask import asks_of
from ares.core.capacity.node_slice import Typical
from ares.core.capacity.node_table import Ints, NodeTable
from ares.core.capacity.typical import Typicals
from ares.model.job import JobSpec

# Shapes beyond this share of all jobs are too rare to matter.
_COMMON = 0.95
_SHAPES_MAX = 16


def common_shapes(specs: Iterable[JobSpec]) -> tuple[Typical, ...]:
    """The most frequent shapes with GPUs, as the scheduler counts them, until they make up nearly all jobs."""
    counts = Typicals()
    for spec in specs:
        counts.count(asks_of(spec, "")[0])
    found: list[Typical] = []
    for shape in sorted(counts.top(), key=lambda one: -one.share)[:_SHAPES_MAX]:
        found.append(shape)
        if sum(one.share for one in found) >= _COMMON:
            break
    total = sum(one.share for one in found)
    return tuple(shape._replace(share=shape.share / total) for shape in found)


def fragmentation(table: NodeTable, shapes: tuple[Typical, ...]) -> float:
    """The share of idle GPU that is useless to a common job, by how common it is: all that is idle on a node that
    cannot take it, and pieces too small for it on one that can."""
    left: Ints = np.where(table.healthy[:, None], np.maximum(table.gpu_left, 0), 0)
    idle = left.sum(axis=1)
    total = int(idle.sum())
    if not total or not shapes:
        return 0.0
    useless = 0.0
    for shape in shapes:
        enough = left >= shape.gpu_milli
        takes = (enough.sum(axis=1) >= shape.gpus) & (table.cpu_free >= shape.cpu_milli)
        if shape.gpu_model is not None or shape.gpu_memory_mib:
            takes &= table.answer_masks(shape.gpu_model, shape.gpu_memory_mib) != 0
        pieces: Ints = np.where(enough, 0, left).sum(axis=1)
        useless += shape.share * int(np.where(takes, pieces, idle).sum())
    return useless / total
