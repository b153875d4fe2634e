"""Fragmentation: idle GPUs should stay good for the jobs that are common here."""

from bisect import bisect_left, bisect_right

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.node_slice import ClusterFacts, NodeSlice, Typical
from ares.core.capacity.node_table import WHOLE, Floats, Ints, NodeTable
from ares.core.capacity.rule import SingleRow

# What counts how much, found on the public trace of `bench/fgd`: idle GPU that common jobs could not use because the
# node's CPUs run out first, because what is left of a device is too small, and because too few whole ones are left.
_STRANDED, _PIECES, _SETS = 5.0, 1.0, 2.5
_FEW = 1024


def score(rows: NodeSlice) -> Floats | None:
    """Above a half where placing one rank leaves less idle GPU that common jobs cannot use, below where it leaves more.

    None while no job with GPUs is common.
    """
    if not rows.facts.typical:
        return None
    ask = rows.ask
    common = _LATEST.tables(rows.facts.typical, rows.table.gpus_wide)
    kind = common.kind(rows)
    idle, cpu = rows.gpu_idle_milli, rows.cpu_free
    whole = rows.gpu_count if rows.emptied else np.bitwise_count(rows.table.gpu_whole[rows.at]).astype(np.int64)
    # Rows that cannot take the ask get a score as well; it is never read.
    pieces, opened = _on_devices(rows, common.pieces, kind)
    stranded, beyond = common.now_and_after(
        kind,
        (idle, np.maximum(idle - ask.gpus_milli, 0)),
        (cpu, np.maximum(cpu - ask.cpu_milli, 0)),
        (whole, np.maximum(whole - opened, 0)),
    )
    saved = _STRANDED * stranded
    saved += _PIECES * pieces
    saved += _SETS * beyond
    return 0.5 + 0.5 * saved / (1.0 + np.abs(saved))


def of_row(table: NodeTable, facts: ClusterFacts, ask: Ask, seen: SingleRow) -> float | None:
    """For asks with whole GPUs or none."""
    if not facts.typical:
        return None
    common = _LATEST.tables(facts.typical, table.gpus_wide)
    kind = common.kind_of(table, seen.row)
    idle, cpu, whole = seen.gpu_idle_milli, seen.cpu_free, seen.gpus_whole
    idle_after, cpu_after = max(idle - ask.gpus_milli, 0), max(cpu - ask.cpu_milli, 0)
    stranded, beyond = common.of_row(kind, idle, cpu, whole)
    stranded_after, beyond_after = common.of_row(kind, idle_after, cpu_after, max(whole - ask.gpus, 0))
    saved = _STRANDED * (stranded - stranded_after)
    saved += _PIECES * (ask.gpus * common.pieces.item(kind, WHOLE))
    saved += _SETS * (beyond - beyond_after)
    return 0.5 + 0.5 * saved / (1.0 + abs(saved))


def _on_devices(rows: NodeSlice, pieces: Floats, kind: Ints | int) -> tuple[Floats | float, Ints | int]:
    """How much less is in too small pieces after the ask has its GPUs, and how many whole ones it takes."""
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

    The first index is the kind of a node: which wishes for a model or a memory size its GPUs answer to. Each kind is
    computed alone when it is first seen, so that no other kind changes the last bit of it.
    """

    def __init__(self, shapes: tuple[Typical, ...], wide: int) -> None:
        self._shapes = sorted(shapes, key=_ratio)
        self._wide = wide
        wishes = {(shape.gpu_model, shape.gpu_memory_mib) for shape in shapes} - {(None, 0)}
        self._wishes = sorted(wishes, key=str)
        self._bits = [0 if shape[3:5] not in wishes else 1 << self._wishes.index(shape[3:5]) for shape in self._shapes]
        self._several = [at for at, shape in enumerate(self._shapes) if shape.gpus > 1 and shape.gpu_milli == WHOLE]
        # GPUs for each CPU, ascending; CPUs at which one more set of several whole GPUs can be used.
        self._ratios = np.array([_ratio(shape) for shape in self._shapes])
        self._steps = np.array(sorted({step for at in self._several for step in self._sets_at(at)}), np.int64)
        self._ratio_list: list[float] = self._ratios.tolist()
        self._step_list: list[int] = self._steps.tolist()
        self._number: dict[int, int] = {}
        self._idle_counts: Floats = np.empty((0, len(shapes) + 1))
        self._cpu_counts: Floats = np.empty((0, len(shapes) + 1))
        # What is left of a device times the share of shapes that it is too small for.
        self.pieces: Floats = np.empty((0, WHOLE + 1))
        self._beyond: Floats = np.empty((0, len(self._steps) + 1, wide + 1))
        self._add(0)

    def kind(self, rows: NodeSlice) -> Ints | int:
        if not self._wishes:
            return 0
        bits: Ints = np.zeros(len(rows), np.int64)
        for number, (model, memory) in enumerate(self._wishes):
            bits |= (rows.table.answer_masks(model, memory)[rows.at] != 0).astype(np.int64) << number
        found, which = np.unique(bits, return_inverse=True)
        for mask in found.tolist():
            if mask not in self._number:
                self._add(mask)
        return np.array([self._number[mask] for mask in found.tolist()], np.int64)[which]

    def kind_of(self, table: NodeTable, row: int) -> int:
        """The same of one row."""
        if not self._wishes:
            return 0
        mask = 0
        for number, (model, memory) in enumerate(self._wishes):
            mask |= (table.answer_masks(model, memory).item(row) != 0) << number
        if mask not in self._number:
            self._add(mask)
        return self._number[mask]

    def of_row(self, kind: int, idle: int, cpu: int, whole: int) -> tuple[float, float]:
        """`_stranded` and `_beyond_sets` of one row."""
        at = bisect_left(self._ratio_list, idle / max(cpu, 1))
        stranded = (idle * self._idle_counts.item(kind, at) - cpu * self._cpu_counts.item(kind, at)) / WHOLE
        return stranded, self._beyond.item(kind, bisect_right(self._step_list, cpu), whole)

    def now_and_after(
        self, kind: Ints | int, idle: tuple[Ints, Ints], cpu: tuple[Ints, Ints], whole: tuple[Ints, Ints]
    ) -> tuple[Floats, Floats]:
        """How much less there is after the ask than now, of idle GPU that the CPUs do not suffice for and of whole ones
        beyond sets. Of few rows both moments in one go: then the number of steps counts, not their length."""
        count = len(cpu[0])
        if count > _FEW:
            (idle_now, idle_after), (cpu_now, cpu_after), (whole_now, whole_after) = idle, cpu, whole
            return (
                self._stranded(kind, idle_now, cpu_now) - self._stranded(kind, idle_after, cpu_after),
                self._beyond_sets(kind, whole_now, cpu_now) - self._beyond_sets(kind, whole_after, cpu_after),
            )
        kinds = kind if isinstance(kind, int) else np.concatenate((kind, kind))
        cpus = np.concatenate(cpu)
        stranded = self._stranded(kinds, np.concatenate(idle), cpus)
        beyond = self._beyond_sets(kinds, np.concatenate(whole), cpus)
        return stranded[:count] - stranded[count:], beyond[:count] - beyond[count:]

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
        answers = np.array([not bit or bool(kind & bit) for bit in self._bits])
        shares = np.array([shape.share for shape in self._shapes])
        useful, useless = np.where(answers, shares, 0.0), float(shares[~answers].sum())
        self._number[kind] = len(self._number)
        self._idle_counts = np.vstack([self._idle_counts, np.concatenate([[0.0], useful.cumsum()]) + useless])
        self._cpu_counts = np.vstack([self._cpu_counts, np.concatenate([[0.0], (useful * self._ratios).cumsum()])])
        left = np.arange(WHOLE + 1)
        sizes = np.array([shape.gpu_milli for shape in self._shapes])
        small = np.where(sizes[:, None] > left, useful[:, None], 0.0).sum(axis=0) + useless
        self.pieces = np.vstack([self.pieces, small * left / WHOLE])
        self._beyond = np.concatenate([self._beyond, self._left_over(useful)[None]])

    def _left_over(self, useful: Floats) -> Floats:
        """Whole GPUs beyond sets that shapes could use: by steps that the CPUs reach, and whole GPUs."""
        cpu = np.array([0, *self._steps.tolist()])[:, None]
        whole = np.arange(self._wide + 1)[None, :]
        beyond: Floats = np.zeros((len(cpu), self._wide + 1))
        # The larger a shape, the fewer nodes can take it, and the more its sets matter.
        cpu_mean = sum(shape.share * shape.cpu_milli for shape in self._shapes)
        for at in self._several:
            shape = self._shapes[at]
            sets = np.minimum(whole // shape.gpus, cpu // shape.cpu_milli)
            beyond += useful[at] * (shape.cpu_milli / cpu_mean) * (whole - sets * shape.gpus)
        return beyond

    def _sets_at(self, at: int) -> list[int]:
        shape = self._shapes[at]
        return [count * shape.cpu_milli for count in range(1, self._wide // shape.gpus + 1)]


def _ratio(shape: Typical) -> float:
    return shape.gpus * shape.gpu_milli / shape.cpu_milli


class _Latest:
    """The tables for the shapes asked about last. By identity: comparing them takes longer than using them."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[tuple[Typical, ...], _Common]] = {}

    def tables(self, shapes: tuple[Typical, ...], wide: int) -> _Common:
        known = self._of.get(wide)
        if known is None or known[0] is not shapes:
            known = self._of[wide] = (shapes, _Common(shapes, wide))
        return known[1]


_LATEST = _Latest()
