"""Whether a profile is better than another on held-out jobs, or the difference may be chance: the same jobs under both,
compared week by week."""

from math import ceil, log2
from typing import NamedTuple

import numpy as np

from ares.sim.traces.outcome import Bools, Floats, Outcome
from ares.sim.traces.summary import bounded_slowdowns

_DAY_S = 86_400.0
# Jobs that come together share their fate, so that they are drawn together: by weeks, by days where there are few
# weeks, else by eighths.
_BLOCKS_MIN, _EIGHTHS = 6, 8
_SEED = 1
# How often the gain may lie outside its interval.
CHANCE = 0.05
# Up to so many blocks every way to turn them is tried; of more, so many ways that are drawn.
_ALL_WAYS, _WAYS = 12, 1 << 13
# How far from what was measured the ends of the interval are looked for, and how finely.
_REACH, _HALVINGS = 1e3, 40
# Less than this is no gain.
GAIN_MIN = 0.005
# The longest wait under a tuned profile is at most so many times that under the base, or an hour more.
LONGEST_MOST, _LONGEST_S = 2.0, 3600.0


class GainInterval(NamedTuple):
    """Between which parts of it the aim is better, as far as so many blocks can tell; below 0: worse."""

    low: float
    high: float
    blocks: int
    of: str


def gain_interval(
    base: Outcome, other: Outcome, field: str, chance: float = CHANCE, counted: Bools | None = None
) -> GainInterval | None:
    """None where the figure is no mean over jobs, or too few jobs have ended under both. `counted`: of these jobs."""
    costs = [_costs(outcome, field) for outcome in (base, other)]
    before, after = costs
    if before is None or after is None or len(before) != len(after):
        return None
    ended = ~np.isnan(before) & ~np.isnan(after)
    if counted is not None:
        ended &= counted
    return paired_interval(base.jobs.submit[ended], before[ended], after[ended], chance)


def paired_interval(submit: Floats, before: Floats, after: Floats, chance: float = CHANCE) -> GainInterval | None:
    """Of jobs by when they came, and what each cost under both: every gain that the blocks do not rule out.

    A gain is ruled out when, with it taken off, the blocks lean to one side more than all but a `chance` of the ways to
    turn them round: if it were the true one, each block would lean either way alike. That needs no bell curve, so few
    blocks with a few huge costs do not pass for proof.
    """
    # Fewer blocks cannot say so much: all of them on one side is as likely as so many heads, or tails, in a row.
    least = max(_BLOCKS_MIN, ceil(1.0 + log2(1.0 / chance)))
    numbers, of = _blocks(submit, least)
    blocks = int(numbers.max(initial=-1)) + 1
    sums: list[Floats] = [
        np.bincount(numbers, weights=cost, minlength=blocks).astype(np.float64) for cost in (before, after)
    ]
    if blocks < least or not sums[0].sum():
        return None
    ways = _ways(blocks)
    turned = [ways @ part for part in sums]
    gain = 1.0 - float(sums[1].sum() / sums[0].sum())
    low, high = (_end(turned, sums, gain, side, chance) for side in (-1.0, 1.0))
    return GainInterval(low, high, blocks, of)


def _ways(blocks: int) -> Floats:
    """A row for each way to turn the blocks round: 1 or -1 for each."""
    if blocks <= _ALL_WAYS:
        bits = np.arange(1 << blocks)[:, None] >> np.arange(blocks) & 1
    else:
        bits = np.random.default_rng(_SEED).integers(0, 2, (_WAYS, blocks))
    return (1 - 2 * bits).astype(np.float64)


def _end(turned: list[Floats], sums: list[Floats], gain: float, side: float, chance: float) -> float:
    """The farthest gain on one side that is not ruled out."""
    whole, left = (float(part.sum()) for part in sums)

    def allowed(far: float) -> bool:
        kept = 1.0 - (gain + side * far)
        lean = abs(whole * kept - left)
        return bool((np.abs(turned[0] * kept - turned[1]) >= lean * (1.0 - 1e-9)).mean() > chance)

    near, far = 0.0, 1e-4
    while allowed(far) and far < _REACH:
        near, far = far, 2.0 * far
    for _ in range(_HALVINGS):
        middle = (near + far) / 2.0
        near, far = (middle, far) if allowed(middle) else (near, middle)
    return gain + side * near


def _costs(outcome: Outcome, field: str) -> Floats | None:
    jobs = outcome.jobs
    by_field = {
        "bounded_slowdown": lambda: bounded_slowdowns(outcome),
        "mean_wait_s": lambda: jobs.first_start - jobs.submit,
        "mean_jct_s": lambda: jobs.end - jobs.submit,
    }
    return by_field[field]() if field in by_field else None


def _blocks(submit: Floats, least: int) -> tuple[np.ndarray, str]:
    """The number of each job's block, without gaps, and what a block is."""
    if not len(submit):
        return np.zeros(0, np.int64), "eighths"
    since = submit - submit.min()
    span = float(since.max())
    parts = max(_EIGHTHS, least)
    length, of = next(
        ((length, of) for length, of in ((7 * _DAY_S, "weeks"), (_DAY_S, "days")) if span >= least * length),
        (max(span, 1.0) * (1 + 1e-9) / parts, "eighths" if parts == _EIGHTHS else "equal parts"),
    )
    return np.unique((since / length).astype(np.int64), return_inverse=True)[1], of


def surely_better(gain: float, interval: GainInterval | None) -> bool:
    """Whether a gain counts: more than nothing, and beyond chance where that can be said."""
    return gain > GAIN_MIN and (interval is None or interval.low > 0.0)


def waits_bearably(before_s: float, after_s: float) -> bool:
    """Whether the job that waits longest waits hardly longer."""
    return after_s <= max(LONGEST_MOST * before_s, before_s + _LONGEST_S)
