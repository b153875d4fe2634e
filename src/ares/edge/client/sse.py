"""Server-sent events from bytes, without I/O."""

from collections.abc import Iterator
from dataclasses import dataclass

_LINE_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: `id` is the cursor to resume after it."""

    id: str
    event: str
    data: str


class SseParser:
    """Feed it chunks as they come; it yields events as they are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._id = ""
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        if len(self._rest) > _LINE_MAX:
            raise ValueError(f"a line of the event stream is longer than {_LINE_MAX} bytes")
        for line in lines:
            if line:
                self._field(line.decode("utf-8", "replace"))
            elif self._data or self._event:
                yield ServerEvent(self._id, self._event or "message", "\n".join(self._data))
                self._event, self._data = "", []

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self._id = value
