"""Files of a dataset as they come: part by part, each checked, and none of them in its place before it is whole.

A transfer that broke off goes on where it was: parts that are here already are known by their digest.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Final

from ares.api.projects import PART_BYTES, PARTS_ASKED_MAX, ProjectEntry
from ares.core.project import ManifestFlaw, PartPlace, read_manifest
from ares.edge.client.errors import BadAnswer, InvalidSpec

# Bytes that are here now, those that were here before included.
OnReceived = Callable[[int], None]
_UNFINISHED: Final = ".ares-part"
_LENGTH_BYTES: Final = 4
# Of one request.
_ASKED_BYTES: Final = 8 << 20
_BYTES_MAX: Final = 1 << 53
_WRITE: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Receiving:
    """A version of a dataset below a directory. Several threads take turns; after a failure there is no next."""

    def __init__(self, root: Path, manifest: bytes, version: str, on_bytes: OnReceived) -> None:
        """Raises BadAnswer."""
        if hashlib.sha256(manifest).hexdigest() != version:
            raise BadAnswer("the manifest that came is not the one that was asked for")
        try:
            self._entries = read_manifest(manifest, _BYTES_MAX).entries
        except ManifestFlaw as flaw:
            raise BadAnswer(f"the dataset cannot be saved: {flaw}") from None
        self._root = root
        self._on_bytes = on_bytes
        self._lock = Lock()
        # What is not here yet, by digest: the places that lack it.
        self._lacking: dict[str, list[PartPlace]] = {}
        self._left: list[str] = []
        self._drafts: list[ProjectEntry] = []
        self.version = version
        self.files = sum(entry.kind == "file" for entry in self._entries)
        self.size = sum(entry.size for entry in self._entries)
        self.received = 0

    def begin(self) -> None:
        """Makes the directories, and finds out what is here already. Raises InvalidSpec."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            for entry in self._entries:
                if entry.kind == "dir":
                    _make(self._root / entry.path)
                elif entry.kind == "file":
                    self._look(entry)
        except OSError as error:
            raise _not_saved(error) from error
        self._left = list(self._lacking)

    def _look(self, entry: ProjectEntry) -> None:
        path = f"{self._root}/{entry.path}"
        if os.path.isfile(path) and os.path.getsize(path) == entry.size and not any(_unlike(path, entry)):
            self._on_bytes(entry.size)
            return
        fd = os.open(path + _UNFINISHED, _WRITE, 0o644)
        try:
            known = os.fstat(fd).st_size == entry.size
            os.ftruncate(fd, entry.size)
        finally:
            os.close(fd)
        self._drafts.append(entry)
        lacking = list(_unlike(path + _UNFINISHED, entry) if known else _parts(entry))
        for part, place in lacking:
            self._lacking.setdefault(part, []).append(place)
        self._on_bytes(entry.size - sum(place.size for _, place in lacking))

    # ---- what comes

    def next(self) -> tuple[str, ...] | None:
        """Parts to ask for together; None when no more is to come."""
        with self._lock:
            some, size = list[str](), 0
            while self._left and len(some) < PARTS_ASKED_MAX and size < _ASKED_BYTES:
                part = self._left.pop()
                some.append(part)
                size += self._lacking[part][0].size
        return tuple(some) or None

    def stop(self) -> None:
        with self._lock:
            self._left.clear()

    def take(self, asked: tuple[str, ...], body: bytes) -> None:
        """Writes what came. What was asked for and is not in it is asked for again. Raises BadAnswer."""
        whole, at, came = memoryview(body), 0, 0
        try:
            while at < len(whole):
                size = int.from_bytes(whole[at : at + _LENGTH_BYTES])
                data = whole[at + _LENGTH_BYTES : at + _LENGTH_BYTES + size]
                at += _LENGTH_BYTES + size
                if came == len(asked) or hashlib.sha256(data).hexdigest() != asked[came]:
                    raise BadAnswer("a part of a file came that is not the one that was asked for")
                self._write(self._lacking[asked[came]], data)
                came += 1
        except OSError as error:
            raise _not_saved(error) from error
        if not came:
            raise BadAnswer(f"none of {len(asked):,} parts came")
        with self._lock:
            self._left += asked[came:]

    def _write(self, places: list[PartPlace], data: memoryview) -> None:
        for place in places:
            fd = os.open(f"{self._root}/{place.path}{_UNFINISHED}", _WRITE, 0o644)
            try:
                written = 0
                while written < len(data):
                    written += os.pwrite(fd, data[written:], place.at + written)
            finally:
                os.close(fd)
            with self._lock:
                self.received += place.size
            self._on_bytes(place.size)

    def finish(self) -> None:
        """All files are whole: they get their names, and links are made. Raises InvalidSpec."""
        try:
            for entry in self._drafts:
                path = f"{self._root}/{entry.path}"
                os.chmod(path + _UNFINISHED, entry.mode)
                os.replace(path + _UNFINISHED, path)
            for entry in self._entries:
                path = f"{self._root}/{entry.path}"
                if entry.kind == "link" and not (os.path.islink(path) and os.readlink(path) == entry.link):
                    os.symlink(entry.link, path)
        except OSError as error:
            raise _not_saved(error) from error


def _make(folder: Path) -> None:
    """Through a link, which another version may have left, files would come to lie elsewhere."""
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link here, and a directory in the dataset", str(folder))
    folder.mkdir(exist_ok=True)


def _parts(entry: ProjectEntry) -> Iterator[tuple[str, PartPlace]]:
    for number, part in enumerate(entry.parts):
        at = number * PART_BYTES
        yield part, PartPlace(entry.path, at, min(PART_BYTES, entry.size - at))


def _unlike(path: str, entry: ProjectEntry) -> Iterator[tuple[str, PartPlace]]:
    """The parts that a file has not, as it should."""
    fd = os.open(path, _READ)
    try:
        for part, place in _parts(entry):
            if hashlib.sha256(os.pread(fd, place.size, place.at)).hexdigest() != part:
                yield part, place
    finally:
        os.close(fd)


def _not_saved(error: OSError) -> InvalidSpec:
    where = f"{error.filename}: " if error.filename else ""
    return InvalidSpec(
        f"the files cannot be saved: {where}{error.strerror}", fix="free some space, or name another directory"
    )
