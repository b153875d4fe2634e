"""The plots that compare policies: over time, and as distributions."""

from collections.abc import Callable, Sequence

import numpy as np

from ares.sim.report import svg
from ares.sim.report.figures import Distribution, OverTime, Run
from ares.sim.report.metrics import time_words
from ares.sim.report.svg import Floats

# Left edge of time axes with equal ratios: what is shorter is drawn here.
SHORTEST_S = 1.0
_SINCE = "time since the first submission"


def utilisation(runs: Sequence[Run], resource: str) -> str:
    """`resource` is "gpu" or "cpu"."""

    def values(found: OverTime) -> tuple[float, ...]:
        return found.gpu_utilisation if resource == "gpu" else found.cpu_utilisation

    high = max(max(values(run.over_time)) for run in runs)
    name = f"{resource.upper()}s in use"
    return _over_time(runs, svg.from_zero(high, "share"), name, values)


def queue(runs: Sequence[Run]) -> str:
    """The highest number of waiting jobs in each stretch."""
    high = max(max(run.over_time.queued_max) for run in runs)
    return _over_time(runs, svg.from_zero(float(high)), "jobs waiting", lambda found: found.queued_max)


def _over_time(runs: Sequence[Run], y: svg.Scale, name: str, values: Callable[[OverTime], Sequence[float]]) -> str:
    first = runs[0].over_time
    count = len(values(first))
    frame = svg.Frame(svg.linear(0.0, first.every_s * count, "seconds"), y)
    at = np.arange(count, dtype=np.float64) * np.float64(first.every_s)
    lines = [
        svg.steps(frame, at, np.asarray(values(run.over_time), dtype=np.float64), index, run.policy)
        for index, run in enumerate(runs)
    ]
    return svg.drawing(svg.WIDTH, svg.HEIGHT, f"{name} over time", [svg.axes(frame, _SINCE, name), *lines])


def cdf(runs: Sequence[Run], name: str, unit: svg.Unit, values: Callable[[Distribution], Sequence[float]]) -> str:
    """Share of jobs at or below a value; ratios of values are equal lengths."""
    columns = [np.asarray(values(run.spread), dtype=np.float64) for run in runs]
    high = max((float(column[-1]) for column in columns if len(column)), default=10.0)
    x = svg.logarithmic(SHORTEST_S, max(high, 10.0), unit)
    frame = svg.Frame(x, svg.linear(0.0, 1.0, "share"))
    lines = [
        _rising(frame, column, run, index, unit) for index, (run, column) in enumerate(zip(runs, columns, strict=True))
    ]
    return svg.drawing(
        svg.WIDTH, svg.HEIGHT, f"distribution of {name}", [svg.axes(frame, name, "share of jobs"), *lines]
    )


def _rising(frame: svg.Frame, values: Floats, run: Run, index: int, unit: svg.Unit) -> str:
    if not len(values):
        return ""
    half, most = float(values[len(values) // 2]), float(values[-1])
    words = [time_words(value) if unit == "seconds" else f"{value:.3g}" for value in (half, most)]
    title = f"{run.policy}: half of the jobs at most {words[0]}, all at most {words[1]}"
    return svg.steps(frame, values, np.asarray(run.spread.shares), index, title)


def scatter(
    points: Sequence[tuple[float, float, int, str]], x_name: str, y_name: str, units: tuple[svg.Unit, svg.Unit]
) -> str:
    """Points (x, y, kind, title): the kind picks colour and size; the first kind is drawn last, on top."""
    xs, ys = np.asarray([point[0] for point in points]), np.asarray([point[1] for point in points])
    frame = svg.Frame(_around(xs, units[0]), _around(ys, units[1]), height=svg.HEIGHT + 60)
    marks = [
        f'<circle class="{svg.colour(kind)}" {_centre(frame, x, y)} r="{5 if kind < 2 else 2.5}">'
        f"<title>{svg.text(title)}</title></circle>"
        for x, y, kind, title in sorted(points, key=lambda point: -point[2])
    ]
    return svg.drawing(
        frame.width, frame.height, f"{y_name} against {x_name}", [svg.axes(frame, x_name, y_name), *marks]
    )


def _centre(frame: svg.Frame, x: float, y: float) -> str:
    return f'cx="{svg.number(float(frame.xs(x)))}" cy="{svg.number(float(frame.ys(y)))}"'


def _around(values: Floats, unit: svg.Unit) -> svg.Scale:
    low, high = float(values.min()), float(values.max())
    room = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
    return svg.linear(low - room, high + room, unit)
