"""What ran where: a row per node, thinned so that a hundred thousand jobs still make a small file."""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from ares.sim.report import svg
from ares.sim.report.metrics import time_words
from ares.sim.traces.outcome import Floats, Ints, Outcome

NODES_MAX = 24
LANES_MAX = 160
# Jobs with a mark and a title of their own, over all drawings of a page.
MARKS_MAX = 8000
# Jobs that the close look at the fullest hours is cut for.
CLOSE_JOBS = 600
_PATCHES_MAX = 8000
_NAME_MAX = 24
_ROW, _GAP, _LANE_MIN, _TOP, _BOTTOM = 16.0, 3.0, 2.5, 6.0, 42.0
_LEFT = 120.0
# All lines together, unless that makes them too thin.
_TALL = 400.0
# Narrower than this, a job cannot be pointed at.
_WIDTH_MIN = 1.5
_TENANTS = len(svg.COLOURS) - 1


class Window(NamedTuple):
    begin: float
    end: float


class Lanes(NamedTuple):
    """Intervals of the nodes that are shown, each with the line of its node on which nothing overlaps it."""

    # Indices into the outcome's intervals.
    at: Ints
    # Position of the node among those shown, and line within it.
    row: Ints
    lane: Ints
    # Lines per row.
    height: Ints
    # Those for which there was no line left.
    left_out: int


class Drawn(NamedTuple):
    picture: str
    # What was left out, for people.
    note: str
    thinned: bool


def shown_nodes(outcome: Outcome) -> list[int]:
    """All, or as many as fit, evenly from first to last."""
    count = len(outcome.facts.nodes)
    return sorted({int(row) for row in np.linspace(0, count - 1, min(count, NODES_MAX)).round()})


def whole(outcomes: Sequence[Outcome]) -> Window:
    return Window(min(outcome.facts.began for outcome in outcomes), max(outcome.facts.ended for outcome in outcomes))


def fullest(outcome: Outcome) -> Window:
    """Around the moment at which most jobs waited; as long as it takes to see some hundred jobs."""
    series, ran = outcome.series, outcome.intervals
    centre = float(series.time[int(np.argmax(series.queued))]) if len(series.time) else outcome.facts.began
    away = np.sort(np.abs(ran.begin[np.isin(ran.node, shown_nodes(outcome))] - centre))
    half = max(float(away[min(CLOSE_JOBS, len(away)) - 1]) if len(away) else 0.0, 60.0)
    return Window(max(centre - half, outcome.facts.began), min(centre + half, outcome.facts.ended))


def draw(outcome: Outcome, window: Window, marks_max: int) -> Drawn:
    """The widest jobs have a mark of their own. The others are grey patches, without gaps too small to see."""
    ran, began = outcome.intervals, outcome.facts.began
    nodes = shown_nodes(outcome)
    lanes = _lanes(outcome, nodes, window)
    tops, thick = _tops(lanes.height)
    x = svg.linear(window.begin - began, window.end - began, "seconds")
    frame = svg.Frame(x, svg.linear(0.0, 1.0), height=tops[-1] + _BOTTOM, left=_LEFT)
    begin, end = frame.xs(ran.begin[lanes.at] - began), frame.xs(ran.end[lanes.at] - began)
    y: Floats = np.asarray(tops, dtype=np.float64)[lanes.row] + lanes.lane.astype(np.float64) * np.float64(thick)
    wide = _widest(end - begin, marks_max)
    marks = _marks(outcome, lanes.at[wide], begin[wide], end[wide], y[wide], thick)
    parts = [_grid(frame, outcome, nodes, tops), _patches(begin[~wide], end[~wide], y[~wide], thick, frame), *marks]
    picture = svg.drawing(frame.width, frame.height, f"what ran where under {outcome.facts.policy}", parts)
    crowd = len(wide) - len(marks)
    return Drawn(picture, _note(outcome, nodes, len(marks), crowd, lanes.left_out), bool(crowd or lanes.left_out))


def legend(outcome: Outcome) -> str:
    """The tenants that have a colour of their own."""
    named = sorted(_tenants(outcome).items(), key=lambda item: item[1])
    parts = [
        f'<li><span class="box {svg.colour(at)}"></span> {svg.text(_short(name))}</li>' for name, at in named[:_TENANTS]
    ]
    if len(named) > _TENANTS:
        parts.append(f'<li><span class="box {svg.colour(_TENANTS)}"></span> {len(named) - _TENANTS} other tenants</li>')
    return f'<ul class="legend">{"".join(parts)}</ul>'


def _tenants(outcome: Outcome) -> dict[str, int]:
    """Those with most jobs first: they get colours."""
    names, counts = np.unique(outcome.jobs.tenant, return_counts=True)
    order = sorted(range(len(names)), key=lambda k: (-int(counts[k]), str(names[k])))
    return {str(names[k]): place for place, k in enumerate(order)}


# ---- layout


def _lanes(outcome: Outcome, nodes: Sequence[int], window: Window) -> Lanes:
    ran = outcome.intervals
    inside = (ran.end > window.begin) & (ran.begin < window.end)
    most = max(LANES_MAX // len(nodes), 1)
    kept: list[tuple[Ints, Ints, int]] = []
    for row, node in enumerate(nodes):
        at = np.flatnonzero(inside & (ran.node == node))
        at = at[np.argsort(ran.begin[at], kind="stable")]
        lane = _first_fit(ran.begin[at], ran.end[at], most)
        kept.append((at, lane, row))
    at = np.concatenate([part[0] for part in kept])
    lane = np.concatenate([part[1] for part in kept])
    rows = np.concatenate([np.full(len(part[0]), part[2]) for part in kept])
    height = np.asarray([max(int(part[1].max(initial=-1)) + 1, 1) for part in kept])
    fits = lane >= 0
    return Lanes(at[fits], rows[fits], lane[fits], height, int((~fits).sum()))


def _first_fit(begin: Floats, end: Floats, most: int) -> Ints:
    """The lowest line that is free, of intervals in the order of their begin; -1 where all are taken."""
    free, busy = list(range(most)), list[tuple[float, int]]()
    found = np.full(len(begin), -1, dtype=np.int64)
    for k, (since, until) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= since:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
            found[k] = lane
            heappush(busy, (until, lane))
    return found


def _tops(height: Ints) -> tuple[list[float], float]:
    """Where each row begins, then where the last ends; and how high one line is."""
    lane = max(_LANE_MIN, min(_ROW, _TALL / int(height.sum())))
    tops = [_TOP]
    for lines in height.tolist():
        tops.append(tops[-1] + max(lines * lane, _ROW * 0.6) + _GAP)
    return tops, lane


def _widest(widths: Floats, most: int) -> np.ndarray:
    found = widths >= _WIDTH_MIN
    if int(found.sum()) <= most:
        return found
    found[:] = False
    found[np.argsort(-widths, kind="stable")[:most]] = True
    return found


# ---- marks


def _marks(outcome: Outcome, at: Ints, begin: Floats, end: Floats, y: Floats, thick: float) -> list[str]:
    """Jobs one by one, coloured by tenant."""
    ran, jobs, tenants = outcome.intervals, outcome.jobs, _tenants(outcome)
    parts: list[str] = []
    for attempt, left, right, top in zip(at.tolist(), begin.tolist(), end.tolist(), y.tolist(), strict=True):
        job = int(ran.job[attempt])
        kind = svg.colour(min(tenants[str(jobs.tenant[job])], _TENANTS))
        place = f'x="{svg.number(left)}" y="{svg.number(top)}"'
        size = f'width="{svg.number(right - left)}" height="{svg.number(thick * 0.92)}"'
        title = svg.text(_title(outcome, attempt, job))
        parts.append(f'<rect class="{kind}" {place} {size}><title>{title}</title></rect>')
    return parts


def _patches(begin: Floats, end: Floats, y: Floats, height: float, frame: svg.Frame) -> str:
    """All that have no mark of their own, as one shape."""
    if not len(begin):
        return ""
    cell = 1.0
    while len(found := _runs(begin, end, y, cell, frame)) > _PATCHES_MAX:
        cell *= 2.0
    half = height * 0.46
    path = "".join(f"M{svg.number(left)} {svg.number(line + half)}H{svg.number(right)}" for left, right, line in found)
    title = f"{len(begin):,} jobs too short to be drawn apart"
    return f'<path class="crowd" stroke-width="{svg.number(half * 2)}" d="{path}"><title>{title}</title></path>'


def _runs(begin: Floats, end: Floats, y: Floats, cell: float, frame: svg.Frame) -> list[tuple[float, float, float]]:
    """Cells of each line with something in them, joined where they touch."""
    left = np.floor((begin - frame.left) / cell).astype(np.int64)
    right = np.maximum(np.ceil((end - frame.left) / cell).astype(np.int64), left + 1)
    found: list[tuple[float, float, float]] = []
    for line in np.unique(y):
        on = y == line
        edge = np.zeros(int(right[on].max()) + 2, dtype=np.int64)
        np.add.at(edge, left[on], 1)
        np.add.at(edge, right[on], -1)
        turns = np.flatnonzero(np.diff(np.concatenate(((0,), (np.cumsum(edge) > 0).astype(np.int64)))))
        for since, until in turns.reshape(-1, 2).tolist():
            found.append((frame.left + since * cell, min(frame.left + until * cell, frame.right), float(line)))
    return found


def _grid(frame: svg.Frame, outcome: Outcome, nodes: Sequence[int], tops: Sequence[float]) -> str:
    parts = ['<g class="axis">']
    for at, words in frame.x.ticks:
        x = svg.number(float(frame.xs(at)))
        parts.append(f'<path d="M{x} {svg.number(_TOP)}V{svg.number(frame.bottom)}"/>')
        parts.append(f'<text x="{x}" y="{svg.number(frame.bottom + 15)}" text-anchor="middle">{svg.text(words)}</text>')
    for node, top, below in zip(nodes, tops, tops[1:], strict=False):
        name, middle = outcome.facts.nodes[node], (top + below - _GAP) / 2 + 4
        words = f"<title>{svg.text(name)}</title>{svg.text(_short(name, 16))}"
        parts.append(
            f'<text x="{svg.number(frame.left - 6)}" y="{svg.number(middle)}" text-anchor="end">{words}</text>'
        )
        parts.append(f'<path d="M{svg.number(frame.left)} {svg.number(below - _GAP / 2)}H{svg.number(frame.right)}"/>')
    middle = svg.number((frame.left + frame.right) / 2)
    name = f'<text class="name" x="{middle}" y="{svg.number(frame.height - 6)}" text-anchor="middle">'
    return "".join([*parts, name, "time since the first submission</text></g>"])


def _title(outcome: Outcome, attempt: int, job: int) -> str:
    jobs, ran, facts = outcome.jobs, outcome.intervals, outcome.facts
    begin, end = float(ran.begin[attempt]), float(ran.end[attempt])
    held = [(float(ran.gpu_milli[attempt]) / 1000, "GPU"), (float(ran.cpu_milli[attempt]) / 1000, "CPU")]
    amounts = ", ".join(f"{count:g} {unit}" for count, unit in held if count)
    name = _short(str(jobs.name[job]) or str(jobs.id[job]))
    times = f"began {time_words(begin - facts.began)}, ran {time_words(end - begin)}"
    node, tenant = facts.nodes[int(ran.node[attempt])], str(jobs.tenant[job])
    return f"{name} of {_short(tenant)} on {_short(node)}: {amounts}; {times}"


def _short(name: str, most: int = _NAME_MAX) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _note(outcome: Outcome, nodes: Sequence[int], marks: int, few: int, left_out: int) -> str:
    words: list[str] = []
    if len(nodes) < len(outcome.facts.nodes):
        words.append(f"{len(nodes)} of {len(outcome.facts.nodes):,} nodes are shown, evenly from first to last")
    if few:
        words.append(
            f"the {marks:,} widest of {marks + few:,} intervals are drawn one by one, the others as grey patches"
        )
    if left_out:
        words.append(f"{left_out:,} intervals that would need more lines than a node has here are not drawn")
    return "; ".join(words)
