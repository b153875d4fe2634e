"""Rows of results: on the terminal, as JSON, and in docs/performance.md."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
COLUMNS = ("", "what", "measured", "against", "ratio", "target", "verdict", "note")

Verdict = Literal["pass", "falls short", "not measured", ""]


@dataclass(frozen=True, slots=True)
class Row:
    """One result. `against` names the baseline of the same run, `ratio` is measured / baseline."""

    bench: str
    what: str
    measured: str
    value: float | None = None
    against: str = ""
    ratio: float | None = None
    target: str = ""
    verdict: Verdict = ""
    note: str = ""


def judged(met: bool) -> Verdict:
    return "pass" if met else "falls short"


def missing(bench: str, what: str, why: object) -> Row:
    return Row(bench, what, "not measured", verdict="not measured", note=" ".join(str(why).split()))


def rate(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 100 else f"{value:,.1f}/s"


def show(rows: Sequence[Row]) -> None:
    table = Table(title="Ares benchmarks", show_lines=False)
    for name in COLUMNS:
        table.add_column(name, overflow="fold")
    colours = {"pass": "green", "falls short": "red", "not measured": "yellow", "": "white"}
    for row in rows:
        cells = _cells(row)
        table.add_row(*cells[:6], f"[{colours[row.verdict]}]{cells[6]}[/]", cells[7])
    # A file gets whole lines; a terminal wraps them itself.
    Console(width=None if sys.stdout.isatty() else 240).print(table)


def write_json(path: Path, machine: str, rows: Sequence[Row]) -> None:
    path.write_text(json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=2) + "\n")


def write_page(machine: str, rows: Sequence[Row]) -> None:
    """Replaces what stands between the marks; the words around it are written by people."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [f"Machine: {machine}.", "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
    lines += [_line(_cells(row)) for row in rows]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")


def _cells(row: Row) -> list[str]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return [row.bench, row.what, row.measured, row.against, ratio, row.target, row.verdict, row.note]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
