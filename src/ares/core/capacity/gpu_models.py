"""Which GPU models a job that tells them apart could run on: on one of them, or on several as it comes."""

from collections.abc import Iterator
from typing import NamedTuple

from ares.core.ask import Ask
from ares.core.capacity.node_table import NodeTable
from ares.core.forecast.by_model import runs_on


class ModelChoice(NamedTuple):
    """The ask as it would be for that choice, and how long it runs then. `slowest` is the model that decides it."""

    ask: Ask
    model: str | None
    slowest: str
    runs_s: float


def choices(table: NodeTable, ask: Ask) -> Iterator[ModelChoice]:
    """None for asks that do not tell models apart."""
    records = [record for record in table.records if record is not None]
    models = sorted({gpu.model for record in records for gpu in record.info.gpus if not gpu.mig})
    if not ask.runs or not models:
        return
    if ask.gpu_model is None:
        for model in models:
            yield ModelChoice(ask._replace(gpu_model=model, runs=()), model, model, runs_on(ask.runs, model))
    if ask.gpu_model is not None or ask.gpus * ask.ranks > 1:
        slowest = max(models, key=lambda model: runs_on(ask.runs, model))
        slowest = slowest if ask.gpu_model is None else ask.gpu_model
        yield ModelChoice(ask._replace(runs=()), None, slowest, runs_on(ask.runs, slowest))
