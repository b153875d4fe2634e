"""Whether demand will reach capacity in some hours: by the time of the week and by what is there now.

Demand at a time ahead is taken to be what is usual at that time of the week, and a part of by how much it differs
from the usual now. Both are learned from the series itself. How good that has been is measured on its last part,
which was not learned from: where it has been no better than the mere share of such times, or than to say that all
stays as it is, nothing is said.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STEP_S: Final = 900
_STEPS_PER_DAY: Final = 96
_STEPS_PER_WEEK: Final = 7 * _STEPS_PER_DAY
# So much of the series is learned from; the rest is what skill is measured on.
_LEARNED: Final = 0.6
DAYS_MIN: Final = 14
# Times at which demand reaches capacity, and does not: fewer say nothing about skill.
_EVENTS_MIN: Final = 20
_LOW, _HIGH = 0.1, 0.9


class DemandForecast(NamedTuple):
    """`probability` that demand is at least the capacity then, and the range that four of five such times lie in.
    `skill`: by how much its probabilities were better (Brier) than the better of the mere share of such times and of
    saying that all stays as it is; `coverage`: how often what came lay in the range."""

    probability: float
    low: float
    high: float
    skill: float
    coverage: float
    tried: int


class _Learned(NamedTuple):
    season: Floats
    part: float


class _TrailingSkill(NamedTuple):
    """`errors`: of forecasts for times that were not learned from."""

    skill: float
    coverage: float
    tried: int
    errors: Floats


def forecast(demand: Floats, capacity: Floats, first_step: int, ahead_s: float) -> DemandForecast | str:
    """Of series by quarters of an hour, the newest last; `first_step` numbers the first of them since the epoch. A text
    says why there is none."""
    steps = max(1, round(ahead_s / STEP_S))
    known = np.isfinite(demand) & np.isfinite(capacity)
    if known.sum() < DAYS_MIN * _STEPS_PER_DAY or not known[-1]:
        have = known.sum() / _STEPS_PER_DAY
        return f"it takes {DAYS_MIN} days of numbers, there are {have:.1f}"
    place = first_step + np.arange(len(demand))
    judged = _judged(demand, capacity, place, steps)
    if isinstance(judged, str):
        return judged
    if judged.skill <= 0.0:
        return (
            f"it would be a guess: at the last {judged.tried:,} times it was no better than the mere share of such "
            "times, or than to say that all stays as it is"
        )
    model = _learn(demand, place, steps)
    middle = float(_ahead(model, demand[-1:], place[-1:], steps)[0])
    low, high = np.quantile(judged.errors, (_LOW, _HIGH))
    return DemandForecast(
        probability=float((middle + judged.errors >= capacity[-1]).mean()),
        low=max(0.0, middle + float(low)),
        high=max(0.0, middle + float(high)),
        skill=judged.skill,
        coverage=judged.coverage,
        tried=judged.tried,
    )


def _judged(demand: Floats, capacity: Floats, place: npt.NDArray[np.int64], steps: int) -> _TrailingSkill | str:
    """Learned from the first part, with the errors of the next as spread, and judged by the last."""
    cut = int(_LEARNED * len(demand))
    model = _learn(demand[:cut], place[:cut], steps)
    at = np.arange(cut, len(demand) - steps)
    at = at[np.isfinite(demand[at]) & np.isfinite(demand[at + steps]) & np.isfinite(capacity[at + steps])]
    middle, then = _ahead(model, demand[at], place[at], steps), demand[at + steps]
    errors, half = then - middle, len(at) // 2
    at, middle, then = at[half:], middle[half:], then[half:]
    bound = capacity[at + steps]
    came = then >= bound
    if came.sum() < _EVENTS_MIN or (~came).sum() < _EVENTS_MIN:
        return (
            f"demand reached the capacity at {came.sum():,} of {len(came):,} times: too few of one kind to tell skill"
        )
    spread = np.sort(errors[:half])
    # The share of errors that would bring it to the capacity.
    said = 1.0 - np.searchsorted(spread, bound - middle, side="left") / len(spread)
    brier = float(((said - came) ** 2).mean())
    known = np.isfinite(demand[:cut]) & np.isfinite(capacity[:cut])
    share = float((demand[:cut][known] >= capacity[:cut][known]).mean())
    as_now = demand[at] >= capacity[at]
    plain = min(float(((share - came) ** 2).mean()), float((as_now != came).mean()))
    low, high = np.quantile(spread, (_LOW, _HIGH))
    inside = (then >= middle + low) & (then <= middle + high)
    return _TrailingSkill(1.0 - brier / plain if plain else 0.0, float(inside.mean()), len(at), errors)


def _learn(demand: Floats, place: npt.NDArray[np.int64], steps: int) -> _Learned:
    season = _season(demand, place)
    rest = demand - season[place % _STEPS_PER_WEEK]
    now, then = rest[:-steps], rest[steps:]
    both = np.isfinite(now) & np.isfinite(then)
    scale = float((now[both] ** 2).sum())
    part = float((now[both] * then[both]).sum()) / scale if scale else 0.0
    return _Learned(season, min(1.0, max(0.0, part)))


def _season(demand: Floats, place: npt.NDArray[np.int64]) -> Floats:
    """The usual by time of the week, over some neighbouring quarters of an hour. Where a time was never seen, or in
    fewer than three weeks, the time of the day counts."""
    by_day = np.full(_STEPS_PER_DAY, np.nan)
    known = np.isfinite(demand)
    overall = float(np.median(demand[known]))
    for slot in range(_STEPS_PER_DAY):
        near = known & _near(place % _STEPS_PER_DAY, slot, _STEPS_PER_DAY)
        by_day[slot] = np.median(demand[near]) if near.any() else overall
    found = np.tile(by_day, 7)
    if known.sum() >= 3 * _STEPS_PER_WEEK:
        for slot in range(_STEPS_PER_WEEK):
            near = known & _near(place % _STEPS_PER_WEEK, slot, _STEPS_PER_WEEK)
            if near.sum() >= 6:
                found[slot] = np.mean(demand[near])
    return found


def _near(slots: npt.NDArray[np.int64], slot: int, around: int) -> npt.NDArray[np.bool_]:
    apart = np.abs(slots - slot)
    return np.minimum(apart, around - apart) <= 2


def _ahead(model: _Learned, demand: Floats, place: npt.NDArray[np.int64], steps: int) -> Floats:
    now = demand - model.season[place % _STEPS_PER_WEEK]
    return model.season[(place + steps) % _STEPS_PER_WEEK] + model.part * now
