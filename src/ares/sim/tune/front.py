"""Several aims at once: which candidates are dominated, and which to keep (the Pareto front)."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ares.sim.traces.summary import Summary

Costs = NDArray[np.float64]


class Aim(NamedTuple):
    """What is to become better."""

    name: str
    # The figure of a summary that it is judged by.
    field: str
    better: Literal["low", "high"]

    def cost(self, found: Summary) -> float:
        """Less is better, whatever the figure."""
        value = float(getattr(found, self.field))
        return value if self.better == "low" else -value


AIMS = {
    aim.name: aim
    for aim in (
        Aim("slowdown", "bounded_slowdown", "low"),
        Aim("wait", "mean_wait_s", "low"),
        Aim("jct", "mean_jct_s", "low"),
        Aim("utilisation", "gpu_utilisation", "high"),
        Aim("fragmentation", "fragmentation", "low"),
        Aim("makespan", "makespan_s", "low"),
        Aim("fairness", "jain", "high"),
        Aim("deadlines", "deadline_misses", "low"),
        Aim("cost", "cost", "low"),
        Aim("energy", "energy_kwh", "low"),
    )
}
# Unless told: those that concern every cluster, then those that the base profile has a figure for.
_ALWAYS, _IF_ANY = ("slowdown", "utilisation", "fairness"), ("deadlines", "cost", "energy")


def aims(names: Sequence[str], base: Summary) -> tuple[Aim, ...]:
    """By name, each once, or the usual ones. Where there are no GPUs, use is that of CPUs."""
    usual = (*_ALWAYS, *(name for name in _IF_ANY if getattr(base, AIMS[name].field)))
    found = (AIMS[name] for name in dict.fromkeys(names or usual))
    return tuple(
        aim._replace(field="cpu_utilisation") if aim.name == "utilisation" and not base.gpu_utilisation else aim
        for aim in found
    )


def costs(goals: Sequence[Aim], summaries: Sequence[Summary]) -> Costs:
    """A row per summary, a column per aim. A run that leaves more jobs unfinished than another is ranked last."""
    table = np.array([[aim.cost(summary) for aim in goals] for summary in summaries], dtype=np.float64)
    unfinished = np.array([summary.unfinished for summary in summaries])
    table[unfinished > unfinished.min()] = np.inf
    return table


def beaten(table: Costs) -> NDArray[np.bool_]:
    """Whether another one is at least as good in all and better in one. Of equals, the first stays."""
    found = np.zeros(len(table), dtype=np.bool_)
    for at, row in enumerate(table):
        no_worse = (table <= row).all(axis=1)
        better = (table < row).any(axis=1)
        same_before = (table == row).all(axis=1) & (np.arange(len(table)) < at)
        found[at] = bool((no_worse & better).any() or same_before.any())
    return found


def best(table: Costs, count: int) -> list[int]:
    """The `count` best: layer by layer of those not beaten, within a layer the ones that stand apart."""
    left, kept = np.arange(len(table)), list[int]()
    while len(left) and len(kept) < count:
        layer = left[~beaten(table[left])]
        kept += _apart(table, layer)[: count - len(kept)]
        left = np.setdiff1d(left, layer)
    return kept


def _apart(table: Costs, layer: NDArray[np.int64]) -> list[int]:
    """The ends of every aim first, then by distance between the neighbours on both sides."""
    room = np.zeros(len(layer))
    for column in table[layer].T:
        order = np.argsort(column, kind="stable")
        low, high = column[order[0]], column[order[-1]]
        room[order[[0, -1]]] = np.inf
        if np.isfinite(high) and high > low and len(order) > 2:
            room[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / (high - low)
    return [int(layer[at]) for at in np.argsort(-room, kind="stable")]
