"""Scorers: which of the nodes that can take a job is best. One file each, weighted by a profile."""

from collections.abc import Callable

from ares.core.queue.waiting import Shape
from ares.core.schedule.columns import Column, Nodes
from ares.core.schedule.scorers import balance, fit

# Works on whole columns and on one node's plain numbers alike; about 0..1 for nodes that can take the job.
Scorer = Callable[[Nodes, Shape], Column]

SCORERS: dict[str, Scorer] = {
    "balance": balance.score,
    "fit": fit.score,
}
