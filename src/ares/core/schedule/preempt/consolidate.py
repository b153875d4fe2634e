"""Moving running jobs together so that a large place or a whole node becomes free: a plan with its cost, not an act.

Greedy. Each job fits at its target when its turn comes, in the order of the plan, and what the plan is for grows in the
end; otherwise the plan is empty and says why. A job moves by checkpoint and requeue, with its new place held for it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ares.core.schedule.preempt.field import Field, lay_out, least_cost
from ares.core.schedule.preempt.fit import Site, ranks_everywhere
from ares.core.schedule.preempt.holders import Bools, EvictionCandidate, Freed, RoomColumns, RoomRequest, lost_gpu_ms
from ares.core.schedule.preempt.screen import Screened, without
from ares.core.schedule.preempt.search import UNBOUND, Candidate, SearchBudget, Stand, cheapest

# Nodes that are tried for each further place, the cheapest first.
NODES_MAX = 64
_NODE_STEPS = 5_000

# The mask of a node's GPUs that a job may use; None when the job may not be there at all.
Answers = Callable[[EvictionCandidate, int], int | None]


class MakeRoom(NamedTuple):
    """All ranks of the request fit."""

    request: RoomRequest


class Vacate(NamedTuple):
    """These nodes are emptied, whatever it takes: jobs that fit nowhere else have to wait."""

    slots: tuple[int, ...]


class FreeNodes(NamedTuple):
    """So many more nodes are empty. No job moves to an empty node, and every job has a place to go to."""

    nodes: int


Goal = MakeRoom | Vacate | FreeNodes


class Move(NamedTuple):
    """One job with the ranks that move: (from slot, to slot). A gang's other ranks come back where they are."""

    job: str
    ranks: tuple[tuple[int, int], ...]
    lost_gpu_s: float


class Moves(NamedTuple):
    """In this order. `before` and `after` count what the goal is about: places for a rank, or empty nodes."""

    moves: tuple[Move, ...]
    # Jobs that must leave and fit nowhere now.
    homeless: tuple[str, ...]
    lost_gpu_s: float
    before: int
    after: int
    # Why there is no plan; empty when there is one.
    reason: str


class _Ground:
    """The rooms while jobs are moved about: what is free, and how to take back a move that did not work out."""

    def __init__(self, rooms: RoomColumns) -> None:
        devices = {kind: free.copy() for kind, free in rooms.devices.items()}
        self.rooms = replace(
            rooms, cpu_milli=rooms.cpu_milli.copy(), memory_mib=rooms.memory_mib.copy(), gpus=rooms.gpus.copy(),
            devices=devices,
        )  # fmt: skip
        self._row = {slot: row for row, slot in enumerate(rooms.slots.tolist())}
        self._done: list[tuple[int, Freed, int]] = []

    def mark(self) -> int:
        return len(self._done)

    def back_to(self, mark: int) -> None:
        while len(self._done) > mark:
            slot, freed, sign = self._done.pop()
            self._apply(slot, freed, -sign)

    def since(self, mark: int) -> list[tuple[int, Freed, int]]:
        return self._done[mark:]

    def give(self, slot: int, freed: Freed, sign: int) -> None:
        # Nodes that are not among the rooms only lose jobs: nothing can move there.
        if slot in self._row:
            self._apply(slot, freed, sign)
            self._done.append((slot, freed, sign))

    def target(
        self, holder: EvictionCandidate, freed: Freed, closed: Bools, answers: Answers
    ) -> tuple[int, Freed] | None:
        """The node that is left with the least where this rank fits, and what it takes there."""
        rooms, milli = self.rooms, max((milli for _, milli in freed.gpus), default=0)
        fits = ~closed & (rooms.cpu_milli >= freed.cpu_milli) & (rooms.memory_mib >= freed.memory_mib)
        for kind, count in freed.devices:
            fits &= rooms.devices.get(kind, np.zeros(len(rooms), np.int64)) >= count
        if milli:
            fits &= (rooms.gpus >= milli).sum(axis=1) >= len(freed.gpus)
        rows = np.flatnonzero(fits)
        order = np.lexsort((rooms.slots[rows], rooms.cpu_milli[rows], rooms.gpus[rows].sum(axis=1)))
        for row in rows[order].tolist():
            mask = answers(holder, rooms.slots.item(row))
            left: list[int] = rooms.gpus[row].tolist()
            usable = [
                index for index, rest in enumerate(left) if mask is not None and mask >> index & 1 and rest >= milli
            ]
            if mask is not None and (not milli or len(usable) >= len(freed.gpus)):
                # The GPUs with the least left: what is whole stays whole.
                taken = sorted(usable, key=lambda index: (left[index], index))[: len(freed.gpus)]
                return rooms.slots.item(row), freed._replace(gpus=tuple((index, milli) for index in taken))
        return None

    def _apply(self, slot: int, freed: Freed, sign: int) -> None:
        row, rooms = self._row[slot], self.rooms
        rooms.cpu_milli[row] += sign * freed.cpu_milli
        rooms.memory_mib[row] += sign * freed.memory_mib
        for index, milli in freed.gpus:
            rooms.gpus[row, index] += sign * milli
        for kind, count in freed.devices:
            rooms.devices.setdefault(kind, np.zeros(len(rooms), np.int64))[row] += sign * count


def consolidate(rooms: RoomColumns, screened: Screened, goal: Goal, answers: Answers) -> Moves:
    """Which jobs to move where. `screened` is by the rule "consolidate", or "drain" to vacate nodes."""
    match goal:
        case MakeRoom(request):
            return _make_room(rooms, screened, request, answers)
        case Vacate(slots):
            return _vacate(rooms, screened, slots, answers)
        case FreeNodes(nodes):
            return _free_nodes(rooms, screened, nodes, answers)


def _move(
    ground: _Ground, holder: EvictionCandidate, away: Iterable[int], closed: Bools, answers: Answers
) -> Move | None:
    """Moves the holder's ranks off these nodes, or nothing at all."""
    mark, leaving = ground.mark(), set(away)
    # All ranks that move are gone before the first one starts anew; they do not move onto each other's old places.
    going = [(slot, freed) for slot, freed in holder.at if slot in leaving]
    for slot, freed in going:
        ground.give(slot, freed, 1)
    ranks: list[tuple[int, int]] = []
    for slot, freed in sorted(going, key=lambda part: (-len(part[1].gpus), -part[1].cpu_milli, part[0])):
        found = ground.target(holder, freed, closed, answers)
        if found is None:
            ground.back_to(mark)
            return None
        ground.give(found[0], found[1], -1)
        ranks.append((slot, found[0]))
    return Move(holder.job, tuple(ranks), lost_gpu_ms(holder) / 1000)


def _move_all(
    ground: _Ground, holders: Sequence[EvictionCandidate], away: Iterable[int], closed: Bools, answers: Answers
) -> tuple[list[Move], list[str]]:
    """Moves the holders, the largest first; also returns the jobs that found no place."""
    moves: list[Move] = []
    homeless: list[str] = []
    for holder in sorted(holders, key=lambda moving: (-moving.gpus_milli, -moving.cpu_milli, moving.job)):
        move = _move(ground, holder, away, closed, answers)
        if move is None:
            homeless.append(holder.job)
        else:
            moves.append(move)
    return moves, homeless


def _plan(
    screened: Screened, moves: Sequence[Move], homeless: Sequence[str], before: int, after: int, reason: str = ""
) -> Moves:
    jobs = {*homeless, *(move.job for move in moves)}
    lost = sum(lost_gpu_ms(holder) for holder in screened.holders if holder.job in jobs)
    return Moves(tuple(moves), tuple(homeless), lost / 1000, before, after, reason)


def _make_room(rooms: RoomColumns, screened: Screened, request: RoomRequest, answers: Answers) -> Moves:
    ground, rest = _Ground(rooms), screened
    before = places = int(ranks_everywhere(request, rooms).sum())
    moves: list[Move] = []
    while places < request.ranks:
        more = _one_place(ground, rest, request, answers)
        if more is None:
            reason = (
                f"there is room for {before} of {request.ranks} now and {places} after {len(moves)} moves; "
                f"none of the other {len(rest.holders)} jobs that may move makes more room: evict, add nodes, or wait"
            )
            return _plan(screened, (), (), before, before, reason)
        moves += more
        # A job that moved is left alone from now on.
        rest = without(rest, {move.job for move in more})
        places = int(ranks_everywhere(request, ground.rooms).sum())
    return _plan(screened, moves, (), before, places)


def _one_place(ground: _Ground, screened: Screened, request: RoomRequest, answers: Answers) -> list[Move] | None:
    """Moves for one more rank of the request, done on the ground: the cheapest of the nodes that are tried."""
    field = lay_out(request, ground.rooms, screened)
    rows = field.helpful
    if not len(rows):
        return None
    least = least_cost(field, rows)
    best: tuple[int, list[Move], list[tuple[int, Freed, int]]] | None = None
    for i in np.lexsort((least.first, least.cost)).tolist()[:NODES_MAX]:
        if best is not None and least.cost.item(i) >= best[0]:
            break
        mark = ground.mark()
        moves = _clear(ground, field, rows.item(i), answers)
        if moves is not None:
            cost = sum(round(move.lost_gpu_s * 1000) for move in moves)
            if best is None or cost < best[0]:
                best = cost, moves, ground.since(mark)
        ground.back_to(mark)
    if best is None:
        return None
    for slot, freed, sign in best[2]:
        ground.give(slot, freed, sign)
    return best[1]


def _clear(ground: _Ground, field: Field, row: int, answers: Answers) -> list[Move] | None:
    """Moves for one more rank on this node, done on the ground: the cheapest jobs that all have places to go to."""
    slot = field.rooms.slots.item(row)
    here = [field.candidate(holder, {slot: row}) for holder in field.holders_on(row)]
    only_this = np.arange(len(field.rooms)) == row
    mark = ground.mark()
    # A node with room for the request may lose it to the jobs that move: then such nodes are closed as well.
    for closed in (only_this, only_this | (field.now > 0)):
        moves = _relocate(ground, field, here, row, closed, answers)
        if moves is not None and int(ranks_everywhere(field.request, ground.rooms).sum()) > int(field.now.sum()):
            return moves
        ground.back_to(mark)
    return None


def _relocate(
    ground: _Ground, field: Field, here: Sequence[Candidate], row: int, closed: Bools, answers: Answers
) -> list[Move] | None:
    slot, mark = field.rooms.slots.item(row), ground.mark()
    while True:
        ground.back_to(mark)
        site: Site = field.site(row)
        key = cheapest(Stand({row: site}), here, site.ranks + 1, UNBOUND, SearchBudget(_NODE_STEPS))
        if key is None:
            return None
        holders = [field.screened.holders[holder] for holder in key[2]]
        moves, homeless = _move_all(ground, holders, (slot,), closed, answers)
        if not homeless:
            return moves
        # Without the jobs that have nowhere to go: fewer each time, so this ends.
        here = [candidate for candidate in here if field.screened.holders[candidate.holder].job not in homeless]


def _vacate(rooms: RoomColumns, screened: Screened, slots: tuple[int, ...], answers: Answers) -> Moves:
    ground, leaving = _Ground(rooms), set(slots)
    holders = [holder for holder in screened.holders if any(slot in leaving for slot, _ in holder.at)]
    occupied = screened.kept | {slot for holder in holders for slot, _ in holder.at}
    moves, homeless = _move_all(ground, holders, slots, np.isin(rooms.slots, slots), answers)
    before, after = len(leaving - occupied), len(leaving - screened.kept)
    stuck = len(leaving & screened.kept)
    reason = f"{stuck} of {len(leaving)} nodes have jobs that may not be moved" if stuck else ""
    return _plan(screened, moves, homeless, before, after, reason)


def _free_nodes(rooms: RoomColumns, screened: Screened, nodes: int, answers: Answers) -> Moves:
    ground = _Ground(rooms)
    by_slot: dict[int, list[EvictionCandidate]] = {}
    for holder in screened.holders:
        for slot in {slot for slot, _ in holder.at}:
            by_slot.setdefault(slot, []).append(holder)
    empty = ~np.isin(rooms.slots, [*by_slot, *screened.kept])
    before = int(empty.sum())
    moves: list[Move] = []
    # Nodes that a job stays on, moved to, or must come back to.
    settled = set(screened.kept)
    cost = {slot: sum(map(lost_gpu_ms, holders)) for slot, holders in by_slot.items()}
    for row in sorted(np.flatnonzero(~empty).tolist(), key=lambda row: (cost.get(rooms.slots.item(row), 0), row)):
        slot, mark = rooms.slots.item(row), ground.mark()
        if int(empty.sum()) >= before + nodes or slot in settled:
            continue
        closed = empty.copy()
        closed[row] = True
        more, homeless = _move_all(ground, by_slot[slot], (slot,), closed, answers)
        if homeless:
            ground.back_to(mark)
            continue
        empty[row] = True
        moves += more
        settled |= {target for move in more for _, target in move.ranks}
        settled |= {other for holder in by_slot[slot] for other, _ in holder.at} - {slot}
    after = int(empty.sum())
    reason = "" if moves else f"none of {len(by_slot)} nodes with jobs can be emptied: not all of theirs fit on others"
    return _plan(screened, moves, (), before, after, reason)
