"""The earliest start of a job, found by ending the running jobs one after the other."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from math import inf

from ares.check.replay.node import AskedRoom, NodeLeft, domain, open_to
from ares.model.state import Placement

# The time of a release, and the placements released.
End = tuple[float, tuple[Placement, ...]]


def earliest(rooms: Mapping[str, NodeLeft], ends: Iterable[End], wished: tuple[AskedRoom, ...], now: float) -> float:
    """The earliest start over the job's alternatives, infinity when none ever fits. Later starts are not considered."""
    ahead = sorted((end for end in ends if end[0] < inf), key=_time)
    return min(_of_one(rooms, ahead, wish, now) for wish in wished)


def _of_one(rooms: Mapping[str, NodeLeft], ends: list[End], wish: AskedRoom, now: float) -> float:
    """The earliest start of one alternative. `rooms` is not changed: nodes that change are copied."""
    nodes = {name: room for name, room in rooms.items() if open_to(room.info, wish.spec)}
    domains = {name: domain(room.info, wish.level) for name, room in nodes.items()}
    fits = {name: room.ranks(wish) for name, room in nodes.items()}
    total: Counter[tuple[str, ...]] = Counter()
    for name, count in fits.items():
        total[domains[name]] += count
    if max(total.values(), default=0) >= wish.ranks_min:
        return now
    mine: dict[str, NodeLeft] = {}
    for at, group in groupby(ends, key=_time):
        changed: set[str] = set()
        for _, placements in group:
            for place in placements:
                if place.node in nodes:
                    if place.node not in mine:
                        mine[place.node] = nodes[place.node].copy()
                    mine[place.node].add(place, +1)
                    changed.add(place.node)
        for name in changed:
            count = mine[name].ranks(wish)
            total[domains[name]] += count - fits[name]
            fits[name] = count
            if total[domains[name]] >= wish.ranks_min:
                return max(now, at)
    return inf


def _time(end: End) -> float:
    return end[0]
