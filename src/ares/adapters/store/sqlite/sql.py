"""The part of apsw that is used here, with types that hold on Python 3.11."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

import apsw

Value = str | bytes | int | float | None


class SqlRows(Protocol):
    @property
    def get(self) -> Any:
        """The only column of the only row, None when there is no row."""
        ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class Copying(Protocol):
    @property
    def page_count(self) -> int: ...

    @property
    def remaining(self) -> int: ...

    def step(self, npages: int = -1) -> bool: ...


class Connection(Protocol):
    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statements: str, bindings: Sequence[Value] | None = None) -> SqlRows: ...

    def last_insert_rowid(self) -> int: ...

    def set_busy_timeout(self, milliseconds: int) -> None: ...

    def set_wal_hook(self, callable: Callable[["Connection", str, int], int] | None) -> None: ...  # noqa: A002

    def wal_checkpoint(self, dbname: str | None = None, mode: int = 0) -> tuple[int, int]: ...

    def backup(
        self, databasename: str, sourceconnection: "Connection", sourcedatabasename: str
    ) -> AbstractContextManager[Copying]: ...

    def create_scalar_function(self, name: str, callable: Callable[..., Value] | None, numargs: int = -1) -> None: ...  # noqa: A002

    def config(self, op: int, *args: int) -> int: ...

    def close(self, force: bool = False) -> None: ...


def connect(path: str, *, create: bool) -> Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    return cast("Connection", apsw.Connection(path, flags=flags))
