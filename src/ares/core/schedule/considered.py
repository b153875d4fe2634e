"""A decision kept whole, so that it can be made again: the nodes that could take the job, and each scorer's say."""

import numpy as np

from ares.api.decisions import Ranked
from ares.core.ask import Ask
from ares.core.capacity.fit import NO, Evaluations
from ares.core.schedule.gang import pick_nodes
from ares.core.schedule.scorers import home
from ares.model.base import Record
from ares.model.profile import Weight

# The most nodes kept of one decision: the best.
NODES_MAX = 512


class Considered(Record, frozen=True):
    """One decision. `parts` has one list per scorer that made a difference, in the order of `nodes`."""

    nodes: tuple[str, ...]
    parts: dict[str, tuple[float, ...]]
    # How many nodes could have taken the job; more than `nodes` when not all were kept.
    passing: int
    ranks: int = 1
    # Ranks that fitted on each node, for gangs.
    room: tuple[int, ...] = ()


def consider(evaluations: Evaluations, ask: Ask) -> Considered | None:
    """What the filters and scorers say of the nodes for this ask; None when no node can take it."""
    found = evaluations.of(ask)
    rows = np.flatnonzero(found.score != NO)
    if not len(rows):
        return None
    # In the order of rows: of equal nodes the first is chosen, now and when the decision is made again.
    best = np.sort(rows[np.argsort(-found.score[rows], kind="stable")][:NODES_MAX])
    parts = evaluations.parts(evaluations.rows(ask, best))
    records = [evaluations.table.records[int(row)] for row in best]
    return Considered(
        nodes=tuple(record.info.name for record in records if record is not None),
        parts={name: tuple(np.broadcast_to(said, len(best)).tolist()) for name, said in parts.items()},
        passing=len(rows),
        ranks=ask.ranks,
        room=() if found.room is None else tuple(found.room[best].tolist()),
    )


def decide_again(considered: Considered, weights: tuple[Weight, ...]) -> tuple[Ranked, ...]:
    """The nodes in the order that these weights give. The first is chosen; for a gang, the nodes with ranks."""
    count = len(considered.nodes)
    total = np.zeros(count)
    by_name = {home.NAME: home.WEIGHT} | {scorer.name: scorer.weight for scorer in weights}
    for name, said in considered.parts.items():
        total += by_name.get(name, 0.0) * np.array(said)
    order = [int(at) for at in np.argsort(-total, kind="stable")]
    chosen = {order[0]: 1} if order else {}
    if considered.room and order:
        rows = np.arange(count)
        chosen = dict(pick_nodes(rows, np.array(considered.room), total, min(considered.ranks, sum(considered.room))))
        order.sort(key=lambda at: at not in chosen)
    return tuple(
        Ranked(
            node=considered.nodes[at],
            score=float(total[at]),
            parts={name: by_name.get(name, 0.0) * said[at] for name, said in considered.parts.items()},
            ranks=chosen.get(at, 0),
        )
        for at in order
    )
