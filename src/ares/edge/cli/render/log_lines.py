"""Output of several jobs and ranks on one screen: whole lines, each with the name of its source."""

import json
import sys
import threading
from typing import NamedTuple

import click

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
# A line without an end is shown after so much of it.
_LINE_MAX = 64 * 1024


class LogSource(NamedTuple):
    """One rank of one job."""

    job: str
    rank: int
    # What its lines begin with.
    label: str


class LineWriter:
    """Lines of many sources, one at a time however many threads write. With `grep` only those that contain it."""

    def __init__(self, sources: "list[LogSource]", *, grep: str = "", as_json: bool = False) -> None:
        self._lock = threading.Lock()
        self._grep = grep.encode()
        self._json = as_json
        self._coloured = _on_terminal() and not as_json
        self._width = max((len(source.label) for source in sources), default=0)
        self._colour = {source: _COLOURS[at % len(_COLOURS)] for at, source in enumerate(sources)}
        self._rest: dict[LogSource, bytes] = {}

    def feed(self, source: LogSource, chunk: bytes) -> None:
        """A piece of the source's output, as it came."""
        *lines, rest = (self._rest.get(source, b"") + chunk).split(b"\n")
        if len(rest) > _LINE_MAX:
            lines, rest = [*lines, rest], b""
        self._rest[source] = rest
        self._write(source, lines)

    def line(self, source: LogSource, text: str) -> None:
        """A line that the server found."""
        self._write(source, [text.encode()])

    def end(self, source: LogSource) -> None:
        """The source has no more: its last line may have no end."""
        if rest := self._rest.pop(source, b""):
            self._write(source, [rest])

    def _write(self, source: LogSource, lines: list[bytes]) -> None:
        wanted = [line for line in lines if self._grep in line] if self._grep else lines
        if not wanted:
            return
        with self._lock:
            for line in wanted:
                sys.stdout.buffer.write(self._shown(source, line) + b"\n")
            sys.stdout.buffer.flush()

    def _shown(self, source: LogSource, line: bytes) -> bytes:
        if self._json:
            record = {"job": source.job, "rank": source.rank, "line": line.decode("utf-8", "replace")}
            return json.dumps(record).encode()
        if not source.label:
            return self._clean(source, line)
        label = f"{source.label:<{self._width}} |"
        label = click.style(label, fg=self._colour[source]) if self._coloured else label
        return label.encode() + b" " + self._clean(source, line)

    def _clean(self, source: LogSource, line: bytes) -> bytes:
        """On a terminal, text that cannot drive it; otherwise the bytes as they are."""
        if not sys.stdout.isatty():
            return line
        from ares.edge.cli.render.terminal import TerminalFilter

        shown = TerminalFilter()
        return (shown.feed(line.rstrip(b"\r")) + shown.end()).encode()


def _on_terminal() -> bool:
    from ares.edge.cli.render.text import use_colour

    return use_colour()
