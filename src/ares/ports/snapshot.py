"""The store of record as it was at one moment, for readers that change nothing."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, Self

from ares.ports.store import KV

# Called with how much is done, and of how much in all.
Progress = Callable[[int, int], None]


class Snapshot(Protocol):
    """Every answer is from the same revision. Used by one thread, in a `with` block."""

    @property
    def revision(self) -> int: ...

    def rows(self, prefix: str) -> Iterator[KV]:
        """Keys under `prefix`, in order, fetched on demand. Several iterations may be under way at once."""
        ...

    def get(self, key: str) -> KV | None: ...

    def count(self, prefix: str) -> int: ...

    def damage(self) -> tuple[str, ...]:
        """What is wrong with the storage itself, in its own words; nothing when it is sound or cannot tell."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...
