"""Turns what a store keeps or tells of its changes into commits of a history."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from ares.check.invariants.history import Commit, Write


class Changed(NamedTuple):
    """One key of one revision. `value` is None when the key was deleted."""

    revision: int
    key: str
    value: bytes | None
    version: int = 0


def commit_of(changes: Iterable[Changed], t: float, by: str = "") -> Commit:
    """All of them are of one revision."""
    rows = tuple(changes)
    writes = tuple(
        Write(row.key, None if row.value is None else row.value.decode(), 0 if row.value is None else row.version)
        for row in rows
    )
    return Commit(t=t, revision=rows[0].revision, writes=writes, by=by)


def commits_of(changes: Iterable[Changed], t: float = 0.0) -> Iterator[Commit]:
    """One commit for each run of changes with the same revision, all at one time, which a log of changes has not."""
    for _, rows in groupby(changes, key=lambda row: row.revision):
        yield commit_of(rows, t)
