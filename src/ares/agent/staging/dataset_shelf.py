"""Datasets that this node has: `cache/<tenant>/datasets/<sha256>/files`, read-only, bounded, the longest unused removed
first. A file `dataset.json` beside them says that they are complete.

Tenants share nothing: how soon data is there would tell of another tenant's work. What was fetched of a version that is
not complete stays as a draft, and is checked by its digests before it is used: a fetch goes on where it was. So it is
with what was written before the machine started anew, for it may not have reached the disk.
"""

import contextlib
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from ares.agent.attempts.workspace import Folder, Workspace
from ares.agent.staging.unpack import NotWanted
from ares.api.projects import ProjectManifest
from ares.core.project import PartPlace, places_of

_DATASETS: Final = "datasets"
_FILES: Final = "files"
_RECORD: Final = "dataset.json"
_DRAFT: Final = ".draft-"
_GOING: Final = ".going-"
_BOOT: Final = "/proc/sys/kernel/random/boot_id"
# Left free on the disk.
_RESERVE_BYTES: Final = 512 << 20
_WRITE: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class NoRoomHere(Exception):
    """The node's disk, or the part of it that datasets may have, is too small; in words."""


class StagedDataset(msgspec.Struct, frozen=True):
    """What is recorded of a version that is complete."""

    bytes: int
    files: int
    # Of the files' names, sizes and times, and the start of the machine that they were written since.
    fingerprint: str
    boot: str


class _Shelved(NamedTuple):
    used_ns: int
    folder: str
    size: int


class ComingDataset:
    """A version that is being fetched. `size`: of all of it, once there is room for it."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0


class DatasetDraft:
    """A version that is being filled. `lacking` has the parts that are not here, with all their places."""

    def __init__(self, folder: str, manifest: ProjectManifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self.lacking: dict[str, list[PartPlace]] = {}

    def begin(self, wanted: Callable[[], bool]) -> None:
        """Makes the directories and files, and finds out what an earlier fetch left. Raises OSError and NotWanted."""
        known = os.path.isdir(self._folder)
        os.makedirs(f"{self._folder}/{_FILES}", mode=0o700, exist_ok=True)
        for entry in self._manifest.entries:
            path = f"{self._folder}/{_FILES}/{entry.path}"
            if entry.kind == "dir":
                os.makedirs(path, mode=0o700, exist_ok=True)
                os.chmod(path, 0o700)
            elif entry.kind == "file":
                if known and os.path.lexists(path):
                    os.chmod(path, 0o600)
                fd = os.open(path, _WRITE, 0o600)
                os.ftruncate(fd, entry.size)
                os.close(fd)
        self.lacking = places_of(self._manifest)
        if known:
            self._look(wanted)

    def _look(self, wanted: Callable[[], bool]) -> None:
        for part, places in list(self.lacking.items()):
            if not wanted():
                raise NotWanted
            left = [place for place in places if self._digest(place) != part]
            if left:
                self.lacking[part] = left
            else:
                del self.lacking[part]

    def _digest(self, place: PartPlace) -> str:
        with open(f"{self._folder}/{_FILES}/{place.path}", "rb", buffering=0) as file:
            return hashlib.sha256(os.pread(file.fileno(), place.size, place.at)).hexdigest()

    def write(self, part: str, data: bytes) -> None:
        """The part was checked. Raises OSError."""
        for place in self.lacking[part]:
            fd = os.open(f"{self._folder}/{_FILES}/{place.path}", _WRITE, 0o600)
            try:
                rest, at = memoryview(data), place.at
                while rest:
                    written = os.pwrite(fd, rest, at)
                    rest, at = rest[written:], at + written
            finally:
                os.close(fd)

    def seal(self) -> StagedDataset:
        """All of it is here: from now on it is only read. Raises OSError."""
        root = f"{self._folder}/{_FILES}"
        for entry in self._manifest.entries:
            path = f"{root}/{entry.path}"
            if entry.kind == "file":
                os.chmod(path, 0o555 if entry.mode & 0o100 else 0o444)
            elif entry.kind == "link":
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                os.symlink(entry.link, path)
        # Last: a link could not be made in a directory that is closed.
        for entry in self._manifest.entries:
            if entry.kind == "dir":
                os.chmod(f"{root}/{entry.path}", 0o555)
        os.chmod(root, 0o555)
        return StagedDataset(
            bytes=sum(entry.size for entry in self._manifest.entries),
            files=sum(entry.kind == "file" for entry in self._manifest.entries),
            fingerprint=_fingerprint(root),
            boot=_boot(),
        )


class DatasetShelf:
    """What is pinned is changed by the agent's loop alone; files are made and removed in threads."""

    def __init__(self, root: Path, bytes_max: int) -> None:
        self._root = root
        self.bytes_max = bytes_max
        self._pinned: Counter[str] = Counter()
        # Versions that are being fetched, by their drafts: what they lack is as good as taken.
        self._coming: dict[str, ComingDataset] = {}
        # Those whose files were found as they were made, since this agent began.
        self._sound: set[str] = set()

    def open(self) -> None:
        """Removes what an agent that was killed was removing. Drafts stay: a fetch goes on from there."""
        for path in self._root.glob(f"*/{_DATASETS}/{_GOING}*"):
            _remove(str(path))

    def folder(self, tenant: str, sha256: str) -> str:
        return f"{self._root}/{tenant}/{_DATASETS}/{sha256}"

    def files(self, tenant: str, sha256: str) -> str:
        return f"{self.folder(tenant, sha256)}/{_FILES}"

    def pin(self, tenant: str, sha256: str) -> Callable[[], None]:
        """The version is not removed before what is returned was called."""
        key = self.folder(tenant, sha256)
        self._pinned[key] += 1

        def release() -> None:
            self._pinned[key] -= 1
            self._pinned = +self._pinned

        return release

    @contextlib.contextmanager
    def pinned(self, tenant: str, sha256: str) -> Generator[None]:
        release = self.pin(tenant, sha256)
        try:
            yield
        finally:
            release()

    # ---- for one version one at a time; all of these may take long

    def find(self, tenant: str, sha256: str) -> StagedDataset | None:
        """The version, if it is here and as it was made; it counts as used now. The caller has a pin."""
        folder = self.folder(tenant, sha256)
        try:
            os.utime(f"{folder}/{_RECORD}")
            record = _record(f"{folder}/{_RECORD}")
        except (OSError, msgspec.MsgspecError):
            return None
        if folder not in self._sound:
            if record.boot != _boot() or record.fingerprint != _fingerprint(f"{folder}/{_FILES}"):
                return None
            self._sound.add(folder)
        return record

    def draft(self, tenant: str, sha256: str, manifest: ProjectManifest) -> DatasetDraft:
        """To be filled. What is there under the version's own name is not as it should be: it becomes the draft."""
        folder, draft = self.folder(tenant, sha256), self._draft(tenant, sha256)
        if os.path.isdir(folder):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{folder}/{_RECORD}")
            _remove(draft)
            _open_up(folder)
            os.rename(folder, draft)
        return DatasetDraft(draft, manifest)

    def add(self, tenant: str, sha256: str, draft: DatasetDraft) -> StagedDataset:
        """A draft that lacks nothing takes its place. Raises OSError."""
        folder, record = self.folder(tenant, sha256), draft.seal()
        with open(f"{self._draft(tenant, sha256)}/{_RECORD}", "wb") as file:
            file.write(msgspec.json.encode(record))
        os.rename(self._draft(tenant, sha256), folder)
        self._sound.add(folder)
        return record

    @contextlib.contextmanager
    def coming(self, tenant: str, sha256: str) -> Generator[ComingDataset]:
        """While a version is fetched."""
        draft = self._draft(tenant, sha256)
        self._coming[draft] = coming = ComingDataset()
        try:
            yield coming
        finally:
            del self._coming[draft]

    def make_room(self, coming: ComingDataset, size: int, lacking: int) -> None:
        """Removes the longest unused until a version of this size fits, of which so much is still to be fetched. The
        room is its own while it is coming. For all versions one at a time. Raises NoRoomHere."""
        self._make_room(size, lacking)
        coming.size = size

    def _make_room(self, size: int, lacking: int) -> None:
        if size > self.bytes_max:
            raise NoRoomHere(
                f"it takes {size >> 20:,} MiB, and this node keeps {self.bytes_max >> 20:,} MiB of datasets "
                "(node.dataset_cache_mib)"
            )
        kept = sorted(self._all())
        others = {draft: coming.size for draft, coming in list(self._coming.items()) if coming.size}
        used = sum(shelved.size for shelved in kept) + sum(others.values())
        owed = sum(max(0, whole - _held_bytes(Path(draft))) for draft, whole in others.items())
        for shelved in kept:
            if used + lacking <= self.bytes_max and self._free() - owed - lacking >= _RESERVE_BYTES:
                return
            if not self._pinned[shelved.folder]:
                self._drop(shelved.folder)
                used -= shelved.size
        if used + lacking > self.bytes_max:
            raise NoRoomHere(
                f"it needs {lacking >> 20:,} MiB, and running jobs use {used >> 20:,} of the {self.bytes_max >> 20:,} "
                "MiB of datasets that this node keeps (node.dataset_cache_mib)"
            )
        if self._free() - owed - lacking < _RESERVE_BYTES:
            raise NoRoomHere(
                f"it needs {lacking >> 20:,} MiB of this node's disk, and {self._free() - owed >> 20:,} MiB are free"
            )

    def held(self) -> Iterator[tuple[str, str, int]]:
        """Tenant, digest and size of what is complete, the latest used first."""
        for shelved in sorted(self._all(), reverse=True):
            path = Path(shelved.folder)
            if not path.name.startswith("."):
                yield path.parents[1].name, path.name, shelved.size

    def _draft(self, tenant: str, sha256: str) -> str:
        return f"{self._root}/{tenant}/{_DATASETS}/{_DRAFT}{sha256}"

    def _all(self) -> Iterator[_Shelved]:
        """Complete ones, and drafts that no fetch fills now."""
        for path in self._root.glob(f"*/{_DATASETS}/*"):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                if path.name.startswith(_DRAFT):
                    folder = str(path.with_name(path.name.removeprefix(_DRAFT)))
                    if not self._pinned[folder]:
                        yield _Shelved(path.stat().st_mtime_ns, str(path), _held_bytes(path))
                else:
                    record = path / _RECORD
                    yield _Shelved(record.stat().st_mtime_ns, str(path), _record(str(record)).bytes)

    def _drop(self, folder: str) -> None:
        """Whole or not at all: it is renamed first."""
        path = Path(folder)
        going = str(path.with_name(f"{_GOING}{path.name.lstrip('.')}"))
        _remove(going)
        os.rename(folder, going)
        self._sound.discard(folder)
        _remove(going)

    def _free(self) -> int:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return shutil.disk_usage(self._root).free


def _record(path: str) -> StagedDataset:
    with open(path, "rb") as file:
        return msgspec.json.decode(file.read(), type=StagedDataset)


def _boot() -> str:
    try:
        with open(_BOOT) as file:
            return file.read().strip()
    except OSError:
        return ""


def _fingerprint(root: str) -> str:
    """Changes when a file is added, removed or written to."""
    seen = hashlib.sha256()
    for path, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            found = os.stat(f"{path}/{name}", follow_symlinks=False)
            seen.update(f"{path[len(root) :]}/{name} {found.st_size} {found.st_mtime_ns} {found.st_mode}\n".encode())
    return seen.hexdigest()


def _held_bytes(path: Path) -> int:
    held = 0
    for folder, _, names in os.walk(path):
        for name in names:
            # A draft takes its place when it is complete.
            with contextlib.suppress(FileNotFoundError):
                held += os.stat(f"{folder}/{name}", follow_symlinks=False).st_blocks * 512
    return held


def _open_up(folder: str) -> None:
    """Its directories were closed when it was complete."""
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o700)


def _remove(folder: str) -> None:
    if os.path.isdir(folder):
        Workspace.remove(Folder(folder))
