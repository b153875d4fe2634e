"""The first job of every class as columns: about how high each class ranks, found for all of them at once.

Never too low. Which class is next is told by exact ranks, and few classes need theirs.
"""

import numpy as np

from ares.core.queue.factors import EACH, ClassFacts, JobFacts
from ares.core.queue.factors.factor import Floats, Ints
from ares.core.queue.shares import Shares
from ares.model.profile import OrderPolicy, Weight

# Of the terms together: more than rounding can make of their sum, and less than ranks are apart.
_ROUNDING = 1e-12
_ROWS = 64


def estimable(order: OrderPolicy) -> bool:
    """Whether every factor of the first sum can be asked about many jobs at once."""
    return all(factor.name in EACH for factor in order.primary)


class ClassHeads:
    """A row for each class that has jobs, in no order. Rows of classes that ran empty are used again."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}
        self._unused: list[int] = []
        # By row; -1 where there is no class.
        self.ids: Ints = np.full(_ROWS, -1, np.int64)
        self._numbers: Ints = np.zeros((3, _ROWS), np.int64)
        self._times: Floats = np.zeros((2, _ROWS))
        # And what service counts.
        self._amounts: Floats = np.zeros((4, _ROWS))
        self._accounts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._row)

    def put(self, class_id: int, facts: JobFacts) -> None:
        """The first job of the class is this one now."""
        row = self._row.get(class_id)
        if row is None:
            row = self._row[class_id] = self._unused.pop() if self._unused else len(self._row)
            if row == len(self.ids):
                self._grow()
            ask = facts.ask
            self.ids[row] = class_id
            account = self._accounts.setdefault(facts.account, len(self._accounts))
            self._numbers[:, row] = facts.level, account, ask.ranks
            self._amounts[:, row] = ask.cpu_milli, ask.memory_mib, ask.gpus_milli, facts.served_s
        latest = np.nan if facts.latest_start is None else facts.latest_start
        self._times[:, row] = facts.submitted_at, latest

    def drop(self, class_id: int) -> None:
        """The class has no jobs."""
        row = self._row.pop(class_id, None)
        if row is not None:
            self.ids[row] = -1
            self._unused.append(row)

    def rows_of(self, class_ids: set[int]) -> Ints:
        return np.array([self._row[number] for number in class_ids], np.int64)

    def columns(self) -> tuple[Ints, ClassFacts]:
        """The ids of the classes, and what is known of their first jobs."""
        rows = np.flatnonzero(self.ids >= 0)
        level, account, ranks = self._numbers[:, rows]
        # Accounts whose classes all ran empty are left out: they come and go.
        there, account = np.unique(account, return_inverse=True)
        names = list(self._accounts)
        if len(names) > 2 * len(there) + _ROWS:
            self._number_anew(rows, account, [names[at] for at in there.tolist()])
            return self.columns()
        submitted_at, latest_start = self._times[:, rows]
        accounts: list[str] = [names[at] for at in there.tolist()]
        amounts = self._amounts[:, rows]
        return self.ids[rows], ClassFacts(
            level, submitted_at, latest_start, account, accounts, amounts[:3], ranks.astype(float), amounts[3]
        )

    def _number_anew(self, rows: Ints, account: Ints, names: list[str]) -> None:
        self._accounts = {name: number for number, name in enumerate(names)}
        self._numbers[1, rows] = account

    def _grow(self) -> None:
        more = len(self.ids)
        self.ids = np.concatenate([self.ids, np.full(more, -1, np.int64)])
        for name in ("_numbers", "_times", "_amounts"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros((len(old), more), old.dtype)], axis=1))


def about(
    facts: ClassFacts, weights: tuple[Weight, ...], shares: Shares, order: OrderPolicy, now: float
) -> tuple[Floats, Floats]:
    """The least and the most that each job's sum of these factors can be; there is hardly a difference."""
    total = np.zeros(len(facts.level))
    size = np.ones(len(total))
    for factor in weights:
        term = factor.weight * EACH[factor.name](facts, shares, order, now)
        total += term
        size += np.abs(term)
    return total - _ROUNDING * size, total + _ROUNDING * size
