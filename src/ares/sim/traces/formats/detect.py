"""Which format a file has: told, or seen from its name and its first lines."""

from collections.abc import Callable
from pathlib import Path

from ares.check.replay.trace import BadTrace, Trace
from ares.model.node import NodeInfo
from ares.sim.traces.formats import alibaba, deadlines, easy, history, philly, swf
from ares.sim.traces.formats.reading import header, lines

Load = Callable[[Path, tuple[NodeInfo, ...] | None], Trace]

FORMATS: dict[str, Load] = {
    "swf": swf.load,
    "alibaba": alibaba.load,
    "philly": philly.load,
    "easy": easy.load,
    "deadlines": deadlines.load,
    "history": history.load,
}
# A table is of the first of these kinds whose columns it has.
_TABLES = {
    "alibaba": alibaba.COLUMNS, "deadlines": deadlines.COLUMNS, "easy": easy.COLUMNS, "philly": philly.COLUMNS,
}  # fmt: skip


def read(path: Path, format: str | None = None, nodes: tuple[NodeInfo, ...] | None = None) -> Trace:  # noqa: A002
    """Raises BadTrace."""
    name = format or _seen(path)
    if name not in FORMATS:
        raise BadTrace(path.name, 0, f"no format {name!r}", f"there are {', '.join(FORMATS)}")
    return FORMATS[name](path, nodes)


def _seen(path: Path) -> str:
    if ".swf" in path.suffixes:
        return "swf"
    first = next((text.strip() for _, text in lines(path, comment=";") if text.strip()), "")
    if first.startswith("{"):
        return "history"
    if first.startswith(";") or len(first.split()) == 18:
        return "swf"
    there = set(header(path))
    # The nearest kind, so that a missing column is named instead of the format called unknown.
    score = {name: len(there & set(columns)) / len(columns) for name, columns in _TABLES.items()}
    best = max(score, key=lambda name: score[name])
    if score[best] < 0.5:
        do = f"name --format: {', '.join(FORMATS)}"
        raise BadTrace(path.name, 1, "neither its name nor its first line tells what format this is", do)
    return best
