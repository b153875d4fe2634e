"""A mark in a file beside the store: whether its log must exist, and its revision.

Without it a store whose files were removed looks like a new one, and a store whose log was removed like an older one:
acknowledged jobs would be lost without an error, and the platform would start empty.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct, unpack
from typing import BinaryIO, NamedTuple

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


# ---- commits that SQLite passed over
# SQLite takes a log up to the first frame whose checksum is wrong, as a power failure may leave it. A frame that was
# damaged later, in the middle, hides every commit after it in the same way: acknowledged commits would be lost without
# an error. Frames after a finished commit are only written when that commit was durable: they are the proof.


_HEADER = Struct(">8I")
_FRAME = Struct(">6I")
_MAGIC = 0x377F0682
_WORD = 0xFFFFFFFF
# A full disk may leave the ends of a few commits that were refused.
_TORN_MAX = 3
# The first salt of a log is one more than that of the log whose file it takes over, which may have been longer.
_LOGS_BEFORE_MAX = 1 << 20

Sums = tuple[int, int]


class _Header(NamedTuple):
    big: bool
    page: int
    salts: tuple[int, int]
    sums: Sums


class _Frame(NamedTuple):
    number: int
    # How many pages the store has after this commit; 0 within a transaction.
    commit: int
    follows: bool


def has_torn_commit(path: str, recovered: int) -> bool:
    """Whether a commit after the first `recovered` frames is not whole; raises Damaged when more than the last is lost.

    The last commit may have been torn before it was acknowledged, or damaged after: the log does not tell which.
    """
    log = Path(f"{path}-wal")
    if not log.exists() or log.stat().st_size <= _HEADER.size:
        return False
    commits = 0
    with log.open("rb") as file:
        for frame in _passed_over(file, path, recovered):
            if (commits and frame.follows) or commits > _TORN_MAX:
                raise Damaged(
                    f"{log} is damaged after frame {recovered}, and acknowledged commits lie behind that place. "
                    "Restore the last backup by `ares store restore FILE`"
                )
            commits += frame.commit != 0
    return commits > 0


def _passed_over(file: BinaryIO, path: str, recovered: int) -> Iterator[_Frame]:
    """Frames of the present log that SQLite did not take."""
    header = _header(file, path)
    size = _FRAME.size + header.page
    before = header.sums
    if recovered:
        file.seek(_HEADER.size + (recovered - 1) * size)
        before = _FRAME.unpack(file.read(_FRAME.size))[4:]
    number = recovered
    file.seek(_HEADER.size + recovered * size)
    while data := file.read(size):
        if len(data) < size:
            # The log is cut off within a frame, which may have been the end of a commit.
            yield _Frame(number + 1, commit=1, follows=False)
            return
        number += 1
        page, commit, salt_1, salt_2, *sums = _FRAME.unpack_from(data)
        if (salt_1, salt_2) == header.salts:
            follows = _sums(data[:8] + data[_FRAME.size :], before, header.big) == tuple(sums)
            yield _Frame(number, commit, follows)
        elif not page or not 0 < (header.salts[0] - salt_1) & _WORD <= _LOGS_BEFORE_MAX:
            # No frame of an earlier log either: so it was one of this log, perhaps the end of a commit.
            yield _Frame(number, commit=1, follows=False)
        before = (sums[0], sums[1])


def _header(file: BinaryIO, path: str) -> _Header:
    data = file.read(_HEADER.size)
    magic, _, page, _, salt_1, salt_2, *sums = _HEADER.unpack(data)
    big = bool(magic & 1)
    if magic & ~1 != _MAGIC or _sums(data[:24], (0, 0), big) != tuple(sums):
        raise Damaged(
            f"{path}-wal is damaged: its header cannot be read, and commits in it may not be in {path} yet. Restore "
            "the last backup by `ares store restore FILE`"
        )
    return _Header(big, page, (salt_1, salt_2), (sums[0], sums[1]))


def _sums(data: bytes, before: Sums, big: bool) -> Sums:
    """SQLite's own checksum of logs."""
    first, second = before
    words = unpack(f"{'>' if big else '<'}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second
