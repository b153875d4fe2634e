"""What one ask finds on every node: which filter refuses it, its score, and how many ranks it has room for.

Computed once for all nodes, then only for rows that changed: each row knows when it was last touched, each evaluation
how far it has caught up. What is kept is a pure function of the columns, so keeping it changes nothing but the time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ares.core.ask import Ask
from ares.core.capacity.node_slice import ClusterFacts, Matching, NodeSlice
from ares.core.capacity.node_table import Bools, Floats, Ints, NodeTable
from ares.core.capacity.power import PoolPower, needed
from ares.core.capacity.rule import Filter, Scorer
from ares.model.profile import EnergyPolicy

NO = -np.inf
_ALL = slice(None)
# Evaluations that are kept; the oldest goes first. Each takes about 20 bytes a node.
_KEPT_MAX = 2048
# Answers of yes or no are small: as many as distinct jobs may wait; of each node, as many as so many bytes hold.
_EVER_MAX = 65_536
_POSSIBLE_BYTES = 1 << 24
# Above this share of rows, computing all of them is cheaper than picking.
_PICK_SHARE = 4


# Up to so many rows that changed are scored one by one, where that is possible.
_FEW = 16

# The score of a row, or `NO` where a filter refuses it.
RowScore = Callable[[int], float]


def no_row_scores(_table: NodeTable, _facts: ClusterFacts, _ask: Ask) -> RowScore | None:
    return None


class ProfileRules(NamedTuple):
    """The plugins and settings that a profile's names stand for."""

    filters: Sequence[tuple[str, Filter]]
    scorers: Sequence[tuple[str, float, Scorer]]
    policy: EnergyPolicy = EnergyPolicy()
    # Watts that pools may draw, for pools with a cap.
    caps: Mapping[str, float] = {}
    # How an ask's row is scored by itself; None where only columns tell.
    by_row: Callable[[NodeTable, ClusterFacts, Ask], RowScore | None] = no_row_scores


class Evaluation:
    """One ask against all rows."""

    __slots__ = (
        "ask", "best", "by_row", "caught_up", "lasting", "power", "renewed", "room", "score", "stage", "staged",
    )  # fmt: skip

    def __init__(self, ask: Ask, rows: int, by_row: RowScore | None) -> None:
        self.ask = ask
        self.by_row = by_row
        # How far each part has followed the touches of rows.
        self.caught_up = self.renewed = self.staged = -1
        # The index of the filter that refuses a row, or their number if none does. Made when it is asked for.
        self.stage: npt.NDArray[np.uint8] = np.zeros(rows, np.uint8)
        # Rows that pass every filter that looks at lasting facts.
        self.lasting: Bools = np.zeros(rows, np.bool_)
        self.score: Floats = np.full(rows, NO)
        # Ranks that fit on each row, for gangs only.
        self.room: Ints | None = np.zeros(rows, np.int64) if ask.ranks > 1 else None
        # The best row, or -1 when none passes; -2 when not known.
        self.best = -2
        # By pool with a power cap: what was left of it, and the least and the most that a rank needs there.
        self.power: dict[int, tuple[int, int, int]] = {}


class Evaluations:
    """Evaluations of asks, kept up to date by the log of touched rows."""

    def __init__(self, table: NodeTable, matching: Matching) -> None:
        self.table = table
        self.matching = matching
        self.facts = ClusterFacts()
        self._rules = ProfileRules((), ())
        # Of the filters, those that look at what nodes are, and the others.
        self._lasting: list[Filter] = []
        self._changing: list[Filter] = []
        # Whether a set of rules has built-in filters only: kept, as placement asks for it often.
        self.all_known: tuple[ProfileRules | None, bool] = (None, False)
        self._kept: dict[Ask, Evaluation] = {}
        # Rows that could take an ask if they were empty and ready; it changes with the nodes themselves only.
        self._possible: dict[Ask, Bools] = {}
        self._ever: dict[Ask, bool] = {}
        # Counts touches; for each row the count when it was last touched.
        self._touches = 0
        self._touched: Ints = np.zeros(table.rows, np.int64)
        # The same for rows that have another node now, or the node other facts.
        self._renewals = 0
        self._renewed: Ints = np.zeros(table.rows, np.int64)

    @property
    def rules(self) -> ProfileRules:
        return self._rules

    @rules.setter
    def rules(self, rules: ProfileRules) -> None:
        """Everything is computed anew. The caller must put nodes again whose power draw changed."""
        self._rules = rules
        self._lasting = [filter_ for _, filter_ in rules.filters if filter_.lasting]
        self._changing = [filter_ for _, filter_ in rules.filters if not filter_.lasting]
        self.table.policy = rules.policy
        self.table.power = PoolPower(self.table, rules.caps) if rules.caps else None
        self.forget()

    def touch(self, row: int) -> None:
        """The row's columns changed."""
        self._touches += 1
        self._touched[row] = self._touches
        if self.table.power is not None:
            self.table.power.touch((row,))

    def renew(self, row: int) -> None:
        """The row has another node, or what is known of its node changed."""
        self.touch(row)
        self._renewed[row] = self._renewals = self._touches

    def touch_each(self, rows: Ints) -> None:
        self._touches += 1
        self._touched[rows] = self._touches
        if self.table.power is not None:
            self.table.power.touch(rows.tolist())

    def forget(self) -> None:
        """Everything changed: another profile, other facts, more rows."""
        self._kept.clear()
        self.forget_possible()
        if len(self._touched) < self.table.rows:
            self._touched = np.zeros(self.table.rows, np.int64)
            self._renewed = np.zeros(self.table.rows, np.int64)

    def of(self, ask: Ask) -> Evaluation:
        """The evaluation of the ask, up to date with every touched row."""
        found = self._kept.get(ask) or self._new(ask)
        if found.caught_up != self._touches or ask.near:
            self._repair(found)
            found.caught_up = self._touches
        if self.table.power is not None:
            self._follow_power(found, self.table.power)
        return found

    def alone(self, ask: Ask) -> bool:
        """Whether a row that changed is scored by itself."""
        return self.table.used >= _PICK_SHARE and not self.table.tainted and self.of(ask).by_row is not None

    def _new(self, ask: Ask) -> Evaluation:
        if len(self._kept) >= _KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        found = self._kept[ask] = Evaluation(ask, self.table.rows, self._rules.by_row(self.table, self.facts, ask))
        return found

    def stage(self, ask: Ask) -> npt.NDArray[np.uint8]:
        """Of each row the index of the filter that refuses the ask, or their number if none does."""
        found = self._kept.get(ask) or self._new(ask)
        capped = self.table.power is not None
        if found.staged != self._touches or ask.near or capped:
            # A power cap refuses rows that were not touched themselves.
            at = self._behind(ask, -1 if capped else found.staged)
            found.stage[at] = self.stages(self.rows(ask, at))
            found.staged = self._touches
        return found.stage

    def forget_possible(self) -> None:
        """A node came, changed or went."""
        self._possible.clear()
        self._ever.clear()

    def possible(self, ask: Ask) -> Bools:
        """Which rows could take one rank of the ask if nothing ran on them."""
        found = self._possible.get(ask)
        if found is None:
            if len(self._possible) >= min(_EVER_MAX, max(_KEPT_MAX, _POSSIBLE_BYTES // self.table.rows)):
                self._possible.clear()
            rows = self.rows(ask, emptied=True)
            found = self._possible[ask] = (self.stages(rows) == len(self.rules.filters)) & rows.exists
        return found

    def ever(self, ask: Ask) -> bool:
        """Whether all ranks of the ask would have room if nothing ran anywhere."""
        found = self._ever.get(ask)
        if found is None:
            if len(self._ever) >= _EVER_MAX:
                self._ever.clear()
            rows = self.possible(ask).nonzero()[0]
            found = len(rows) > 0 and (
                ask.ranks == 1 or int(room(self.rows(ask, rows, emptied=True)).sum()) >= ask.min_ranks
            )
            self._ever[ask] = found
        return found

    def best(self, ask: Ask) -> tuple[Evaluation, int]:
        """The evaluation and its best row, the lowest of equals; -1 when no row passes."""
        found = self.of(ask)
        if found.best == -2:
            row = int(found.score[: self.table.used].argmax()) if self.table.used else 0
            found.best = row if found.score[row] != NO else -1
        return found, found.best

    def rows(self, ask: Ask, at: Ints | slice = _ALL, *, emptied: bool = False) -> NodeSlice:
        return NodeSlice(self.table, ask, at, self.facts, self.matching, emptied)

    def stages(self, rows: NodeSlice) -> npt.NDArray[np.uint8]:
        """The number of the filter that refuses each row; of rows without a node it means nothing."""
        filters = self.rules.filters
        stage: npt.NDArray[np.uint8] = np.full(len(rows), len(filters), np.uint8)
        # From the last to the first, so that the first that refuses has the last word.
        for number in range(len(filters) - 1, -1, -1):
            passes = filters[number][1].passes(rows)
            if passes is not None:
                np.copyto(stage, number, where=~passes)
        return stage

    def parts(self, rows: NodeSlice) -> dict[str, Floats]:
        """What each scorer says, unweighted; scorers that make no difference are left out."""
        said = {name: scorer(rows) for name, _, scorer in self.rules.scorers}
        return {name: score for name, score in said.items() if score is not None}

    # ---- catching up with touched rows

    def _repair(self, found: Evaluation) -> None:
        at = self._behind(found.ask, found.caught_up)
        if found.by_row is None or isinstance(at, slice) or self.table.tainted or self.table.power is not None:
            self._fill(found, at)
        else:
            self._fill_few(found, at, found.by_row)

    def _fill_few(self, found: Evaluation, at: Ints, by_row: RowScore) -> None:
        """The same where few of the touched rows have room: most are full."""
        table, ask, score = self.table, found.ask, found.score
        fits = table.cpu_free[at] >= ask.cpu_milli
        fits &= table.memory_free[at] >= ask.memory_mib
        if ask.gpus:
            fits &= table.gpu_idle[at] >= ask.gpus_milli
        rows = at[fits]
        if len(rows) > _FEW:
            self._fill(found, at)
            return
        if found.renewed != self._renewals:
            self._renew(found)
        before, found.best = found.best, -2
        most = score.item(before) if before >= 0 else NO
        score[at] = NO
        first, top = -1, NO
        for row in rows.tolist():
            if found.lasting.item(row):
                score[row] = said = by_row(row)
                if said > top:
                    first, top = row, said
        if before == -1 or top > most > NO:
            # No other row scores as much as the best one did.
            found.best = first
        elif before >= 0 and self._touched.item(before) <= found.caught_up:
            found.best = min(first, before) if top == most else before

    def _behind(self, ask: Ask, caught_up: int) -> Ints | slice:
        """The rows that were touched since."""
        # Rows beyond the last node stay refused, as they were made.
        everything = slice(0, self.table.used)
        if caught_up < 0 or ask.near or self.table.used < _PICK_SHARE:
            return everything
        behind = (self._touched[: self.table.used] > caught_up).nonzero()[0]
        return everything if len(behind) * _PICK_SHARE > self.table.used else behind

    def _renew(self, found: Evaluation) -> None:
        """Lasting facts, of rows whose nodes are others than before."""
        at: Ints | slice = slice(0, self.table.used)
        if found.renewed >= 0:
            at = np.flatnonzero(self._renewed > found.renewed)
        rows = self.rows(found.ask, at)
        passes = rows.exists
        for filter_ in self._lasting:
            said = filter_.passes(rows)
            if said is not None:
                passes = passes & said
        found.lasting[at] = passes
        found.renewed = self._renewals

    def passes(self, found: Evaluation, rows: NodeSlice) -> Bools:
        """Which rows no filter refuses."""
        if found.renewed != self._renewals:
            self._renew(found)
        passes = found.lasting[rows.at]
        for filter_ in self._changing:
            said = filter_.passes(rows)
            if said is not None:
                passes = passes & said
        return passes

    def _follow_power(self, found: Evaluation, power: PoolPower) -> None:
        """The power cap of a pool may let rows pass, or refuse them, that were not touched themselves."""
        lefts = power.left()
        for pool, (seen, least, most) in list(found.power.items()):
            left = int(lefts[pool])
            if left == seen:
                continue
            found.power[pool] = (left, least, most)
            if min(left, seen) < most and max(left, seen) >= least:
                self._fill(found, np.flatnonzero(self.table.pool[: self.table.used] == pool))

    def _note_power(self, found: Evaluation, rows: NodeSlice, power: PoolPower) -> None:
        pools, need, lefts = rows.table.pool[rows.at], needed(rows), power.left()
        for pool in power.capped:
            here = need[pools == pool]
            if len(here):
                # Rows that are not filled now were filled by what was left then.
                seen, least, most = found.power.get(pool, (int(lefts[pool]), int(here[0]), int(here[0])))
                found.power[pool] = (seen, min(least, int(here.min())), max(most, int(here.max())))

    def _fill(self, found: Evaluation, at: Ints | slice) -> None:
        rows = self.rows(found.ask, at)
        if self.table.power is not None:
            self._note_power(found, rows, self.table.power)
        passes = self.passes(found, rows)
        found.best = -2
        where = np.flatnonzero(passes)
        found.score[at] = NO
        if found.room is not None:
            found.room[at] = 0
        if len(where):
            self._score(found, at, where, rows if len(where) == len(passes) else None)

    def _score(self, found: Evaluation, at: Ints | slice, where: Ints, rows: NodeSlice | None) -> None:
        """Scores only rows that pass: of rows that were touched most are full."""
        chosen = at if rows is not None else where if isinstance(at, slice) else at[where]
        rows = rows or self.rows(found.ask, chosen)
        # With one row there is nothing to choose between.
        found.score[chosen] = 0.0 if self.table.used == 1 else self.weigh(rows)
        if found.room is not None:
            found.room[chosen] = room(rows)

    def weigh(self, rows: NodeSlice) -> Any:
        total: Any = 0.0
        for _, weight, scorer in self.rules.scorers:
            if weight and (said := scorer(rows)) is not None:
                total += weight * said
        return total


def room(rows: NodeSlice) -> Ints:
    """How many ranks of the ask fit on each row."""
    ask = rows.ask
    fits = np.minimum(rows.cpu_free // ask.cpu_milli, rows.memory_free // ask.memory_mib)
    if ask.gpus:
        fits = np.minimum(fits, _gpu_room(rows))
    for kind, count in ask.devices:
        fits = np.minimum(fits, rows.devices_free(kind) // count)
    if ask.numa == "required":
        fits = np.minimum(fits, _numa_room(rows))
    return np.minimum(fits, ask.per_node) if ask.per_node else fits


def _gpu_room(rows: NodeSlice) -> Ints:
    ask = rows.ask
    if ask.gpu_milli < 1000 and ask.gpus == 1:
        return np.where(rows.gpu_fits, rows.gpu_left // ask.gpu_milli, 0).sum(axis=1)
    if ask.gpu_milli < 1000:
        return _ranks_on(np.where(rows.gpu_fits, rows.gpu_left // ask.gpu_milli, 0), ask)
    return rows.gpus_free // ask.gpus


def _ranks_on(shares: Ints, ask: Ask) -> Ints:
    """How many ranks of several GPU shares fit, each share on another GPU, on GPUs with room for so many shares."""
    fits = np.zeros(len(shares), np.int64)
    for ranks in range(1, ask.ranks + 1):
        # A GPU serves each rank once; taking the emptiest GPUs first gives all ranks that fit.
        enough = np.minimum(shares, ranks).sum(axis=1) >= ranks * ask.gpus
        if not enough.any():
            break
        fits[enough] = ranks
    return fits


def _numa_room(rows: NodeSlice) -> Ints:
    ask = rows.ask
    fits = np.minimum(rows.numa_cpu_free // ask.cpu_milli, rows.numa_memory_free // ask.memory_mib)
    if ask.gpus and ask.gpu_milli == 1000:
        fits = np.minimum(fits, rows.numa_gpus_free // ask.gpus)
    elif ask.gpus:
        numa = rows.table.gpu_numa[rows.at]
        shares = np.where(rows.gpu_fits, rows.gpu_left // ask.gpu_milli, 0)
        by_place = [np.where(numa == place, shares, 0) for place in range(fits.shape[1])]
        most = [
            shares_there.sum(axis=1) if ask.gpus == 1 else _ranks_on(shares_there, ask) for shares_there in by_place
        ]
        fits = np.minimum(fits, np.stack(most, axis=1))
    return np.maximum(fits, 0).sum(axis=1)
