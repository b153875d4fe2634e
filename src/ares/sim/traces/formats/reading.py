"""What all importers share: lines with their numbers, columns, numbers, and repairs that are counted."""

import csv
import gzip
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ares.check.replay.trace import BadTrace, Trace, TraceJob, in_order
from ares.model.node import NodeInfo

_GZIP = b"\x1f\x8b"
# Anything larger is a slip: seconds since 1970 are less, and thousandths of it still fit a column.
_NUMBER_MAX = 1e12


class Repairs:
    """Counts records that were repaired or left out, for the warnings."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._said: list[str] = []

    def add(self, what: str, done: str, count: int = 1) -> None:
        """`what` in the plural: "jobs of unknown run time"."""
        if count:
            self._counts[what, done] += count

    def say(self, words: str) -> None:
        self._said.append(words)

    def warnings(self) -> tuple[str, ...]:
        return (*self._said, *(counted(count, f"{what}: {done}") for (what, done), count in self._counts.items()))


def counted(count: int, words: str) -> str:
    """The words begin with a plural."""
    plural, _, rest = words.partition(" ")
    return f"{count} {plural.removesuffix('s') if count == 1 else plural} {rest}"


def lines(path: Path, repairs: Repairs | None = None, comment: str = "") -> Iterator[tuple[int, str]]:
    """Line by line, also of a gzip file. Comments need not be UTF-8; they are read as Latin-1 and counted."""
    number = 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, _text(path, number, line, repairs, comment)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"the compressed data breaks off or is damaged after line {number} ({error})"
        raise BadTrace(path.name, number + 1, what, "fetch the file again") from None
    except OSError as error:
        raise BadTrace(str(path), 0, f"cannot be read ({error.strerror})", "check the path") from None


def _text(path: Path, number: int, line: bytes, repairs: Repairs | None, comment: str) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        if repairs is not None and comment and line.lstrip().startswith(comment.encode()):
            repairs.add("comments not in UTF-8", "read as Latin-1")
            return line.decode("latin-1")
        what = f"byte {line[error.start]:#04x} at column {error.start + 1} is not UTF-8"
        raise BadTrace(path.name, number, what, "convert the file, for example with iconv -t utf-8") from None
    return text.removeprefix("\ufeff") if number == 1 else text


class Row(NamedTuple):
    """One line of a table."""

    file: str
    line: int
    cells: dict[str, str]

    def number(self, column: str) -> float:
        """A number of either sign."""
        return number(self.file, self.line, column, self.cells[column])

    def number_or_none(self, column: str) -> float | None:
        """None when it is infinite."""
        return None if self.cells[column].lower() in ("inf", "infinity") else self.number(column)

    def bad(self, what: str, do: str) -> BadTrace:
        return BadTrace(self.file, self.line, what, do)


def number(file: str, line: int, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadTrace(file, line, f"{column} is {text!r}, not a number", "correct the line or remove it")
    if abs(value) > _NUMBER_MAX:
        raise BadTrace(file, line, f"{column} is {text}, beyond {_NUMBER_MAX:,.0f}", "correct the line or remove it")
    return value


def table(path: Path, needed: Iterable[str]) -> Iterator[Row]:
    """The rows of a CSV file with a header that has at least these columns."""
    numbered = iter(lines(path))
    first = next(numbered, None)
    if first is None:
        raise BadTrace(path.name, 1, "the file is empty", "give a CSV file with a header")
    header = [name.strip() for name in next(csv.reader([first[1]]))]
    missing = [name for name in needed if name not in header]
    if missing:
        there = ", ".join(name for name in header if name) or "none"
        what = f"column{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing; there are {there}"
        raise BadTrace(path.name, first[0], what, "add them, or name another --format")
    for line, text in numbered:
        if not text.strip():
            continue
        cells = next(csv.reader([text]))
        if len(cells) != len(header):
            what = f"{len(cells)} of {len(header)} columns"
            do = "the file may be cut off: fetch it again" if len(cells) < len(header) else "correct the line"
            raise BadTrace(path.name, line, what, do)
        yield Row(path.name, line, dict(zip(header, (cell.strip() for cell in cells), strict=True)))


def header(path: Path) -> tuple[str, ...]:
    """The first line that is not empty, cut into columns; for telling formats apart."""
    for _, text in lines(path):
        if text.strip():
            return tuple(cell.strip() for cell in next(csv.reader([text])))
    return ()


def trace(path: Path, jobs: Iterable[TraceJob], nodes: tuple[NodeInfo, ...], repairs: Repairs) -> Trace:
    """The trace with its jobs in order, each id once."""
    seen: set[str] = set()
    once: list[TraceJob] = []
    for job in jobs:
        if job.id in seen:
            repairs.add("jobs with the id of an earlier job", "left out")
            continue
        seen.add(job.id)
        once.append(job)
    ordered, late = in_order(once)
    repairs.add("lines out of order", "sorted", late)
    if not ordered:
        repairs.say("the trace has no jobs")
    return Trace(_stem(path), ordered, nodes, repairs.warnings())


def sound(row: Row, repairs: Repairs, submit: float, run_s: float) -> bool:
    """Whether the times make sense; if not, the job is left out and counted."""
    for what, value in (("submission time", submit), ("run time", run_s)):
        if value < 0:
            repairs.add(f"jobs with negative {what}", "left out")
            return False
    return True


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[0] or path.name
