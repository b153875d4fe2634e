"""A mark in a file beside the store: whether its log must exist, and its revision.

Without it a store whose files were removed looks like a new one, and a store whose log was removed like an older one:
acknowledged jobs would be lost without an error, and the platform would start empty.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ares.adapters.store.sqlite.seal import Damaged
from ares.ports.store import StoreError

_BYTES = 32
_FIX = (
    "Restore the last backup by `ares store restore FILE`. To go on with what is left, remove {path}.mark, start, and "
    "stop; then `ares store new-epoch`"
)


class StoreMark(NamedTuple):
    """`in_use`: a server has the store or ended without closing it, so its log is there."""

    in_use: bool
    revision: int


def read(path: str) -> StoreMark | None:
    """The mark, or None for a store that is new or of an earlier version."""
    with suppress(OSError, ValueError):
        word, revision = Path(f"{path}.mark").read_text("ascii").split()
        return StoreMark(word == "open", int(revision))
    return None


def write(path: str, mark: StoreMark, *, durable: bool) -> bool:
    """Whether it could be written. The revision in it may be old, but never too new."""
    try:
        _put(path, mark, durable=durable)
    except OSError:
        return False
    return True


def write_first(path: str, mark: StoreMark) -> None:
    """The mark of a store that is being opened. A full disk leaves the one that was there.

    After a failed sync the file may be lost although a second sync would succeed: the error is raised.
    """
    try:
        _put(path, mark, durable=True)
    except _NotSynced as error:
        raise StoreError(f"{path}.mark did not reach the disk ({error}): check the disk, then start again") from error
    except OSError:
        pass


class _NotSynced(OSError):
    """The kernel accepted the bytes and could not write them to the disk."""


def _put(path: str, mark: StoreMark, *, durable: bool) -> None:
    text = f"{'open' if mark.in_use else 'closed'} {mark.revision}".ljust(_BYTES - 1) + "\n"
    handle = os.open(f"{path}.mark", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(handle, text.encode("ascii"), 0)
        if durable:
            _sync(handle)
    finally:
        os.close(handle)


def _sync(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        raise _NotSynced(*error.args) from error


def require_files(path: str, mark: StoreMark | None) -> None:
    """Before anything is opened: SQLite makes what is missing."""
    if mark is None:
        return
    if not Path(path).exists():
        raise Damaged(f"{path} is gone: it had revision {mark.revision}. {_FIX.format(path=path)}")
    if mark.in_use and not Path(f"{path}-wal").exists():
        raise Damaged(
            f"{path}-wal is gone: what was written last, up to revision {mark.revision} and perhaps beyond, was in it. "
            f"{_FIX.format(path=path)}"
        )


def require_revision(path: str, mark: StoreMark | None, revision: int) -> None:
    if mark is not None and revision < mark.revision:
        raise Damaged(
            f"{path} has revision {revision} and had {mark.revision}: it or its log was cut, or replaced by an older "
            f"one. {_FIX.format(path=path)}"
        )
