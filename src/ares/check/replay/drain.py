"""Whether room that a job waits for longer than it was promised stays free of others: it is kept as it comes free."""

from collections.abc import Iterable, Iterator, Mapping

from ares.check.replay.decisions import AttemptStart, Promised
from ares.check.replay.earliest import End
from ares.check.replay.node import NodeLeft
from ares.model.state import Placement


def entered(
    rooms: Mapping[str, NodeLeft], ends: Iterable[End], promise: Promised, entrants: Iterable[AttemptStart]
) -> Iterator[AttemptStart]:
    """`rooms` is what is left beside all that run, the entrants among them; `ends` are of those that are thought to end
    by the old promise.

    Room beside what is promised may be had by anybody: what counts is what would be lacking with them and not without
    them, once those have ended."""
    given = [place for _, places in ends for place in places]
    for one in entrants:
        mine = {place.node for place in promise.placements if place.node in rooms}
        for name in sorted(mine.intersection(place.node for place in one.placements)):
            kept = rooms[name].copy()
            _add(kept, given, +1)
            _add(kept, promise.placements, -1)
            lacks = set(kept.overused(guaranteed=False))
            _add(kept, one.placements, +1)
            if lacks.difference(kept.overused(guaranteed=False)):
                yield one
                break


def _add(room: NodeLeft, places: Iterable[Placement], sign: int) -> None:
    for place in places:
        if place.node == room.info.name:
            room.add(place, sign)
