"""Output of several jobs and ranks on one screen: whole lines that do not control the terminal, with their source."""

import codecs
import re
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from ares.api.jobs import LogStream

# ---- made safe to show


# In order: a colour; a string command (title, clipboard, link) up to its end; any other control sequence or escape;
# other control characters. C1 controls count as well: some terminals obey them.
_CONTROL = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
# An escape that may go on in the next piece.
_UNFINISHED = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x9c]*\Z|(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z|\x1b[ -/]*\Z"
)
_PENDING_MAX = 4096


class TerminalFilter:
    """Keeps text, line ends, tabs, carriage returns and colours; drops everything else that steers a terminal."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""
        self._coloured = False

    def feed(self, chunk: bytes, *, final: bool = False) -> str:
        text = self._pending + self._decode(chunk, final)
        cut = None if final else _UNFINISHED.search(text)
        # A sequence that never ends is dropped by its first character, so that it cannot hold the output back.
        if cut is not None and len(text) - cut.start() <= _PENDING_MAX:
            text, self._pending = text[: cut.start()], text[cut.start() :]
        else:
            self._pending = ""
        return _CONTROL.sub(self._keep, text)

    def end(self) -> str:
        """What is left, and the end of colours the job left on."""
        return self.feed(b"", final=True) + ("\x1b[0m" if self._coloured else "")

    def _keep(self, match: re.Match[str]) -> str:
        if match["colour"] is None:
            return ""
        self._coloured = True
        return match["colour"]


# ---- lines of several jobs


_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
_STREAMS: "tuple[LogStream, LogStream]" = ("stdout", "stderr")
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
        self._rest: dict[tuple[LogSource, LogStream], bytes] = {}

    def feed(self, source: LogSource, chunk: bytes, stream: "LogStream") -> None:
        """A piece of the source's output, as it came. Each stream has lines of its own."""
        *lines, rest = (self._rest.get((source, stream), b"") + chunk).split(b"\n")
        if len(rest) > _LINE_MAX:
            lines, rest = [*lines, rest], b""
        self._rest[source, stream] = rest
        self._write(source, lines, stream)

    def line(self, source: LogSource, text: str, stream: "LogStream") -> None:
        """A line that the server found."""
        self._write(source, [text.encode()], stream)

    def end(self, source: LogSource) -> None:
        """The source has no more: its last lines may have no end."""
        for stream in _STREAMS:
            if rest := self._rest.pop((source, stream), b""):
                self._write(source, [rest], stream)

    def _write(self, source: LogSource, lines: list[bytes], stream: "LogStream") -> None:
        wanted = [line for line in lines if self._grep in line] if self._grep else lines
        if not wanted:
            return
        with self._lock:
            for line in wanted:
                sys.stdout.buffer.write(self._shown(source, line, stream) + b"\n")
            sys.stdout.buffer.flush()

    def _shown(self, source: LogSource, line: bytes, stream: "LogStream") -> bytes:
        if self._json:
            import json

            text = line.decode("utf-8", "replace")
            return json.dumps({"job": source.job, "rank": source.rank, "stream": stream, "line": text}).encode()
        text = self._clean(line)
        if stream == "stderr" and self._coloured:
            text = b"\x1b[31m" + text + b"\x1b[39m"
        if not source.label:
            return text
        label = f"{source.label:<{self._width}} |"
        label = click.style(label, fg=self._colour[source]) if self._coloured else label
        return label.encode() + b" " + text

    @staticmethod
    def _clean(line: bytes) -> bytes:
        """On a terminal, text that cannot drive it; otherwise the bytes as they are."""
        if not sys.stdout.isatty():
            return line

        shown = TerminalFilter()
        return (shown.feed(line.rstrip(b"\r")) + shown.end()).encode()


def _on_terminal() -> bool:
    from ares.edge.cli.render.text import use_colour

    return use_colour()
