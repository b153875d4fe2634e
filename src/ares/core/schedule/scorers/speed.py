"""Speed of the GPUs: nodes on which the job, by what it says itself, runs shorter are better."""

from functools import lru_cache

import numpy as np

from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Floats
from ares.core.forecast.estimate import Runs, runs_on
from ares.model.node import NodeRecord


def score(rows: NodeSlice) -> Floats | None:
    """1 where it runs shortest, 1/2 where it takes twice as long. None when the job does not tell models apart."""
    runs = rows.ask.runs
    return max(1e-3, min(seconds for _, seconds in runs)) / np.maximum(1e-3, _times(rows, runs)) if runs else None


def share_of_longest(rows: NodeSlice) -> Floats | float:
    """How long the job runs on each row, of the longest it says it does; 1 when it does not tell models apart."""
    runs = rows.ask.runs
    longest = max((seconds for _, seconds in runs), default=0.0)
    return np.minimum(1.0, _times(rows, runs) / longest) if longest > 0.0 else 1.0


def _times(rows: NodeSlice, runs: Runs) -> Floats:
    table = rows.table
    at = np.arange(table.rows)[rows.at]
    return np.array([_runs_there(runs, table.records[int(row)]) for row in at])


def _runs_there(runs: Runs, record: NodeRecord | None) -> float:
    return np.inf if record is None else _slowest(runs, tuple(gpu.model for gpu in record.info.gpus if not gpu.mig))


@lru_cache(4096)
def _slowest(runs: Runs, models: tuple[str, ...]) -> float:
    """On a machine with several GPU models it is not known which one the job gets: the slowest counts."""
    return max((runs_on(runs, model) for model in set(models)), default=np.inf)
