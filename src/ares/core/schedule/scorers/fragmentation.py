"""Fragmentation: idle GPUs should stay good for the jobs that are common here."""

from bisect import bisect_left, bisect_right

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.node_slice import ClusterFacts, NodeSlice, Typical
from ares.core.capacity.node_table import WHOLE, Floats, Ints, NodeTable
from ares.core.capacity.rule import SingleRow
from ares.core.capacity.wishes import NodeKinds, kinds_of

_FEW = 1024


def score(rows: NodeSlice) -> Floats | None:
    """Above a half where placing one rank leaves less idle GPU that common jobs cannot use, below where it leaves more
    or takes what others ask for by name.

    None while no job with GPUs is common.
    """
    if not rows.facts.typical:
        return None
    ask = rows.ask
    common = _LATEST.tables(rows.facts, rows.table.gpus_wide)
    kind = common.kind(rows.table, rows.at)
    idle, cpu = rows.gpu_idle_milli, rows.cpu_free
    whole = rows.gpu_count if rows.emptied else np.bitwise_count(rows.table.gpu_whole[rows.at]).astype(np.int64)
    # Rows that cannot take the ask get a score as well; it is never read.
    pieces, opened = _on_devices(rows, common.pieces, kind)
    saved = common.saved(
        kind,
        (idle, np.maximum(idle - ask.gpus_milli, 0)),
        (cpu, np.maximum(cpu - ask.cpu_milli, 0)),
        (whole, np.maximum(whole - opened, 0)),
    )
    saved += pieces
    saved -= common.prices[kind] * (ask.gpus_milli / WHOLE)
    return 0.5 + 0.5 * saved / (1.0 + np.abs(saved))


def of_row(table: NodeTable, facts: ClusterFacts, ask: Ask, seen: SingleRow) -> float | None:
    """For asks with whole GPUs, a share of one or none."""
    if not facts.typical:
        return None
    common, asked = _LATEST.tables(facts, table.gpus_wide), ask.gpus_milli
    kind = common.kind_of(table, seen.row)
    idle, cpu, whole = seen.gpu_idle_milli, seen.cpu_free, seen.gpus_whole
    if ask.gpu_milli < WHOLE and ask.gpus:
        pieces = common.pieces.item(kind, seen.tightest) - common.pieces.item(kind, seen.tightest - asked)
        opened = seen.tightest == WHOLE
    else:
        pieces, opened = ask.gpus * common.pieces.item(kind, WHOLE), ask.gpus
    stranded, beyond = common.of_row(kind, idle, cpu, whole)
    stranded_after, beyond_after = common.of_row(
        kind, max(idle - asked, 0), max(cpu - ask.cpu_milli, 0), max(whole - opened, 0)
    )
    saved = stranded - stranded_after
    saved += beyond - beyond_after
    saved += pieces
    saved -= common.price_list[kind] * (asked / WHOLE)
    return 0.5 + 0.5 * saved / (1.0 + abs(saved))


def _on_devices(rows: NodeSlice, pieces: Floats, kind: Ints | int) -> tuple[Floats | float, Ints | int]:
    """How much less is in useless pieces after the ask has its GPUs, and how many whole ones it takes."""
    ask = rows.ask
    if ask.gpus == 0:
        return 0.0, 0
    if ask.gpu_milli == WHOLE:
        return ask.gpus * pieces[kind, WHOLE], ask.gpus
    # A share goes to the tightest devices that fit.
    left = np.where(rows.gpu_fits, rows.gpu_left, WHOLE)
    tightest = np.sort(left, axis=1)[:, : ask.gpus] if ask.gpus > 1 else left.min(axis=1, keepdims=True)
    saved: Floats = np.zeros(len(rows))
    for before in tightest.T:
        saved += pieces[kind, before] - pieces[kind, before - ask.gpu_milli]
    return saved, np.count_nonzero(tightest == WHOLE, axis=1)


class _Common:
    """What the common shapes make of idle GPUs, as tables. In GPUs.

    The first index is the kind of a node: which wishes of common jobs it answers to. Each kind is computed alone when
    it is first seen, so that no other kind changes the last bit of it.
    """

    def __init__(self, facts: ClusterFacts, wide: int) -> None:
        self._shapes = sorted(facts.typical, key=_ratio)
        self._wide = wide
        self._wishes = facts.wishes
        self._price_of = dict(facts.prices)
        self._bits = [
            1 << self._wishes.index(shape.wish) if shape.wish in self._wishes else 0 for shape in self._shapes
        ]
        # Shapes of several whole GPUs fill nodes by sets; all others by what CPUs and devices have left.
        self._several = [shape.gpus > 1 and shape.gpu_milli == WHOLE for shape in self._shapes]
        # GPUs for each CPU, ascending; CPUs at which one more set of several whole GPUs can be used.
        self._ratios = np.array([_ratio(shape) for shape in self._shapes])
        sets = [shape for shape, several in zip(self._shapes, self._several, strict=True) if several]
        self._steps = np.array(sorted({step for shape in sets for step in self._sets_at(shape)}), np.int64)
        self._ratio_list: list[float] = self._ratios.tolist()
        self._step_list: list[int] = self._steps.tolist()
        self._number: dict[int, int] = {}
        # The numbers of the kinds that the table tells apart, as an array and as a list.
        self._kinds: NodeKinds | None = None
        self._numbers: Ints = np.zeros(0, np.int64)
        self._number_list: list[int] = []
        self._idle_counts: Floats = np.empty((0, len(self._shapes) + 1))
        self._cpu_counts: Floats = np.empty((0, len(self._shapes) + 1))
        # Of what is left of a device, the mean over the shapes of what they could not use.
        self.pieces: Floats = np.empty((0, WHOLE + 1))
        self._beyond: Floats = np.empty((0, len(self._steps) + 1, wide + 1))
        self.prices: Floats = np.empty(0)
        self.price_list: list[float] = []
        self._add(0)

    def kind(self, table: NodeTable, at: Ints | slice) -> Ints | int:
        if not self._wishes:
            return 0
        column = self._followed(table).column
        return self._numbers[column[at]]

    def kind_of(self, table: NodeTable, row: int) -> int:
        """The same of one row."""
        if not self._wishes:
            return 0
        column = self._followed(table).column
        return self._number_list[column.item(row)]

    def _followed(self, table: NodeTable) -> NodeKinds:
        kinds = kinds_of(table, self._wishes)
        if kinds is not self._kinds:
            for mask in kinds.answers:
                if mask not in self._number:
                    self._add(mask)
            self._kinds, self._number_list = kinds, [self._number[mask] for mask in kinds.answers]
            self._numbers = np.array(self._number_list, np.int64)
        return kinds

    def of_row(self, kind: int, idle: int, cpu: int, whole: int) -> tuple[float, float]:
        """`_stranded` and `_beyond_sets` of one row."""
        at = bisect_left(self._ratio_list, idle / max(cpu, 1))
        stranded = (idle * self._idle_counts.item(kind, at) - cpu * self._cpu_counts.item(kind, at)) / WHOLE
        return stranded, self._beyond.item(kind, bisect_right(self._step_list, cpu), whole)

    def saved(
        self, kind: Ints | int, idle: tuple[Ints, Ints], cpu: tuple[Ints, Ints], whole: tuple[Ints, Ints]
    ) -> Floats:
        """How much less there is after the ask than now, of idle GPU that the CPUs do not suffice for and of whole ones
        beyond sets. Of few rows both moments in one go: then the number of steps counts, not their length."""
        count = len(cpu[0])
        if count > _FEW:
            (idle_now, idle_after), (cpu_now, cpu_after), (whole_now, whole_after) = idle, cpu, whole
            stranded = self._stranded(kind, idle_now, cpu_now) - self._stranded(kind, idle_after, cpu_after)
            return stranded + (
                self._beyond_sets(kind, whole_now, cpu_now) - self._beyond_sets(kind, whole_after, cpu_after)
            )
        kinds = kind if isinstance(kind, int) else np.concatenate((kind, kind))
        cpus = np.concatenate(cpu)
        stranded = self._stranded(kinds, np.concatenate(idle), cpus)
        beyond = self._beyond_sets(kinds, np.concatenate(whole), cpus)
        return (stranded[:count] - stranded[count:]) + (beyond[:count] - beyond[count:])

    def _stranded(self, kind: Ints | int, idle: Ints, cpu: Ints) -> Floats:
        """Mean over the shapes of the idle GPU that the CPUs do not suffice for."""
        at = self._ratios.searchsorted(idle / np.maximum(cpu, 1))
        if isinstance(kind, int):
            return (idle * self._idle_counts[kind].take(at) - cpu * self._cpu_counts[kind].take(at)) / WHOLE
        return (idle * self._idle_counts[kind, at] - cpu * self._cpu_counts[kind, at]) / WHOLE

    def _beyond_sets(self, kind: Ints | int, whole: Ints, cpu: Ints) -> Floats:
        """Mean over the shapes with several GPUs of the whole ones that are left beyond their sets."""
        return self._beyond[kind, self._steps.searchsorted(cpu, "right"), whole]

    def _add(self, kind: int) -> None:
        # A shape that does not answer here is not lost here: what its models are worth is their price.
        answers = np.array([not bit or bool(kind & bit) for bit in self._bits])
        shares = np.where(answers, [shape.share for shape in self._shapes], 0.0)
        several = np.array(self._several)
        single, sets = np.where(several, 0.0, shares), np.where(several, shares, 0.0)
        self._number[kind] = len(self._number)
        self._idle_counts = np.vstack([self._idle_counts, np.concatenate([[0.0], single.cumsum()])])
        self._cpu_counts = np.vstack([self._cpu_counts, np.concatenate([[0.0], (single * self._ratios).cumsum()])])
        left = np.arange(WHOLE + 1)
        sizes = np.array([shape.gpu_milli for shape in self._shapes])
        rests = (single[:, None] * (left % sizes[:, None])).sum(axis=0)
        self.pieces = np.vstack([self.pieces, (rests + float(sets.sum()) * (left % WHOLE)) / WHOLE])
        self._beyond = np.concatenate([self._beyond, self._left_over(sets)[None]])
        self.price_list.append(self._price_of.get(kind, 0.0))
        self.prices = np.array(self.price_list)

    def _left_over(self, sets: Floats) -> Floats:
        """Whole GPUs beyond sets that shapes could use: by steps that the CPUs reach, and whole GPUs."""
        cpu = np.array([0, *self._step_list])[:, None]
        whole = np.arange(self._wide + 1)[None, :]
        beyond: Floats = np.zeros((len(cpu), self._wide + 1))
        for shape, share in zip(self._shapes, sets.tolist(), strict=True):
            if share:
                count = np.minimum(whole // shape.gpus, cpu // shape.cpu_milli)
                beyond += share * (whole - count * shape.gpus)
        return beyond

    def _sets_at(self, shape: Typical) -> list[int]:
        return [count * shape.cpu_milli for count in range(1, self._wide // shape.gpus + 1)]


def _ratio(shape: Typical) -> float:
    return shape.gpus * shape.gpu_milli / shape.cpu_milli


class _Latest:
    """The tables for the facts asked about last. By identity: comparing them takes longer than using them."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[ClusterFacts, _Common]] = {}

    def tables(self, facts: ClusterFacts, wide: int) -> _Common:
        known = self._of.get(wide)
        if known is None or known[0] is not facts:
            known = self._of[wide] = (facts, _Common(facts, wide))
        return known[1]


_LATEST = _Latest()
