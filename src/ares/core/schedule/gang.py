"""A gang to its place: all ranks or none, in the tightest topology domain that has room."""

from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.fit import NO, Evaluation, Evaluations
from ares.core.capacity.node_table import Floats, Ints, NodeTable
from ares.core.capacity.power import needed
from ares.core.capacity.transaction import Allocation, Transaction, alike, fit, fit_each
from ares.model.job import RANKS_MAX

# Levels of the topology at which a domain for a gang is looked for, the tightest first. "cluster" is all nodes.
LEVELS = ("node", "rack", "zone", "region", "cluster")


class Domain(NamedTuple):
    """A part of the cluster that a gang would fit into: its rows, and its level of the topology."""

    level: str
    rows: Ints
    room: int
    # Ranks that fit on each of the rows.
    each: Ints


def place_gang(evaluations: Evaluations, txn: Transaction, ask: Ask, most: int = RANKS_MAX) -> list[Allocation] | None:
    """Every rank in the order of ranks, taken; or None and nothing taken. An elastic gang gets as many as fit."""
    return place_ranks(evaluations, txn, evaluations.of(ask), most)


def place_ranks(evaluations: Evaluations, txn: Transaction, found: Evaluation, most: int) -> list[Allocation] | None:
    """The same, by an evaluation of the nodes that is already there."""
    assert found.room is not None, "a gang's evaluation counts ranks"
    ask = found.ask
    if ask.level == "nvlink" and ask.level_required:
        return _in_nvlink_domain(evaluations, txn, found, min(ask.ranks, most))
    for ranks in _sizes(evaluations, found, ask, most):
        domain = tightest(evaluations, found, ask, ranks)
        if domain is not None:
            return _fill(evaluations, txn, found, domain, ranks)
    return None


def _sizes(evaluations: Evaluations, found: Evaluation, ask: Ask, most: int) -> list[int]:
    """How many ranks to try: all, else as many as there is room for, if the gang accepts so few."""
    assert found.room is not None, "a gang's evaluation counts ranks"
    if ask.ranks == ask.min_ranks:
        return [ask.ranks]
    widest = widest_allowed(ask)
    total = max(free_by_domain(evaluations, found, widest), default=0)
    return [min(ask.ranks, most, total)] if min(most, total) >= ask.min_ranks else []


def widest_allowed(ask: Ask) -> str:
    return ask.level if ask.level is not None and ask.level_required and ask.level != "nvlink" else "cluster"


def tightest(evaluations: Evaluations, found: Evaluation, ask: Ask, ranks: int) -> Domain | None:
    """The domain with the least room beyond what is needed, at the tightest level that has one."""
    assert found.room is not None, "a gang's evaluation counts ranks"
    rows = np.flatnonzero(found.room > 0)
    if not len(rows):
        return None
    room = found.room[rows]
    for level in LEVELS[: LEVELS.index(widest_allowed(ask)) + 1]:
        domain = _domain_at(evaluations, found, level, rows, room, ranks)
        if domain is not None:
            return domain
    return None


def _domain_at(
    evaluations: Evaluations, found: Evaluation, level: str, rows: Ints, room: Ints, ranks: int
) -> Domain | None:
    room = below_caps(evaluations, found.ask, level, rows, room)
    if level == "cluster":
        total = int(room.sum())
        return Domain(level, rows, total, room) if total >= ranks else None
    if level == "node":
        fits = np.flatnonzero(room >= ranks)
        if not len(fits):
            return None
        # Least room left over, then the best score, then the lowest row.
        tight = fits[room[fits] == room[fits].min()]
        row = tight[int(found.score[rows[tight]].argmax())]
        return Domain(level, rows[row : row + 1], int(room[row]), room[row : row + 1])
    numbers = getattr(evaluations.table, level)[rows]
    sums = np.bincount(numbers, weights=room).astype(np.int64)
    # Number 0 is for nodes that do not say where they are.
    sums[0] = 0
    fits = np.flatnonzero(sums >= ranks)
    if not len(fits):
        return None
    speed = np.zeros(len(sums))
    np.maximum.at(speed, numbers, evaluations.table.network_gbps[rows])
    # The fastest network, then the least room left over, then the first.
    chosen = fits[np.lexsort((fits, sums[fits], -speed[fits]))[0]]
    return Domain(level, rows[numbers == chosen], int(sums[chosen]), room[numbers == chosen])


def below_caps(
    evaluations: Evaluations, ask: Ask, level: str, rows: Ints, room: Ints, *, emptied: bool = False
) -> Ints:
    """Ranks that fit on each row, cut down to what power caps allow on all rows of one domain together."""
    power = evaluations.table.power
    if power is None or not len(rows):
        return room
    seen, pools, lefts = evaluations.rows(ask, rows), evaluations.table.pool[rows], power.left(emptied=emptied)
    need, room = needed(seen), room.copy()
    places = places_of(evaluations.table, level, rows) if level != "cluster" else np.zeros(len(rows), np.int64)
    for pool in power.capped:
        here = np.flatnonzero((pools == pool) & (need > 0))
        left = max(0, int(lefts[pool]))
        if not len(here) or int((room[here] * need[here]).sum()) <= left:
            continue
        # The least thirsty rows first, then the rows with the most room.
        at = here[np.lexsort((rows[here], -room[here], need[here]))]
        spare = dict.fromkeys(places[at].tolist(), left)
        for row, place in zip(at.tolist(), places[at].tolist(), strict=True):
            room[row] = min(int(room[row]), spare[place] // int(need[row]))
            spare[place] -= int(room[row] * need[row])
    return room


def pick_nodes(rows: Ints, room: Ints, score: Floats, ranks: int) -> list[tuple[int, int]]:
    """Rows and how many ranks each gets: few nodes, full ones, and the last no larger than it must be."""
    order = np.lexsort((rows, -score, -room))
    names, rooms = rows[order].tolist(), room[order].tolist()
    picked: list[tuple[int, int]] = []
    at = 0
    while ranks > 0 and at < len(names):
        if rooms[at] >= ranks:
            # The smallest that takes all the rest; rooms fall, so it is the last one; the best of its size comes first.
            last = at
            while last + 1 < len(names) and rooms[last + 1] >= ranks:
                last += 1
            at = rooms.index(rooms[last], at)
        count = min(ranks, rooms[at])
        picked.append((names[at], count))
        ranks -= count
        at += 1
    return picked


def _fill(
    evaluations: Evaluations, txn: Transaction, found: Evaluation, domain: Domain, ranks: int
) -> list[Allocation] | None:
    assert found.room is not None, "a gang's evaluation counts ranks"
    picked = pick_nodes(domain.rows, domain.each, found.score[domain.rows], ranks)
    if len(picked) > 1 and alike(found.ask):
        return _fill_each(evaluations.table, txn, found.ask, picked)
    checkpoint = txn.checkpoint()
    taken: list[Allocation] = []
    for row, count in picked:
        for _ in range(count):
            allocation = fit(evaluations.table, found.ask, row)
            if allocation is None:
                txn.rollback(checkpoint)
                return None
            txn.take(allocation)
            taken.append(allocation)
    return taken


def _fill_each(table: NodeTable, txn: Transaction, ask: Ask, picked: list[tuple[int, int]]) -> list[Allocation]:
    """One more rank on every node that gets one, until all are taken. What was counted as room is there."""
    by_row: dict[int, list[Allocation]] = {row: [] for row, _ in picked}
    for deep in range(max(count for _, count in picked)):
        taken, each = fit_each(table, ask, np.array([row for row, count in picked if count > deep], np.int64))
        txn.take_each(each)
        for allocation in taken:
            by_row[allocation.row].append(allocation)
    return [allocation for row, _ in picked for allocation in by_row[row]]


def _in_nvlink_domain(
    evaluations: Evaluations, txn: Transaction, found: Evaluation, most: int
) -> list[Allocation] | None:
    """All GPUs of all ranks in one NVLink domain of one node: as many ranks as any domain takes, the tightest first."""
    assert found.room is not None, "a gang's evaluation counts ranks"
    ask, best = found.ask, list[Allocation]()
    rows = np.flatnonzero(found.room > 0)
    room = below_caps(evaluations, ask, "node", rows, found.room[rows])
    rows, room = rows[room >= ask.min_ranks], room[room >= ask.min_ranks]
    for at in np.lexsort((rows, -found.score[rows], room)).tolist():
        row = int(rows[at])
        for domain in domains_of(evaluations.table, row):
            checkpoint, taken = txn.checkpoint(), list[Allocation]()
            while len(taken) < min(most, int(room[at])):
                allocation = fit(evaluations.table, ask, row, domain)
                if allocation is None:
                    break
                txn.take(allocation)
                taken.append(allocation)
            txn.rollback(checkpoint)
            best = taken if len(taken) > len(best) else best
        if len(best) == most:
            break
    if len(best) < ask.min_ranks:
        return None
    for allocation in best:
        txn.take(allocation)
    return best


def domains_of(table: NodeTable, row: int) -> list[int]:
    """The GPUs of each NVLink domain, one bit for each index."""
    shape = table.machines[table.machine.item(row)]
    indexes = shape.graph.indexes
    return [sum(1 << index for at, index in enumerate(indexes) if mask >> at & 1) for mask in shape.domain_masks]


def places_of(table: NodeTable, level: str, rows: Ints) -> Ints:
    """A number for each row's domain. A node that does not say where it is forms a domain of its own."""
    if level == "node":
        return rows
    numbers: Ints = getattr(table, level)[rows]
    return np.where(numbers > 0, numbers, -1 - rows)


def by_domain(table: NodeTable, level: str, rows: Ints, ranks: Ints) -> list[int]:
    """Ranks of each domain that has any of the rows, most first."""
    _, which = np.unique(places_of(table, level, rows), return_inverse=True)
    sums = np.bincount(which, weights=ranks).astype(np.int64)
    return sorted((int(total) for total in sums if total), reverse=True)


def free_by_domain(evaluations: Evaluations, found: Evaluation, level: str) -> list[int]:
    """Ranks that fit into each domain of a level that has room for any, most first. The cluster is one domain."""
    assert found.room is not None, "a gang's evaluation counts ranks"
    level = "node" if level == "nvlink" else level
    rows = np.flatnonzero((found.room > 0) & (found.score != NO))
    room = below_caps(evaluations, found.ask, level, rows, found.room[rows])
    return [int(room.sum())] if level == "cluster" else by_domain(evaluations.table, level, rows, room)
