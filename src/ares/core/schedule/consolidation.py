"""Room made by moving running jobs together: which job goes where, down to the GPU, and the cost. Nothing is changed.

`preempt.consolidate` chooses the moves. Here each one is tried on the columns with all that the job asks for; a job
that does not fit where it was to go is left alone.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace as with_changes
from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.holding import Holding
from ares.core.capacity.transaction import Allocation, fit, placement, taken_by
from ares.core.schedule.actions.evict import holders, request_of, rooms_of
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.gang import widest_allowed
from ares.core.schedule.preempt.consolidate import MakeRoom, Move, Moves, consolidate
from ares.core.schedule.preempt.holders import Asker, EvictionCandidate, RoomColumns
from ares.core.schedule.preempt.screen import Screened, census, screen, without
from ares.core.schedule.trial import HELD_BACK, Trial
from ares.model.job import Qos
from ares.model.state import Placement

# So many jobs that turn out not to fit where they were to go are left alone before the search gives up.
_TRIES_MAX = 8
_NOBODY = Asker("", 0, "")

AskOf = Callable[[str], Ask | None]


class Relocation(NamedTuple):
    """One move of a job: where it is, and the free room that is held for it."""

    job: str
    origin: tuple[Placement, ...]
    hold: tuple[Placement, ...]
    lost_gpu_s: float
    qos: Qos


class Obstacle(NamedTuple):
    """The first job that cannot move as planned, and why."""

    job: str
    reason: str


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
    with Trial.what_if(cluster, now) as trial:
        # No job is moved into what is booked.
        trial.claims.keep_booked()
        return _consolidation(trial, ask_of, gpus, nodes)


def _consolidation(trial: Trial, ask_of: AskOf, gpus: int, nodes: int) -> Consolidation:
    cluster, base = trial.cluster, trial.txn.checkpoint()
    wanted = Ask(gpus=gpus, ranks=nodes, min_ranks=nodes, per_node=1)
    rooms = _rooms(trial, wanted)
    screened = screen(census(holders(trial, set())), _NOBODY, cluster.profile.preemption, "consolidate")
    asks = {holder.job: ask for holder in screened.holders if (ask := ask_of(holder.job)) is not None and not ask.near}
    screened = without(screened, {holder.job for holder in screened.holders} - asks.keys())
    goal = MakeRoom(request_of(wanted))

    def answers(holder: EvictionCandidate, row: int) -> int | None:
        return _mask(trial, asks[holder.job], row)

    found = consolidate(rooms, screened, goal, answers)
    if not found.moves and found.reason:
        # The search tries the cheapest nodes only: nodes with jobs that fit nowhere now must not use up its tries.
        screened = without(screened, {holder.job for holder in screened.holders} - _movable(rooms, screened))
        found = consolidate(rooms, screened, goal, answers)
    for _ in range(_TRIES_MAX):
        moved, stuck = _relocate(trial, asks, found)
        trial.txn.rollback(base)
        if stuck is None:
            return Consolidation(moved, found.lost_gpu_s, found.before, found.after, _reason(found))
        screened = without(screened, {stuck})
        found = consolidate(rooms, screened, goal, answers)
    reason = f"{_TRIES_MAX} jobs that were to move do not fit elsewhere with all they ask for; add nodes, or wait"
    return Consolidation((), 0.0, found.before, found.before, reason)


def still_fit(cluster: Cluster, moves: Sequence[Relocation]) -> str:
    """Why these moves are no longer possible one after the other, or nothing."""
    found = _obstacle(cluster, moves)
    return "" if found is None else found.reason


def _obstacle(cluster: Cluster, moves: Sequence[Relocation]) -> Obstacle | None:
    # Counts every holder: on the columns, what two jobs hold looks free once one of the two has given it back.
    nodes = {place.node for move in moves for place in (*move.origin, *move.hold)}
    used = {name: cluster.used_on(name) for name in nodes}
    for move in moves:
        held = cluster.holdings.get(move.job)
        if held is None or held.leaving or held.placements != move.origin:
            return Obstacle(move.job, f"job {move.job} is no longer where it was")
        for place in move.origin:
            used[place.node].add(place, -1)
        for place in move.hold:
            used[place.node].add(place, +1)
            if not cluster.is_alone(place, move.qos, used[place.node]):
                return Obstacle(move.job, f"the room for job {move.job} on {place.node} is taken")
        for place in _left(move.origin, move.hold):
            used[place.node].add(place, +1)
    return None


def _reason(found: Moves) -> str:
    if found.moves or found.reason:
        return found.reason
    return f"nothing has to move: {found.after} nodes have the room now"


def _rooms(trial: Trial, wanted: Ask) -> RoomColumns:
    """With all kinds of devices: the jobs that move may hold some."""
    rows = trial.rows_held_back(wanted)
    rooms = rooms_of(trial, wanted, rows)
    kinds = {
        kind for holding in trial.cluster.holdings.values() for place in holding.placements for kind in place.devices
    }
    seen = trial.evaluations.rows(wanted, rows)
    return with_changes(rooms, devices={kind: seen.devices_free(kind) for kind in sorted(kinds)})


def _movable(rooms: RoomColumns, screened: Screened) -> set[str]:
    """Jobs for which every rank has a node with enough GPUs free now."""
    largest: dict[int, int] = {}
    movable: set[str] = set()
    for holder in screened.holders:
        wants = [(len(freed.gpus), max(milli for _, milli in freed.gpus)) for _, freed in holder.at if freed.gpus]
        for milli in {milli for _, milli in wants} - largest.keys():
            largest[milli] = int((rooms.gpus >= milli).sum(axis=1).max(initial=0))
        if all(count <= largest[milli] for count, milli in wants):
            movable.add(holder.job)
    return movable


def _mask(trial: Trial, ask: Ask, row: int) -> int | None:
    """The GPUs of a node that the job may use; None when anything but a lack of room keeps the job away."""
    evaluations = trial.evaluations
    stage, names = int(evaluations.stage(ask)[row]), [name for name, _ in evaluations.rules.filters]
    if stage < len(names) and names[stage] not in HELD_BACK:
        return None
    answers = evaluations.rows(ask, np.array([row])).gpu_answers[0]
    return sum(1 << index for index, answer in enumerate(answers.tolist()) if answer)


# ---- each move, tried on the columns


def _relocate(trial: Trial, asks: dict[str, Ask], found: Moves) -> tuple[tuple[Relocation, ...], str | None]:
    """The moves with their places, taken; or the first job that does not fit where it was to go."""
    done: list[Relocation] = []
    for move in found.moves:
        holding = trial.cluster.holdings[move.job]
        _give(trial, holding)
        hold = _places(trial, asks[move.job], holding, move)
        if hold is None:
            return (), move.job
        # What the job leaves stays taken: a job that waits for that room could be placed elsewhere meanwhile.
        for place in _left(holding.placements, hold):
            trial.txn.take(taken_by(trial.cluster.table, trial.cluster.rows[place.node], place))
        done.append(Relocation(move.job, holding.placements, hold, move.lost_gpu_s, asks[move.job].qos))
    obstacle = _obstacle(trial.cluster, done)
    return (tuple(done), None) if obstacle is None else ((), obstacle.job)


def _left(origin: tuple[Placement, ...], hold: tuple[Placement, ...]) -> list[Placement]:
    """Placements that the job gives up by the move."""
    kept = {(place.node, place.gpus) for place in hold}
    return [place for place in origin if (place.node, place.gpus) not in kept]


def _give(trial: Trial, holding: Holding) -> None:
    cluster = trial.cluster
    for place in holding.placements:
        row = cluster.rows.get(place.node)
        if row is not None:
            trial.txn.give(taken_by(cluster.table, row, place))


def _places(trial: Trial, ask: Ask, holding: Holding, move: Move) -> tuple[Placement, ...] | None:
    """One placement for each rank, numbered anew: ranks that move get what fits there, the others keep theirs."""
    table, rows = trial.cluster.table, trial.cluster.rows
    targets: dict[int, list[int]] = {}
    for origin, target in move.ranks:
        targets.setdefault(origin, []).append(target)
    goals = [going.pop(0) if (going := targets.get(rows[place.node])) else None for place in holding.placements]
    taken = [taken_by(table, rows[place.node], place) for place in holding.placements]
    # Ranks that stay come first: no other rank of the gang may be given their GPUs.
    for allocation, goal in zip(taken, goals, strict=True):
        if goal is None:
            trial.txn.take(allocation)
    for rank, goal in enumerate(goals):
        allocation = None if goal is None else _fits(trial, ask, goal)
        if allocation is not None:
            trial.txn.take(allocation)
            taken[rank] = allocation
        elif goal is not None:
            return None
    if not _together(trial, ask, [allocation.row for allocation in taken]):
        return None
    return tuple(placement(table, allocation, rank) for rank, allocation in enumerate(taken))


def _fits(trial: Trial, ask: Ask, row: int) -> Allocation | None:
    evaluations = trial.evaluations
    passes = evaluations.stages(evaluations.rows(ask, np.array([row])))[0] == len(evaluations.rules.filters)
    return fit(trial.cluster.table, ask, row) if passes else None


def _together(trial: Trial, ask: Ask, rows: list[int]) -> bool:
    """Whether a gang is as close together, and as far apart, as it must be."""
    most = max(Counter(rows).values())
    if ask.per_node and most > ask.per_node:
        return False
    level = "node" if ask.level == "nvlink" and ask.level_required else widest_allowed(ask)
    if level == "cluster" or len(rows) == 1:
        return True
    numbers = trial.evaluations.rows(ask, np.array(rows)).domain(level).tolist()
    return len(set(numbers)) == 1 and numbers[0] > 0
