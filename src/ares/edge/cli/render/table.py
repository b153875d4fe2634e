"""Plain tables in the manner of kubectl and squeue."""

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import click

from ares.edge.cli.render.text import phase_colour, printable, use_colour

GAP = "  "
_KEPT = 10
# Of the width, in percent: what the last column is left at least, if it has so much to say.
_LAST_SHARE = 35
# Columns that are never cut, wherever they stand.
_IDS = frozenset(("ID", "JOB", "SERIAL"))
R = TypeVar("R")
# A table as data: each header, and how the cell below it is read from a record.
Columns = Mapping[str, Callable[[R], str]]


def print_records(columns: Columns[R], records: Iterable[R], *, of: str) -> None:
    """A line for each record."""
    print_table(tuple(columns), ([cell(record) for cell in columns.values()] for record in records), of=of)


def print_record(columns: Columns[R], record: R) -> None:
    """A line for each column."""
    for header, cell in columns.items():
        click.echo(f"{header.lower() + ':':<10} {printable(cell(record)) or '-'}")


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, of: str, give_way: Sequence[str] = ()) -> None:
    """Made to fit the terminal's width when it is one; whole when piped. Colours only on a terminal."""
    cells = list(rows)
    if not cells:
        click.echo(f"no {of}", err=True)
        return
    width = _terminal_width() if sys.stdout.isatty() else None
    if width is not None and give_way:
        header, cells = fitting(header, cells, width, give_way)
    colour_at = list(header).index("STATE") if use_colour() and "STATE" in header else None
    for line in layout(header, cells, width, colour_at):
        click.echo(line, color=use_colour())


def _terminal_width() -> int:
    """As `shutil` has it, whose import takes longer than the table."""
    said = os.environ.get("COLUMNS", "")
    try:
        return int(said) if said.isdecimal() and int(said) else os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


def layout(
    header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None, colour_at: int | None = None
) -> list[str]:
    """The lines of a table. Empty cells show as `-`; lines are cut to `width`."""
    cells = [list(header), *([printable(cell) or "-" for cell in row] for row in rows)]
    widths = [max(_width(row[column]) for row in cells) for column in range(len(header))]
    if width is not None:
        # One long name must not push all other columns off the terminal. The first is an id, the last may be cut.
        widths[1:-1] = [
            known if title in _IDS else min(known, max(width // 6, _KEPT))
            for title, known in zip(header[1:-1], widths[1:-1], strict=True)
        ]
        cells = [[row[0], *map(cut_middle, row[1:-1], widths[1:-1]), *row[1:][-1:]] for row in cells]
    return [_line(row, widths, width, None if number == 0 else colour_at).rstrip() for number, row in enumerate(cells)]


def fitting(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int, give_way: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """The table without columns that leave too little for the last one, which says why. Columns without a value in
    any row go first, then those of `give_way` in their order."""
    shown = list(range(len(header)))
    empty = [title for at, title in enumerate(header) if title in give_way and not any(row[at] for row in rows)]
    wanted = min(max(width * _LAST_SHARE // 100, _KEPT), max(_width(row[-1]) for row in rows))
    for title in dict.fromkeys((*empty, *give_way)):
        taken = sum(_column(header, rows, at, width) + len(GAP) for at in shown[:-1])
        if title in header and (title in empty or taken + wanted > width):
            shown.remove(list(header).index(title))
    return [header[at] for at in shown], [[row[at] for at in shown] for row in rows]


def _column(header: Sequence[str], rows: Sequence[Sequence[str]], at: int, width: int) -> int:
    widest = max(_width(header[at]), *(_width(printable(row[at])) for row in rows))
    return widest if at == 0 or header[at] in _IDS else min(widest, max(width // 6, _KEPT))


def _line(row: Sequence[str], widths: Sequence[int], width: int | None, colour_at: int | None) -> str:
    parts: list[str] = []
    left = width
    for column, cell in enumerate(row):
        padding = "" if column == len(row) - 1 else " " * (widths[column] - _width(cell))
        text = (GAP if column else "") + cell + padding
        if left is not None:
            text = cut(text, left)
            left -= _width(text)
        parts.append(click.style(text, fg=phase_colour(cell)) if column == colour_at else text)
    return "".join(parts)


def cut(text: str, width: int) -> str:
    """Text that fits, with a mark where something is missing."""
    if _width(text) <= width:
        return text
    kept = ""
    for char in text:
        if _width(kept + char) > width - 1:
            break
        kept += char
    return f"{kept}…" if width > 0 else ""


def cut_middle(text: str, width: int) -> str:
    """Text that fits, with a mark for what is missing in the middle: names often differ only at their ends."""
    if _width(text) <= width or width < 3:
        return cut(text, width)
    tail, back = "", (width - 1) // 2
    for char in reversed(text):
        if _width(char + tail) > back:
            break
        tail = char + tail
    return cut(text, width - _width(tail)) + tail


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    wide = {"W": 2, "F": 2}
    return sum(0 if unicodedata.combining(c) else wide.get(unicodedata.east_asian_width(c), 1) for c in text)
