"""Where job output is kept. Never in the store of record."""

from collections.abc import Sequence
from typing import Protocol


class Logs(Protocol):
    """Output per (tenant, job, attempt, rank), addressed by byte offset."""

    def append(
        self,
        tenant: str,
        job: str,
        attempt: int,
        rank: int,
        offset: int,
        data: bytes,
        *,
        note: bool = False,
        stderr: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Writes at `offset`; repeats are harmless, and with a gap nothing is written. Returns the size kept
        now, which says where to go on from. Raises OSError when it cannot be kept. A `note` is a line of Ares' own,
        for which there is room when there is none for output. `stderr`: begin and end of what was written to stderr, in
        the order of the log."""
        ...

    def read(self, tenant: str, job: str, attempt: int, rank: int, offset: int, limit: int) -> bytes: ...

    def stderr(
        self, tenant: str, job: str, attempt: int, rank: int, begin: int, end: int
    ) -> tuple[tuple[int, int], ...]:
        """Begin and end of what was written to stderr, as far as it lies there. Old logs do not tell."""
        ...

    def size(self, tenant: str, job: str, attempt: int, rank: int) -> int: ...

    def offset_since(self, tenant: str, job: str, attempt: int, rank: int, at: float) -> int:
        """Where output of that wall-clock time begins, to the minute: a little too early rather than too late. The
        size when nothing was written since."""
        ...

    def ranks(self, tenant: str, job: str, attempt: int) -> tuple[int, ...]: ...

    def append_spans(self, tenant: str, job: str, attempt: int, rank: int, data: bytes, most: int) -> bool:
        """A line of spans that the program recorded. False: with it there would be more than `most` bytes. Raises
        OSError when it cannot be kept."""
        ...

    def spans(self, tenant: str, job: str, most: int) -> list[tuple[int, int, bytes]]:
        """Attempt, rank and lines of what was kept so, at most `most` bytes in all."""
        ...

    def delete(self, tenant: str, job: str) -> None: ...
