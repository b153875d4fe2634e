"""Fragmentation: idle GPUs should stay good for the jobs that are common here."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ares.core.schedule.columns import WHOLE, Floats, Ints
from ares.core.schedule.rows import Rows, Typical

Kind = tuple[str | None, int]

# What counts how much, found on the public trace of `bench/fgd`: idle GPU that common jobs could not use because the
# node's CPUs run out first, because what is left of a device is too small, and because too few whole ones are left.
_STRANDED, _PIECES, _SETS = 5.0, 1.0, 2.0


def score(rows: Rows) -> Floats | None:
    """Above a half where placing one rank leaves less idle GPU that common jobs cannot use, below where it leaves more.

    None while no job with GPUs is common.
    """
    shapes = rows.facts.typical
    if not any(shape.gpus for shape in shapes):
        return None
    ask = rows.ask
    kinds, kind = _kinds(rows)
    tables = _tables(shapes, kinds, rows.table.gpus_wide)
    idle, cpu = rows.gpu_idle_milli, rows.cpu_free
    whole = rows.gpu_count if rows.emptied else np.bitwise_count(rows.table.gpu_whole[rows.at]).astype(np.int64)
    # Rows that cannot take the ask get a score as well, that nobody looks at.
    idle_after = np.maximum(idle - ask.gpus_milli, 0)
    cpu_after = np.maximum(cpu - ask.cpu_milli, 0)
    pieces, opened = _on_devices(rows, tables, kind)
    whole_after = np.maximum(whole - opened, 0)
    saved = _STRANDED * (tables.stranded(kind, idle, cpu) - tables.stranded(kind, idle_after, cpu_after))
    saved += _PIECES * pieces
    saved += _SETS * (tables.unmatched(kind, whole, cpu) - tables.unmatched(kind, whole_after, cpu_after))
    return 0.5 + 0.5 * saved / (1.0 + np.abs(saved))


class _Tables(NamedTuple):
    """What typical shapes make of a node, by which of them its GPUs answer to (`kind`). In GPUs."""

    # GPUs for each CPU, in ascending order of the shapes; how much of idle GPU and of CPU counts up to each.
    ratios: Floats
    idle_counts: Floats
    cpu_counts: Floats
    # What is left of a device times the share of shapes that it is too small for.
    pieces: Floats
    # CPUs at which one more set of whole GPUs can be used, and whole GPUs beyond such sets.
    steps: Ints
    beyond: Floats

    def stranded(self, kind: Ints | int, idle: Ints, cpu: Ints) -> Floats:
        """Mean over the shapes of the idle GPU that the CPUs do not suffice for."""
        at = np.searchsorted(self.ratios, idle / np.maximum(cpu, 1))
        return (idle * self.idle_counts[kind, at] - cpu * self.cpu_counts[kind, at]) / WHOLE

    def unmatched(self, kind: Ints | int, whole: Ints, cpu: Ints) -> Floats:
        """Mean over the shapes with several GPUs of the whole ones that would be left beyond their sets."""
        return self.beyond[kind, np.searchsorted(self.steps, cpu, "right"), whole]


def _on_devices(rows: Rows, tables: _Tables, kind: Ints | int) -> tuple[Floats | float, Ints | int]:
    """How much less is in too small pieces after the ask has its GPUs, and how many whole ones it takes."""
    ask = rows.ask
    if ask.gpus == 0:
        return 0.0, 0
    if ask.gpu_milli == WHOLE:
        return ask.gpus * tables.pieces[kind, WHOLE], ask.gpus
    # A share goes to the tightest devices that fit.
    left = np.where(rows.gpu_fits, rows.gpu_left, WHOLE)
    if ask.gpus == 1:
        before = left.min(axis=1)
        return tables.pieces[kind, before] - tables.pieces[kind, before - ask.gpu_milli], (before == WHOLE).astype(int)
    tightest = np.sort(left, axis=1)[:, : ask.gpus]
    saved: Floats = np.zeros(len(rows))
    for before in tightest.T:
        saved += tables.pieces[kind, before] - tables.pieces[kind, before - ask.gpu_milli]
    return saved, np.count_nonzero(tightest == WHOLE, axis=1)


def _kinds(rows: Rows) -> tuple[tuple[int, ...], Ints | int]:
    """Which wishes for a model or size the GPUs of each row answer to, as bits: those there are, and whose is which."""
    wishes = _wishes(rows.facts.typical)
    if not wishes:
        return (0,), 0
    bits: Ints = np.zeros(len(rows), np.int64)
    for number, (model, memory) in enumerate(wishes):
        bits |= (rows.table.answer_masks(model, memory)[rows.at] != 0).astype(np.int64) << number
    found, kind = np.unique(bits, return_inverse=True)
    return tuple(found.tolist()), kind


@lru_cache(16)
def _wishes(shapes: tuple[Typical, ...]) -> tuple[Kind, ...]:
    wishes = {(shape.gpu_model, shape.gpu_memory_mib) for shape in shapes if shape.gpus}
    return tuple(sorted(wishes - {(None, 0)}, key=str))


@lru_cache(64)
def _tables(shapes: tuple[Typical, ...], kinds: tuple[int, ...], wide: int) -> _Tables:
    wishes = _wishes(shapes)
    asking = [shape for shape in shapes if shape.gpus]
    asking.sort(key=lambda shape: shape.gpus * shape.gpu_milli / shape.cpu_milli)
    total = sum(shape.share for shape in asking)
    shares = np.array([shape.share / total for shape in asking])
    ratios = np.array([shape.gpus * shape.gpu_milli / shape.cpu_milli for shape in asking])
    bits = [1 << wishes.index(wish) if (wish := shape[3:5]) in wishes else 0 for shape in asking]
    answers = np.array([[not bit or bool(kind & bit) for bit in bits] for kind in kinds])
    useful, useless = shares * answers, (shares * ~answers).sum(axis=1)
    pieces = np.zeros((len(kinds), WHOLE + 1))
    sizes = np.array([shape.gpu_milli for shape in asking])
    for left in range(WHOLE + 1):
        pieces[:, left] = (useful[:, sizes > left].sum(axis=1) + useless) * left / WHOLE
    steps, beyond = _sets(asking, useful, wide)
    nothing = np.zeros((len(kinds), 1))
    return _Tables(
        ratios,
        np.hstack([nothing, useful.cumsum(axis=1)]) + useless[:, None],
        np.hstack([nothing, (useful * ratios).cumsum(axis=1)]),
        pieces,
        steps,
        beyond,
    )


def _sets(asking: list[Typical], useful: Floats, wide: int) -> tuple[Ints, Floats]:
    """By kind, number of steps that the CPUs reach, and whole GPUs: those beyond sets that shapes could use."""
    # The larger a shape, the fewer nodes can take it, and the more its sets matter.
    weights = useful * [shape.cpu_milli for shape in asking] / sum(shape.cpu_milli * shape.share for shape in asking)
    several = [at for at, shape in enumerate(asking) if shape.gpus > 1 and shape.gpu_milli == WHOLE]
    steps = sorted({n * asking[at].cpu_milli for at in several for n in range(1, wide // asking[at].gpus + 1)})
    cpu = np.array([0, *steps], np.int64)[:, None]
    whole = np.arange(wide + 1)[None, :]
    beyond: Floats = np.zeros((len(useful), len(steps) + 1, wide + 1))
    for at in several:
        shape = asking[at]
        sets = np.minimum(whole // shape.gpus, cpu // shape.cpu_milli)
        beyond += weights[:, at, None, None] * (whole - sets * shape.gpus)
    return np.array(steps, np.int64), beyond
