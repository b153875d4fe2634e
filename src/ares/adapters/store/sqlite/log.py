"""Looks into a write-ahead log for commits that SQLite passed over.

SQLite takes a log up to the first frame whose checksum is wrong, as a power failure may leave it. A frame that was
damaged later, in the middle, hides every commit after it in the same way: acknowledged commits would be lost without
an error. Frames after a finished commit are only written when that commit was durable: they are the proof.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct, unpack
from typing import BinaryIO, NamedTuple

from ares.adapters.store.sqlite.seal import Damaged

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
