"""Axes: where a value lies between two edges, and ticks that people would have chosen."""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Unit = Literal["seconds", "share", "number"]

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
    _DAY, 2 * _DAY, 5 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 56 * _DAY, 91 * _DAY, 182 * _DAY, 364 * _DAY,
)  # fmt: skip
_LOG_S = (0.1, 1, 10, _MINUTE, 10 * _MINUTE, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 30 * _DAY, 365 * _DAY, 3650 * _DAY)
_TICKS = 6
# What differs by less is drawn as one value.
_LEAST = 1e-9


class Tick(NamedTuple):
    at: float
    label: str


class Scale(NamedTuple):
    """From values to the length of an axis. What lies outside is drawn at the edge."""

    low: float
    high: float
    log: bool
    ticks: tuple[Tick, ...]

    def part(self, values: Floats | float) -> Floats:
        """0 at the low edge, 1 at the high one."""
        found = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        if self.log:
            return np.log(found / self.low) / math.log(self.high / self.low)
        return (found - self.low) / (self.high - self.low)


def linear(low: float, high: float, unit: Unit = "number") -> Scale:
    """Ends on the values themselves: a time axis ends when the simulation does."""
    if high - low <= _LEAST * max(1.0, abs(low)):
        high = low + max(1.0, abs(low) / 1000)
    step = _step(high - low, unit)
    # Multiples are computed, not added up: sums of 0.1 look like 0.30000000000000004.
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return Scale(low, high, False, tuple(Tick(n * step, label(n * step, unit)) for n in range(first, last + 1)))


def from_zero(high: float, unit: Unit = "number") -> Scale:
    """Zero to the first tick above the highest value."""
    high = high if high > _LEAST else 1.0
    step = _step(high, unit)
    return linear(0.0, math.ceil(high / step - 1e-9) * step, unit)


def logarithmic(low: float, high: float, unit: Unit = "number") -> Scale:
    """For values over several orders of magnitude; `low` has to be above 0."""
    high = high if high > low * 2 else low * 2
    values = _LOG_S if unit == "seconds" else _powers(low, high)
    ticks = tuple(Tick(value, label(value, unit)) for value in values if low * 0.999 <= value <= high * 1.001)
    return Scale(low, high, True, ticks)


def label(value: float, unit: Unit = "number") -> str:
    """Short, for a tick."""
    if unit == "share":
        return f"{value * 100:g} %"
    if unit == "seconds":
        return _time(value)
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.6g}"


def _time(seconds: float) -> str:
    size, unit = next(
        (unit_size for unit_size in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")) if abs(seconds) >= unit_size[0]),
        (1, "s"),
    )
    return f"{seconds / size:.4g} {unit}" if seconds else "0"


def _step(span: float, unit: Unit) -> float:
    if unit == "seconds" and span > _STEPS_S[0]:
        return next(
            (float(step) for step in _STEPS_S if span / step <= _TICKS), 364 * _DAY * _round(span / (364 * _DAY))
        )
    return _round(span)


def _round(span: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are about six ticks."""
    power = 10.0 ** math.floor(math.log10(span / _TICKS))
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0, 20.0) if span / (power * factor) <= _TICKS)


def _powers(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    parts = (1, 2, 5) if last - first <= 3 else (1,)
    every = max(1, (last - first) // 8)
    return [part * 10.0**power for power in range(first, last + 1, every) for part in parts]
