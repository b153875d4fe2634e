"""One job to its best place: a single rank to the best node, or as many alike as are wanted at once."""

from typing import NamedTuple

import numpy as np

from ares.core.schedule.ask import Ask
from ares.core.schedule.evaluate import NO, Evaluations, room
from ares.core.schedule.transaction import Taken, Transaction, fit


def place_one(evaluations: Evaluations, txn: Transaction, ask: Ask) -> Taken | None:
    """The best row takes it; None when no row can."""
    found, row = evaluations.best(ask)
    while row >= 0:
        taken = fit(evaluations.table, ask, row)
        if taken is not None:
            txn.take(taken)
            return taken
        # Its parts do not go together: not this row, until something on it changes.
        found.score[row] = NO
        row = int(found.score.argmax())
        found.best = row = row if found.score[row] != NO else -1
    return None


class _Step(NamedTuple):
    """One more job on a row. `key` is the lowest score on the way there: until then others come first."""

    key: float
    row: int
    number: int
    taken: Taken


def place_many(evaluations: Evaluations, txn: Transaction, ask: Ask, wanted: int) -> list[Taken]:
    """What `place_one` would give `wanted` times in a row, in that order, computed for many rows at once.

    It may be a few more, and is fewer only when there is no room for more. All are taken.
    """
    score = evaluations.of(ask).score
    rows = np.flatnonzero(score != NO)
    order = rows[np.argsort(-score[rows], kind="stable")]
    fits = room(evaluations.rows(ask, order))
    begin, end = 0, int(np.searchsorted(np.cumsum(fits), wanted)) + 1
    keys: dict[int, float] = {}
    waiting: list[int] = []
    steps: list[_Step] = []
    cut = False
    while begin < len(order) and len(steps) < wanted:
        # Rows beyond the chosen ones come in where a chosen row gets worse than the first of them.
        beyond = (-float(score[order[end]]), int(order[end])) if end < len(order) else None
        keys.update((row, float(score[row])) for row in order[begin:end].tolist())
        waiting += order[begin:end].tolist()
        waiting, cut = _fill_up(evaluations, txn, ask, waiting, keys, steps, beyond, wanted)
        begin, end = end, min(len(order), end + wanted - len(steps))
    steps.sort(key=lambda step: (-step.key, step.row, step.number))
    for step in steps[wanted:] if cut else ():
        # A row that was left before it was full might come before these.
        txn.give(step.taken)
    return [step.taken for step in (steps[:wanted] if cut else steps)]


def _fill_up(
    evaluations: Evaluations,
    txn: Transaction,
    ask: Ask,
    rows: list[int],
    keys: dict[int, float],
    steps: list[_Step],
    beyond: tuple[float, int] | None,
    deep: int,
) -> tuple[list[int], bool]:
    """Fills every row as far as it goes before `beyond`, but no deeper than is wanted of all rows together.

    Returns the rows that could take more after `beyond`, and whether some could take more before it."""
    table = evaluations.table
    parked: list[int] = []
    while rows and deep:
        deep -= 1
        went: list[int] = []
        for row in rows:
            if beyond is not None and (-keys[row], row) >= beyond:
                parked.append(row)
                continue
            taken = fit(table, ask, row)
            if taken is not None:
                steps.append(_Step(keys[row], row, len(steps), taken))
                txn.take(taken)
                went.append(row)
        rows, scores = _again(evaluations, ask, went) if went else ([], [])
        for row, score in zip(rows, scores, strict=True):
            keys[row] = min(keys[row], score)
    return parked, bool(rows)


def _again(evaluations: Evaluations, ask: Ask, rows: list[int]) -> tuple[list[int], list[float]]:
    """Those of the rows that can take one more, and how good they are now."""
    seen = evaluations.rows(ask, np.array(rows, np.int64))
    passes = evaluations.stages(seen) == len(evaluations.rules.filters)
    left = seen.at[passes] if not isinstance(seen.at, slice) else np.flatnonzero(passes)
    if not len(left):
        return [], []
    scores = np.broadcast_to(evaluations.weigh(evaluations.rows(ask, left)), len(left))
    return left.tolist(), scores.tolist()
