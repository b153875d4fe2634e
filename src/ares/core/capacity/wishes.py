"""Kinds of nodes by the wishes they answer to, and what GPUs of each kind are worth to jobs that name them.

The price of a kind is the part of it that jobs will ask for by name, were the cluster filled by the common mix: the
dual of sharing named demand out over the nodes that answer to it so that no kind is fuller than it must be.
"""

from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.affinity import meets
from ares.core.capacity.node_slice import ClusterFacts, Matching, NodeSlice, Wish
from ares.core.capacity.node_table import Bools, Ints, NodeTable
from ares.core.capacity.typical import Typicals

# Sharing out settles after a few rounds; prices are known to one part in so many, so that a node that comes or goes
# seldom moves one.
_ROUNDS = 16
_STEPS = 32
_EPSILON = 1e-9

Prices = tuple[tuple[int, float], ...]


class NodeKinds(NamedTuple):
    """The wishes, the kind of each row, and of each kind which wishes it answers to: bit i is wish i."""

    wishes: tuple[Wish, ...]
    column: Ints
    answers: tuple[int, ...]


def kinds_of(table: NodeTable, wishes: tuple[Wish, ...]) -> NodeKinds:
    """Kept by the table until one of its nodes is another."""
    known = table.kinds
    if isinstance(known, NodeKinds) and (known.wishes is wishes or known.wishes == wishes):
        return known
    bits: Ints = np.zeros(table.rows, np.int64)
    for number, wish in enumerate(wishes):
        bits |= _answering(table, wish).astype(np.int64) << number
    found, column = np.unique(bits, return_inverse=True)
    table.kinds = kinds = NodeKinds(wishes, column.astype(np.int64), tuple(found.tolist()))
    return kinds


def _answering(table: NodeTable, wish: Wish) -> Bools:
    answers: Bools = table.answer_masks(wish.gpu_model, wish.gpu_memory_mib) != 0
    if wish.selector or wish.terms:
        rows = NodeSlice(table, Ask(selector=wish.selector, terms=wish.terms), slice(None), ClusterFacts(), Matching())
        for key, value in wish.selector:
            answers = answers & rows.label_is(key, value)
        for term in wish.terms:
            answers = answers & meets(rows, term)
    return answers


def facts_of(table: NodeTable, typicals: Typicals) -> ClusterFacts:
    exists, named = table.exists, typicals.named()
    return ClusterFacts(
        typicals.top(),
        float(table.gpu_hour[exists].max(initial=0.0)),
        float(table.cpu_hour[exists].max(initial=0.0)),
        float(table.gpu_watts[exists].max(initial=0.0)),
        float(table.network_gbps[exists].max(initial=0.0)),
        float(table.memory_gib_hour[exists].max(initial=0.0)),
        tuple(wish for wish, _ in named),
        prices_of(table, named),
    )


def prices_of(table: NodeTable, named: tuple[tuple[Wish, float], ...]) -> Prices:
    """The price of every kind that has one, by the wishes it answers to. `named`: parts of all GPU asked for."""
    if not named:
        return ()
    kinds = kinds_of(table, tuple(wish for wish, _ in named))
    gpus = np.bincount(kinds.column, table.gpu_count * table.exists, len(kinds.answers))
    room = {bits: float(count) for bits, count in zip(kinds.answers, gpus.tolist(), strict=True) if count > 0}
    every = sum(room.values())
    load = _shared_out(room, [(number, every * part) for number, (_, part) in enumerate(named)])
    found = ((bits, round(_STEPS * min(1.0, load[bits] / room[bits])) / _STEPS) for bits in room)
    return tuple(sorted((bits, price) for bits, price in found if price))


def _shared_out(room: dict[int, float], named: list[tuple[int, float]]) -> dict[int, float]:
    """Named demand on each kind when every wish goes where least is asked for."""
    load = dict.fromkeys(room, 0.0)
    given: dict[int, dict[int, float]] = {}
    reach = {number: [bits for bits in room if bits >> number & 1] for number, _ in named}
    # A wish that every node answers to takes nothing from any other job.
    rounds = [(number, asked) for number, asked in named if 0 < len(reach[number]) < len(room)]
    for _ in range(_ROUNDS):
        moved = 0.0
        for number, asked in rounds:
            before = given.get(number, {})
            for bits, part in before.items():
                load[bits] -= part
            after = given[number] = _level(room, load, reach[number], asked)
            for bits, part in after.items():
                load[bits] += part
                moved = max(moved, abs(part - before.get(bits, 0.0)))
        if moved < _EPSILON:
            break
    return load


def _level(room: dict[int, float], load: dict[int, float], reach: list[int], asked: float) -> dict[int, float]:
    """The parts of what is asked for that make these kinds equally full, as far as they are not fuller already."""
    ordered = sorted(reach, key=lambda bits: load[bits] / room[bits])
    rooms = loads = level = 0.0
    for at, bits in enumerate(ordered):
        rooms, loads = rooms + room[bits], loads + load[bits]
        level = (asked + loads) / rooms
        if at + 1 == len(ordered) or level <= load[ordered[at + 1]] / room[ordered[at + 1]]:
            break
    return {bits: max(0.0, level * room[bits] - load[bits]) for bits in ordered}
