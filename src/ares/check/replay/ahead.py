"""What will be free when: the earliest start of a job, and whether promises can be kept, all of them together with what
runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from math import inf

from ares.check.replay.decisions import AttemptStart, Promised
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


# Time, releases before allocations, a number that makes steps distinct; then the job, the sign and the placement.
_Step = tuple[float, int, int, int, int, Placement]


def overlaps(
    rooms: Mapping[str, NodeLeft], ends: Iterable[End], promises: tuple[Promised, ...], down: set[str]
) -> Iterator[tuple[int, str]]:
    """Simulates the future of every node with a promise on it, and yields jobs whose promise cannot be kept."""
    steps: dict[str, list[_Step]] = {}
    for promise in promises:
        for place in promise.placements:
            if place.node not in rooms or place.node in down:
                yield promise.job, f"was promised {place.node}, which is not there"
                continue
            mine = steps.setdefault(place.node, [])
            mine.append((promise.start, 1, len(mine), promise.job, -1, place))
            if promise.until is not None:
                mine.append((promise.until, 0, len(mine), promise.job, +1, place))
    for at, places in ends:
        for place in places if at < inf else ():
            mine = steps.get(place.node)
            if mine is not None:
                mine.append((at, 0, len(mine), -1, +1, place))
    for name, mine in steps.items():
        yield from _node(rooms[name].copy(), sorted(mine, key=lambda step: step[:3]))


def _node(room: NodeLeft, steps: list[_Step]) -> Iterator[tuple[int, str]]:
    for at, _, _, job, sign, place in steps:
        room.add(place, sign)
        if sign < 0:
            # A promise may use over-commitment as far as a running job may.
            words = next(room.overused(guaranteed=False), None)
            if words is not None:
                when = f"{round(at, 3):.15g} s"
                yield job, f"was promised what {room.info.name} will not have at {when}: {words} would be in use"
                return


# ---- room of a promise that slipped: it stays free of other jobs


def entered(
    rooms: Mapping[str, NodeLeft], ends: Iterable[End], promise: Promised, entrants: Iterable[AttemptStart]
) -> Iterator[AttemptStart]:
    """The entrants that took room of the promise. `rooms` is what all running jobs leave free, the entrants included;
    `ends` are the jobs that are expected to end by the old promise.

    Any job may use room beside the promised one. An entrant counts only if the promised room is short with it and
    not short without it, once those jobs have ended."""
    given = [place for _, places in ends for place in places]
    for entrant in entrants:
        mine = {place.node for place in promise.placements if place.node in rooms}
        for name in sorted(mine.intersection(place.node for place in entrant.placements)):
            kept = rooms[name].copy()
            _add(kept, given, +1)
            _add(kept, promise.placements, -1)
            lacks = set(kept.overused(guaranteed=False))
            _add(kept, entrant.placements, +1)
            if lacks.difference(kept.overused(guaranteed=False)):
                yield entrant
                break


def _add(room: NodeLeft, places: Iterable[Placement], sign: int) -> None:
    for place in places:
        if place.node == room.info.name:
            room.add(place, sign)
