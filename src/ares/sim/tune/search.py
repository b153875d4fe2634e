"""The search: many points on a short part of the trace, the best of them on all of it, then children of the best."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ares.sim.traces.summary import Summary
from ares.sim.tune.space import Point, Space

# ---- several aims at once


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


# ---- the search


# The part of the trials that are drawn by chance; the others are children of the best.
_DRAWN = 0.6
# First on this part of the training jobs; the best third of them goes on to all.
_SHORT, _KEEP = 0.25, 1 / 3
_BROOD = 8
_CHANGE, _REACH = 0.25, 0.2

Settings = dict[str, str]
# Replays of profiles with these settings on the first part of the training jobs.
Evaluate = Callable[[Sequence[Settings], float], list[Summary]]


class TuneTrial(NamedTuple):
    """A profile that was tried on all training jobs."""

    settings: Settings
    summary: Summary
    point: Point


class SearchResult(NamedTuple):
    """The first trial is the base profile."""

    trials: tuple[TuneTrial, ...]
    # Which of them no other beats.
    front: tuple[int, ...]
    # How many profiles were looked at, those that were given up early among them.
    tried: int


def search(
    space: Space, aims: Sequence[Aim], evaluate: Evaluate, base: Summary, trials: int, seed: int
) -> SearchResult:
    """The same seed gives the same trials. `trials` counts every profile that is looked at beside the base."""
    chance = np.random.default_rng(seed)
    drawn = _drawn(space, chance, max(round(trials * _DRAWN), 1))
    points = _promising(space, aims, evaluate, drawn)
    found = [TuneTrial({}, base, space.start)]
    found += _tried(space, points, found, evaluate)
    tried = len(drawn)
    while tried < trials:
        # Enough at a time for all cores, few enough that later ones learn from earlier ones.
        count = min(_BROOD, trials - tried)
        parents = best(costs(aims, [trial.summary for trial in found]), _BROOD)
        points = _children(chance, [found[at].point for at in parents], count)
        found += _tried(space, points, found, evaluate)
        tried += count
    table = costs(aims, [trial.summary for trial in found])
    return SearchResult(tuple(found), tuple(np.flatnonzero(~beaten(table)).tolist()), tried)


def _drawn(space: Space, chance: np.random.Generator, count: int) -> list[Point]:
    """Half of them anywhere, half not far from the base profile."""
    anywhere = [chance.random(len(space.parameters)) for _ in range((count + 1) // 2)]
    return [*anywhere, *_children(chance, [space.start], count - len(anywhere))]


def _promising(space: Space, aims: Sequence[Aim], evaluate: Evaluate, drawn: Sequence[Point]) -> list[Point]:
    """Those that do best on a short part."""
    summaries = evaluate([space.settings(point) for point in drawn], _SHORT)
    kept = best(costs(aims, summaries), max(round(len(drawn) * _KEEP), 1))
    return [drawn[at] for at in sorted(kept)]


def _tried(space: Space, points: Sequence[Point], known: Sequence[TuneTrial], evaluate: Evaluate) -> list[TuneTrial]:
    """Only what was not tried before: several points may stand for the same settings."""
    all_of_them = ((space.settings(point), point) for point in points)
    fresh = {_key(settings): (settings, point) for settings, point in all_of_them}
    for trial in known:
        fresh.pop(_key(trial.settings), None)
    if not fresh:
        return []
    summaries = evaluate([settings for settings, _ in fresh.values()], 1.0)
    return [TuneTrial(settings, summary, at) for (settings, at), summary in zip(fresh.values(), summaries, strict=True)]


def _children(chance: np.random.Generator, parents: Sequence[Point], count: int) -> list[Point]:
    """Each has two parents, by chance the same, and a few places moved."""
    made: list[Point] = []
    for _ in range(count):
        parent, other = (parents[int(chance.integers(len(parents)))] for _ in range(2))
        child = np.where(chance.random(len(parent)) < 0.5, parent, other)
        moved = chance.random(len(child)) < _CHANGE
        # At least one, or it would be a copy.
        moved[int(chance.integers(len(child)))] = True
        child = np.where(moved, child + chance.normal(0.0, _REACH, len(child)), child)
        made.append(np.clip(child, 0.0, 1.0))
    return made


def _key(settings: Settings) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(settings.items()))
