"""Drawing: a frame with axes, ticks as people would choose them, marks. Plain SVG, every word from outside escaped."""

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

# ---- axes


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


# ---- drawing


# Okabe and Ito's colours, told apart by most eyes; without yellow, which white paper swallows. The class s0..s6 of a
# mark gives it one of them in the page's style, where dark pages can have a lighter one.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#666666")
# A second way to tell lines apart: on grey paper, and when colours begin again.
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 2")
WIDTH, HEIGHT = 860.0, 260.0
# What a document must not contain, however it is written: controls, halves of pairs, and marks that turn text around.
_BAD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 14.0, 12.0, 42.0


class Frame(NamedTuple):
    """The part of a drawing inside its axes."""

    x: Scale
    y: Scale
    width: float = WIDTH
    height: float = HEIGHT
    left: float = _LEFT

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    @property
    def bottom(self) -> float:
        return self.height - _BOTTOM

    def xs(self, values: Floats | float) -> Floats:
        return self.left + self.x.part(values) * (self.right - self.left)

    def ys(self, values: Floats | float) -> Floats:
        return self.bottom - self.y.part(values) * (self.bottom - _TOP)


def attribute(value: object) -> str:
    return escape(_BAD.sub("\ufffd", str(value)), quote=True)


def text(value: object) -> str:
    return escape(_BAD.sub("\ufffd", str(value)), quote=False)


def number(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")


def colour(index: int) -> str:
    """The class of the index-th of several things drawn together."""
    return f"s{index % len(COLOURS)}"


def dash(index: int) -> str:
    found = DASHES[index % len(DASHES)]
    return f' stroke-dasharray="{found}"' if found else ""


def drawing(width: float, height: float, said: str, parts: Iterable[str]) -> str:
    """A whole picture; `said` is what a screen reader says of it."""
    box = f"0 0 {number(width)} {number(height)}"
    return f'<svg viewBox="{box}" role="img" aria-label="{attribute(said)}">{"".join(parts)}</svg>'


def axes(frame: Frame, x_name: str, y_name: str) -> str:
    """Grid, tick labels and the names of both axes."""
    parts: list[str] = ['<g class="axis">']
    left, right, bottom = number(frame.left), number(frame.right), number(frame.bottom)
    for at, words in frame.x.ticks:
        x = number(float(frame.xs(at)))
        parts.append(f'<path d="M{x} {number(_TOP)}V{bottom}"/>')
        parts.append(f'<text x="{x}" y="{number(frame.bottom + 15)}" text-anchor="middle">{text(words)}</text>')
    for at, words in frame.y.ticks:
        y = float(frame.ys(at))
        parts.append(f'<path d="M{left} {number(y)}H{right}"/>')
        parts.append(f'<text x="{number(frame.left - 6)}" y="{number(y + 4)}" text-anchor="end">{text(words)}</text>')
    parts.append(f'<path class="edge" d="M{left} {number(_TOP)}V{bottom}H{right}"/>')
    middle = number((frame.left + frame.right) / 2)
    parts.append(
        f'<text class="name" x="{middle}" y="{number(frame.height - 6)}" text-anchor="middle">{text(x_name)}</text>'
    )
    turn = f"rotate(-90 12 {number((_TOP + frame.bottom) / 2)})"
    y_at = f'x="12" y="{number((_TOP + frame.bottom) / 2)}"'
    parts.append(f'<text class="name" {y_at} text-anchor="middle" transform="{turn}">{text(y_name)}</text></g>')
    return "".join(parts)


def steps(frame: Frame, xs: Floats, ys: Floats, index: int, title: str) -> str:
    """A line that keeps each value until the next."""
    if not len(xs):
        return ""
    across, down = frame.xs(xs), frame.ys(ys)
    path = [f"M{number(float(across[0]))} {number(float(down[0]))}"]
    for x, y, before in zip(across[1:], down[1:], down[:-1], strict=True):
        path.append(f"H{number(float(x))}" if y == before else f"H{number(float(x))}V{number(float(y))}")
    return f'<path class="line {colour(index)}"{dash(index)} d="{"".join(path)}"><title>{text(title)}</title></path>'


def legend(names: Sequence[str]) -> str:
    """What each line is, in HTML: it wraps."""
    parts = ['<ul class="legend">']
    for index, name in enumerate(names):
        line = f'<path class="line {colour(index)}"{dash(index)} d="M0 5H28"/>'
        parts.append(
            f'<li><svg viewBox="0 0 28 10" width="28" height="10" aria-hidden="true">{line}</svg> {text(name)}</li>'
        )
    return "".join([*parts, "</ul>"])
