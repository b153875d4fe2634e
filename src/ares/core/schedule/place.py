"""One job to its best place: a single rank to the best node, or as many like jobs as are wanted at once."""

from itertools import islice
from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.fit import NO, Evaluation, Evaluations, room
from ares.core.capacity.node_table import Floats, Ints
from ares.core.capacity.power import PoolPower
from ares.core.capacity.transaction import Allocation, Transaction, alike, fit, fit_each
from ares.core.schedule.filters import BUILT_IN


def place_one(evaluations: Evaluations, txn: Transaction, ask: Ask) -> Allocation | None:
    """The best row takes the job; None when no row can."""
    if evaluations.table.used == 1 and _only_counts(evaluations, ask):
        return _on_the_only_row(evaluations, txn, ask)
    found, row = evaluations.best(ask)
    while row >= 0:
        taken = fit(evaluations.table, ask, row)
        if taken is not None:
            txn.take(taken)
            return taken
        # The parts on this row do not go together: it is out until something on it changes.
        found.score[row] = NO
        row = int(found.score.argmax())
        found.best = row = row if found.score[row] != NO else -1
    return None


def _only_counts(evaluations: Evaluations, ask: Ask) -> bool:
    """Whether, of what changes from job to job, only free CPU and memory decide."""
    if ask.gpus or ask.devices or ask.near or ask.numa != "none" or evaluations.table.power is not None:
        return False
    return _built_in(evaluations)


def _built_in(evaluations: Evaluations) -> bool:
    """Whether every filter is built in, so that what it looks at is known."""
    rules, known = evaluations.all_known
    if rules is not evaluations.rules:
        known = {name for name, _ in evaluations.rules.filters} <= BUILT_IN
        evaluations.all_known = (evaluations.rules, known)
    return known


def _on_the_only_row(evaluations: Evaluations, txn: Transaction, ask: Ask) -> Allocation | None:
    """One row: nothing to choose between, and nothing to score."""
    table, more = evaluations.table, ask.qos != "guaranteed"
    cpu = table.cpu_free.item(0) + more * table.cpu_extra.item(0)
    memory = table.memory_free.item(0) + more * table.memory_extra.item(0)
    if cpu < ask.cpu_milli or memory < ask.memory_mib:
        return None
    if not (table.healthy[0] and evaluations.possible(ask)[0]):
        return None
    taken = Allocation(0, ask.cpu_milli, ask.memory_mib, (), ask.gpu_milli, (), None)
    txn.take(taken)
    return taken


# So few jobs, where the row that each of them changes is scored by itself, are placed one by one.
_FEW = 8
# Where fewer rows than one in so many are wanted, finding them costs less than sorting all.
_PART = 4


class _Steps:
    """One more job on each of some rows, again and again. Other rows come first until scores have fallen as low as the
    lowest on the way to a step; sorted by that and by row, steps are in the order in which `place_one` chooses them."""

    def __init__(self) -> None:
        self._keys: list[Floats] = []
        self._rows: list[Ints] = []
        self._taken: list[Allocation] = []

    def __len__(self) -> int:
        return len(self._taken)

    def add(self, front: "_Front", taken: list[Allocation]) -> None:
        self._keys.append(-front.keys)
        self._rows.append(front.rows)
        self._taken += taken

    def in_order(self) -> list[Allocation]:
        if not self._taken:
            return []
        order = np.lexsort((np.concatenate(self._rows), np.concatenate(self._keys)))
        return [self._taken[at] for at in order.tolist()]


def place_many(evaluations: Evaluations, txn: Transaction, ask: Ask, wanted: int) -> list[Allocation]:
    """What `place_one` would give `wanted` times in a row, in that order, computed for many rows at once.

    It may be a few more. It is fewer only when there is no room for more, or when a power cap may be near: then it is
    at least one if there is room for one. All are taken.
    """
    power = evaluations.table.power
    if power is None and wanted <= _FEW and evaluations.alone(ask):
        return list(islice(iter(lambda: place_one(evaluations, txn, ask), None), wanted))
    if power is None:
        return _together(evaluations, txn, ask, wanted)
    safe = _below_caps(evaluations, power, ask, wanted)
    if safe <= 1:
        alone = place_one(evaluations, txn, ask)
        return [] if alone is None else [alone]
    # So many jobs stay below every power cap wherever they go: no cap is in the way.
    power.paused = True
    try:
        taken = _together(evaluations, txn, ask, safe)
    finally:
        power.paused = False
    for extra in reversed(taken[safe:]):
        txn.give(extra)
    return taken[:safe]


def _below_caps(evaluations: Evaluations, power: PoolPower, ask: Ask, wanted: int) -> int:
    """How many of the jobs fit below the cap of any pool that has power left for one."""
    seen, lefts = evaluations.of(ask).power, power.left()
    fits = [int(lefts[pool]) // most for pool, (_, least, most) in seen.items() if most > 0 and least <= lefts[pool]]
    return min([wanted, *fits])


def _together(evaluations: Evaluations, txn: Transaction, ask: Ask, wanted: int) -> list[Allocation]:
    found, first = evaluations.best(ask)
    if first < 0:
        return []
    score = found.score
    # Where every row takes one, no more rows than are wanted have a turn.
    order, every = _best_rows(score, wanted + 1)
    fits = room(evaluations.rows(ask, order))
    if len(order) < every and int(fits.sum()) < wanted:
        order, _ = _best_rows(score, every)
        fits = room(evaluations.rows(ask, order))
    if len(order) == 1 and alike(ask) and _built_in(evaluations):
        # Nothing to choose between: as many as there is room for.
        return _on_one_row(evaluations, txn, ask, first, min(wanted, int(fits[0])))
    begin, end = 0, int(np.searchsorted(np.cumsum(fits), wanted)) + 1
    front = _Front(order[:0], score[:0])
    steps = _Steps()
    cut = False
    while begin < len(order) and len(steps) < wanted:
        # Rows beyond the chosen ones come in where a chosen row gets worse than the first row beyond.
        beyond = (-float(score[order[end]]), int(order[end])) if end < len(order) else None
        fresh = order[begin:end]
        front = _Front(np.concatenate([front.rows, fresh]), np.concatenate([front.keys, score[fresh]]))
        front, cut = _fill_up(evaluations, txn, found, front, steps, beyond, wanted)
        begin, end = end, end + wanted - len(steps)
        if end >= len(order) and len(order) < every:
            order, _ = _best_rows(score, every)
        end = min(len(order), end)
    taken = steps.in_order()
    for extra in taken[wanted:] if cut else ():
        # A row that was left before it was full might come before these.
        txn.give(extra)
    return taken[:wanted] if cut else taken


def _best_rows(score: Floats, most: int) -> tuple[Ints, int]:
    """The best rows that pass, the lowest of equals first, and how many pass."""
    rows = np.flatnonzero(score != NO)
    every = len(rows)
    if most < every // _PART:
        found = score[rows]
        least = np.partition(found, every - most)[every - most]
        better, equal = rows[found > least], rows[found == least]
        rows = np.sort(np.concatenate((better, equal[: most - len(better)])))
    return rows[np.argsort(-score[rows], kind="stable")], every


def _on_one_row(evaluations: Evaluations, txn: Transaction, ask: Ask, row: int, count: int) -> list[Allocation]:
    found: list[Allocation] = []
    for _ in range(count):
        taken = fit(evaluations.table, ask, row)
        assert taken is not None, f"there was room for {count} on row {row}"
        txn.take(taken)
        found.append(taken)
    return found


class _Front(NamedTuple):
    """Rows that could take one more job, and the lowest score of each on the way there."""

    rows: Ints
    keys: Floats


def _fill_up(
    evaluations: Evaluations,
    txn: Transaction,
    found: Evaluation,
    front: _Front,
    steps: _Steps,
    beyond: tuple[float, int] | None,
    deep: int,
) -> tuple[_Front, bool]:
    """Fills every row as far as it goes before `beyond`, but no deeper than is wanted of all rows together.

    Returns the rows that could take more after `beyond`, and whether some could take more before it."""
    parked: list[_Front] = []
    while len(front.rows) and deep:
        deep -= 1
        if beyond is not None:
            before = (-front.keys < beyond[0]) | ((-front.keys == beyond[0]) & (front.rows < beyond[1]))
            parked.append(_Front(front.rows[~before], front.keys[~before]))
            front = _Front(front.rows[before], front.keys[before])
            if not len(front.rows):
                break
        front, taken = _take_each(evaluations, txn, found.ask, front)
        steps.add(front, taken)
        front = _again(evaluations, found, front)
    cut = bool(len(front.rows))
    if parked:
        rows, keys = (np.concatenate(columns) for columns in zip(*parked, strict=True))
        return _Front(rows, keys), cut
    return _Front(front.rows[:0], front.keys[:0]), cut


def _take_each(evaluations: Evaluations, txn: Transaction, ask: Ask, front: _Front) -> tuple[_Front, list[Allocation]]:
    """One more job on each row; a row whose parts do not go together is left out."""
    if alike(ask):
        taken, each = fit_each(evaluations.table, ask, front.rows)
        txn.take_each(each)
        return front, taken
    found: list[Allocation] = []
    fits: list[bool] = []
    for row in front.rows.tolist():
        allocation = fit(evaluations.table, ask, row)
        fits.append(allocation is not None)
        if allocation is not None:
            txn.take(allocation)
            found.append(allocation)
    return (front, found) if all(fits) else (_Front(front.rows[fits], front.keys[fits]), found)


def _again(evaluations: Evaluations, found: Evaluation, front: _Front) -> _Front:
    """The rows that can take one more job, with their scores now."""
    seen = evaluations.rows(found.ask, front.rows)
    passes = evaluations.passes(found, seen)
    if not passes.all():
        front = _Front(front.rows[passes], front.keys[passes])
        if not len(front.rows):
            return front
        seen = evaluations.rows(found.ask, front.rows)
    return _Front(front.rows, np.minimum(front.keys, evaluations.weigh(seen)))
