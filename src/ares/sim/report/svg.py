"""Drawing: a frame with axes, and marks in it. Plain SVG text, every word from outside escaped."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from ares.sim.report.scale import Floats, Scale

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
