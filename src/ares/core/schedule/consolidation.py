"""Room made by moving running jobs together: which go where, down to the GPU, and what it costs. Nothing is changed.

The choice is `evict.consolidate`'s; here each move is tried on the columns with all that the job asks for, and what
does not come together is left alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace as with_changes
from typing import NamedTuple

import numpy as np

from ares.core.schedule.actions.evict import holders, request_of, rooms_of
from ares.core.schedule.ask import Ask
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.evict.consolidate import MakeRoom, Move, Moves, consolidate
from ares.core.schedule.evict.holders import Asker, Holder, Rooms
from ares.core.schedule.evict.screen import Screened, census, screen, without
from ares.core.schedule.gang import widest_allowed
from ares.core.schedule.holding import Holding
from ares.core.schedule.round import HELD_BACK, Round
from ares.core.schedule.transaction import Taken, fit, placement, taken_by
from ares.model.state import Placement

# Jobs that turn out not to fit where they were to go are left alone, so often.
_TRIES_MAX = 8
_NOBODY = Asker("", 0, "")

AskOf = Callable[[str], Ask | None]


class Relocation(NamedTuple):
    """One job on its way: where it is, and what is free now and kept for it."""

    job: str
    origin: tuple[Placement, ...]
    hold: tuple[Placement, ...]
    lost_gpu_s: float


class Consolidation(NamedTuple):
    """`before` and `after` count nodes with the room wanted. Without moves `reason` says why there are none."""

    moves: tuple[Relocation, ...]
    lost_gpu_s: float
    before: int
    after: int
    reason: str


def consolidation(cluster: Cluster, ask_of: AskOf, gpus: int, nodes: int, now: float) -> Consolidation:
    """Moves after which `nodes` nodes have `gpus` free GPUs each. `ask_of` tells what a running job asks for."""
    cluster.prepare()
    round_ = Round(cluster, cluster.profile, now)
    wanted = Ask(gpus=gpus, ranks=nodes, min_ranks=nodes, per_node=1)
    rooms = _rooms(round_, wanted)
    screened = screen(census(holders(round_, set())), _NOBODY, cluster.profile.preemption, "consolidate")
    asks = {one.job: ask for one in screened.holders if (ask := ask_of(one.job)) is not None and not ask.near}
    screened = without(screened, {one.job for one in screened.holders} - asks.keys())
    goal = MakeRoom(request_of(wanted))

    def answers(holder: Holder, row: int) -> int | None:
        return _mask(round_, asks[holder.job], row)

    found = consolidate(rooms, screened, goal, answers)
    if not found.moves and found.reason:
        # The search tries the cheapest nodes only: those with jobs that fit nowhere now must not take all its tries.
        screened = without(screened, {one.job for one in screened.holders} - _movable(rooms, screened))
        found = consolidate(rooms, screened, goal, answers)
    for _ in range(_TRIES_MAX):
        moved, stuck = _relocate(round_, asks, found)
        round_.txn.rollback(0)
        if stuck is None:
            return Consolidation(moved, found.lost_gpu_s, found.before, found.after, _reason(found))
        screened = without(screened, {stuck})
        found = consolidate(rooms, screened, goal, answers)
    reason = f"{_TRIES_MAX} jobs that were to move do not fit elsewhere with all they ask for; add nodes, or wait"
    return Consolidation((), 0.0, found.before, found.before, reason)


def still_fit(cluster: Cluster, moves: Iterable[Relocation]) -> str:
    """Why these moves are no longer possible one after the other, or nothing."""
    cluster.prepare()
    round_ = Round(cluster, cluster.profile, 0.0)
    try:
        for move in moves:
            held = cluster.holdings.get(move.job)
            if held is None or held.leaving or held.placements != move.origin:
                return f"job {move.job} is no longer where it was"
            _give(round_, held)
            for place in move.hold:
                row = cluster.rows.get(place.node)
                if row is None or not _is_free(round_, row, place):
                    return f"the room for job {move.job} on {place.node} is taken"
                round_.txn.take(taken_by(cluster.table, row, place))
            _stay_on(round_, held, move.hold)
    finally:
        round_.txn.rollback(0)
    return ""


def _reason(found: Moves) -> str:
    if found.moves or found.reason:
        return found.reason
    return f"nothing has to move: {found.after} nodes have the room now"


def _rooms(round_: Round, wanted: Ask) -> Rooms:
    """With all kinds of devices: those who move may hold some."""
    rows = round_.rows_held_back(wanted)
    rooms = rooms_of(round_, wanted, rows)
    kinds = {kind for one in round_.cluster.holdings.values() for place in one.placements for kind in place.devices}
    seen = round_.evaluations.rows(wanted, rows)
    return with_changes(rooms, devices={kind: seen.devices_free(kind) for kind in sorted(kinds)})


def _movable(rooms: Rooms, screened: Screened) -> set[str]:
    """Jobs each rank of which some node has the GPUs for as it is."""
    largest: dict[int, int] = {}
    movable: set[str] = set()
    for one in screened.holders:
        wants = [(len(freed.gpus), max(milli for _, milli in freed.gpus)) for _, freed in one.at if freed.gpus]
        for milli in {milli for _, milli in wants} - largest.keys():
            largest[milli] = int((rooms.gpus >= milli).sum(axis=1).max(initial=0))
        if all(count <= largest[milli] for count, milli in wants):
            movable.add(one.job)
    return movable


def _mask(round_: Round, ask: Ask, row: int) -> int | None:
    """The GPUs of a node that a job may use; None when something other than room keeps it away."""
    evaluations = round_.evaluations
    stage, names = int(evaluations.of(ask).stage[row]), [name for name, _ in evaluations.rules.filters]
    if stage < len(names) and names[stage] not in HELD_BACK:
        return None
    answers = evaluations.rows(ask, np.array([row])).gpu_answers[0]
    return sum(1 << index for index, answer in enumerate(answers.tolist()) if answer)


# ---- each move on the columns


def _relocate(round_: Round, asks: dict[str, Ask], found: Moves) -> tuple[tuple[Relocation, ...], str | None]:
    """The moves with their places, taken; or the first job that does not fit where it was to go."""
    done: list[Relocation] = []
    for move in found.moves:
        holding = round_.cluster.holdings[move.job]
        _give(round_, holding)
        hold = _places(round_, asks[move.job], holding, move)
        if hold is None:
            return (), move.job
        _stay_on(round_, holding, hold)
        done.append(Relocation(move.job, holding.placements, hold, move.lost_gpu_s))
    return tuple(done), None


def _stay_on(round_: Round, holding: Holding, hold: tuple[Placement, ...]) -> None:
    """What it leaves is nobody's for now: who waited for it to leave could be placed elsewhere meanwhile."""
    cluster = round_.cluster
    kept = {(place.node, place.gpus) for place in hold}
    for place in holding.placements:
        if (place.node, place.gpus) not in kept:
            round_.txn.take(taken_by(cluster.table, cluster.rows[place.node], place))


def _give(round_: Round, holding: Holding) -> None:
    cluster = round_.cluster
    for place in holding.placements:
        row = cluster.rows.get(place.node)
        if row is not None:
            round_.txn.give(taken_by(cluster.table, row, place))


def _places(round_: Round, ask: Ask, holding: Holding, move: Move) -> tuple[Placement, ...] | None:
    """One for each rank, numbered anew: those that move get what fits there, the others what they had."""
    table, rows = round_.cluster.table, round_.cluster.rows
    targets: dict[int, list[int]] = {}
    for origin, target in move.ranks:
        targets.setdefault(origin, []).append(target)
    goals = [going.pop(0) if (going := targets.get(rows[place.node])) else None for place in holding.placements]
    taken = [taken_by(table, rows[place.node], place) for place in holding.placements]
    # Those that stay come first: nobody else of the gang may be given their GPUs.
    for one, goal in zip(taken, goals, strict=True):
        if goal is None:
            round_.txn.take(one)
    for rank, goal in enumerate(goals):
        one = None if goal is None else _fits(round_, ask, goal)
        if one is not None:
            round_.txn.take(one)
            taken[rank] = one
        elif goal is not None:
            return None
    if not _together(round_, ask, [one.row for one in taken]):
        return None
    return tuple(placement(table, one, rank) for rank, one in enumerate(taken))


def _fits(round_: Round, ask: Ask, row: int) -> Taken | None:
    evaluations = round_.evaluations
    passes = evaluations.stages(evaluations.rows(ask, np.array([row])))[0] == len(evaluations.rules.filters)
    return fit(round_.cluster.table, ask, row) if passes else None


def _together(round_: Round, ask: Ask, rows: list[int]) -> bool:
    """Whether a gang is as close together, and as far apart, as it must be."""
    most = max(Counter(rows).values())
    if ask.per_node and most > ask.per_node:
        return False
    level = "node" if ask.level == "nvlink" and ask.level_required else widest_allowed(ask)
    if level == "cluster" or len(rows) == 1:
        return True
    numbers = round_.evaluations.rows(ask, np.array(rows)).domain(level).tolist()
    return len(set(numbers)) == 1 and numbers[0] > 0


def _is_free(round_: Round, row: int, place: Placement) -> bool:
    table = round_.cluster.table
    record = table.records[row]
    if record is None or record.incarnation != place.incarnation or not table.healthy[row]:
        return False
    one = taken_by(table, row, place)
    free = all(table.gpu_left[row, gpu] >= one.gpu_milli for gpu in one.gpus)
    clear = all(not table.devices_taken[kind][row] & bits for kind, bits in one.devices)
    return free and clear and bool(table.cpu_free[row] >= one.cpu_milli and table.memory_free[row] >= one.memory_mib)
