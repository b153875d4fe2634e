"""Digests of files, computed in threads and remembered: a file whose stamp did not change is not read again."""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from ares.api.projects import PART_BYTES
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.scan import FoundEntry

_Stamp = tuple[int, int, int, int]
_Known = dict[str, tuple[_Stamp, tuple[str, ...]]]
_THREADS: Final = max(2, min(8, os.cpu_count() or 2))
# A file that was changed this shortly before it was read may be changed again without a new time.
_SETTLED_NS: Final = 2_000_000_000
# Small files are given to a thread by the hundred.
_SHARE: Final = 128
_read = msgspec.msgpack.Decoder(_Known).decode

# Bytes that were read just now.
OnBytes = Callable[[int], None]


class DigestMemory:
    """What is remembered of one directory, in the user's cache directory. It may be lost: then files are read again."""

    def __init__(self, root: str) -> None:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._path = cache_home() / "ares" / "digests" / name
        self._known: _Known = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            self._known = _read(self._path.read_bytes())

    def of(self, entry: FoundEntry) -> tuple[str, ...] | None:
        known = self._known.get(entry.path)
        return known[1] if known is not None and known[0] == entry.stamp else None

    def remember(self, found: Iterable[tuple[FoundEntry, tuple[str, ...]]]) -> None:
        settled = time.time_ns() - _SETTLED_NS
        known: _Known = {
            entry.path: (entry.stamp, parts)
            for entry, parts in found
            if max(entry.stamp[1], entry.stamp[2]) < settled or self.of(entry) == parts
        }
        if known == self._known:
            return
        draft = self._path.with_name(f"{self._path.name}.{os.urandom(4).hex()}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_bytes(msgspec.msgpack.encode(known))
            draft.rename(self._path)


def cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def digest_all(root: str, entries: list[FoundEntry], on_bytes: OnBytes) -> dict[str, tuple[str, ...]]:
    """Digests of the parts of each file, by its path. Raises InvalidSpec when a file cannot be read, or changes."""
    pieces = [(entry, at) for entry in entries for at in range(0, entry.size, PART_BYTES)]
    found: dict[str, list[str]] = {entry.path: [] for entry in entries}
    if not pieces:
        return dict.fromkeys(found, ())
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS, "digests") as pool:
        for done in pool.map(partial(_digests, root, on_bytes), _shares(pieces)):
            for path, digest in done:
                found[path].append(digest)
    return {path: tuple(parts) for path, parts in found.items()}


def _shares(pieces: list[tuple[FoundEntry, int]]) -> Iterator[list[tuple[FoundEntry, int]]]:
    """Shares of about one part each."""
    share, size = list[tuple[FoundEntry, int]](), 0
    for entry, at in pieces:
        share.append((entry, at))
        size += min(PART_BYTES, entry.size - at)
        if size >= PART_BYTES or len(share) == _SHARE:
            yield share
            share, size = [], 0
    if share:
        yield share


def _digests(root: str, on_bytes: OnBytes, share: list[tuple[FoundEntry, int]]) -> list[tuple[str, str]]:
    found = list[tuple[str, str]]()
    for entry, at in share:
        data = read_part(root, entry, at)
        on_bytes(len(data))
        found.append((entry.path, hashlib.sha256(data).hexdigest()))
    return found


def read_part(root: str, entry: FoundEntry, at: int) -> bytes:
    """The bytes of a part. Raises InvalidSpec when the file is not as it was found."""
    size = min(PART_BYTES, entry.size - at)
    try:
        fd = os.open(f"{root}/{entry.path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = os.pread(fd, size, at)
        finally:
            os.close(fd)
    except OSError as error:
        raise InvalidSpec(
            f"{entry.path} cannot be read: {error.strerror}",
            fix="make it readable, or leave it out by a line in .aresignore",
        ) from error
    if len(data) != size:
        raise changed(entry.path)
    return data


def changed(path: str) -> InvalidSpec:
    return InvalidSpec(f"{path} changed while it was shipped", fix="submit again when it is complete")
