"""The search: many points on a short part of the trace, the best of them on all of it, then children of the best."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ares.sim.traces.summary import Summary
from ares.sim.tune.front import Aim, beaten, best, costs
from ares.sim.tune.space import Point, Space

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
