"""An oracle gives named parts, each a text. They are recorded in one file and compared line by line."""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "oracles" / "recorded"
# Public traces, kept beside the project and never in it.
DATA = ROOT.parent / "shared" / "data"
_HEADING = "==== "
_SHOWN_MAX = 160
_SHOWN_BEFORE = 60
_MISSING = "(no such line)"


class Part(NamedTuple):
    name: str
    text: str


# Computes its parts anew. The folder, if there is one, is for what is too long to be recorded.
Oracle = Callable[[Path | None], Iterator[Part]]


class NotComparable(Exception):
    """What the oracle needs is not on this machine; the message says what, and where it belongs."""


class Comparison(NamedTuple):
    parts: int
    # One sentence for each part that is not as recorded.
    differences: tuple[str, ...]


def data(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        raise NotComparable(f"the trace {name} is not there; put it beside the project, as ../shared/data/{name}")
    return path


def record(name: str, parts: Iterable[Part], folder: Path = RECORDED) -> None:
    text = "".join(f"{_HEADING}{part.name}\n{part.text}" for part in parts)
    (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def compare(name: str, parts: Iterable[Part], folder: Path = RECORDED) -> Comparison:
    file = folder / f"{name}.txt"
    if not file.exists():
        raise NotComparable(f"recorded/{file.name} is missing; it belongs to the repository")
    known = _read(file)
    found = {part.name: part.text for part in parts}
    names = [*known, *(part for part in found if part not in known)]
    return Comparison(len(names), tuple(text for part in names if (text := _difference(part, known, found))))


def _read(file: Path) -> dict[str, str]:
    parts: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith(_HEADING):
            lines = parts.setdefault(line[len(_HEADING) : -1], [])
        else:
            lines.append(line)
    return {name: "".join(lines) for name, lines in parts.items()}


def _difference(name: str, known: dict[str, str], found: dict[str, str]) -> str:
    if name not in found:
        return f"{name}: is recorded, and is not there any more"
    if name not in known:
        return f"{name}: is new"
    if known[name] == found[name]:
        return ""
    pairs = list(zip_longest(known[name].splitlines(), found[name].splitlines(), fillvalue=_MISSING))
    number = next((at for at, (before, now) in enumerate(pairs) if before != now), len(pairs) - 1)
    count = sum(before != now for before, now in pairs)
    before, now = _around(*pairs[number])
    return (
        f"{name}: {count} of {len(pairs)} lines differ, the first is line {number + 1}:\n"
        f"    recorded: {before}\n    now:      {now}"
    )


def _around(before: str, now: str) -> tuple[str, str]:
    """Long lines are shown from shortly before the first character that differs."""
    same = next((at for at, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), 0)
    begin = max(0, same - _SHOWN_BEFORE) if max(len(before), len(now)) > _SHOWN_MAX else 0
    shown = (f"{'... ' * bool(begin)}{line[begin : begin + _SHOWN_MAX]}" for line in (before, now))
    return next(shown), next(shown)
