"""How far long work on this machine is: bars on a terminal, now and then a line elsewhere. Always on stderr."""

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import click

from ares.edge.cli.render.text import printable

# Without a terminal: a line for every part of this size.
_LINES = 4


class Bars:
    """One bar per name; `quiet` shows nothing."""

    def __init__(self, names: Sequence[str], of: str, *, quiet: bool = False) -> None:
        self._names = [printable(name) for name in names]
        self._of = of
        self._quiet = quiet
        self._drawn: Any = None
        self._bars: list[Any] = []
        self._said = [0] * len(names)

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            # Loaded only when there is a terminal to draw on.
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
                TextColumn(self._of), TimeRemainingColumn(),
            )  # fmt: skip
            self._drawn = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bars = [self._drawn.add_task(name, total=None) for name in self._names]
            self._drawn.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def show(self, at: int, done: int, total: int) -> None:
        if self._drawn is not None:
            self._drawn.update(self._bars[at], completed=done, total=total)
        elif not self._quiet:
            self._line(at, done, total)

    def _line(self, at: int, done: int, total: int) -> None:
        part = done * _LINES // total if total else _LINES
        if part > self._said[at]:
            self._said[at] = part
            click.echo(f"{self._names[at]}: {done:,} of {total:,} {self._of}", err=True)
