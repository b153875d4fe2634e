"""Directories of attempts: `attempts/<job>.<fence>.<rank>/` with `work/`, `outputs/` and files beside them.

Making and removing directories costs more than starting a process. A directory that an attempt left clean
is therefore renamed for the next attempt. Looking into an empty directory costs more than looking at it: one
whose inode and time of change are as when it was seen empty is empty. No job can set that time.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Generator, Iterator
from itertools import count, islice
from pathlib import Path

import msgspec

from ares.agent.files.outputs import holds_any
from ares.model.job import projects_of
from ares.model.link import AttemptRef, Start
from ares.ports.executor import STDERR_INDEX

_SPARE_MAX = 256
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Each level takes a descriptor while it is removed.
_DEPTH_MAX = 100
_FOLDER_MODE = stat.S_IFDIR | 0o700
_LOG_MODE = stat.S_IFREG | 0o600
_DIRECTORIES = frozenset({"work", "outputs"})
_OWN_NAMES = _DIRECTORIES | {"log", "log" + STDERR_INDEX, "result.json", "progress.json", "world.json"}
# A directory that was changed this shortly before may change again within the same tick of its file system's clock.
_FRESH_NS = 2_000_000_000
# Inode and time of change of the two directories as they were when they were seen empty; zeros: not known.
_Stamp = tuple[int, int]
_Empty = tuple[_Stamp, _Stamp]
_UNKNOWN: _Empty = ((0, 0), (0, 0))


class Folder(msgspec.Struct, frozen=True, gc=False):
    """One attempt's directory."""

    path: str

    @property
    def work(self) -> str:
        return f"{self.path}/work"

    @property
    def outputs(self) -> str:
        return f"{self.path}/outputs"

    @property
    def log(self) -> str:
        return f"{self.path}/log"

    @property
    def result(self) -> str:
        return f"{self.path}/result.json"

    @property
    def progress(self) -> str:
        return f"{self.path}/progress.json"

    @property
    def world(self) -> str:
        return f"{self.path}/world.json"

    @property
    def runtime(self) -> str:
        """Of a job with a runtime: what its helper is told."""
        return f"{self.path}/runtime.json"

    @property
    def ended(self) -> str:
        """What the helper says of its end."""
        return f"{self.path}/ended.json"

    @property
    def inputs(self) -> str:
        """Of a job with inputs: a name for each."""
        return f"{self.path}/inputs"

    @property
    def secrets(self) -> str:
        return f"{self.path}/secrets"

    @property
    def checkpoints(self) -> str:
        """Where the job leaves its checkpoints."""
        return f"{self.path}/checkpoints"

    @property
    def restore(self) -> str:
        """The checkpoint that the attempt goes on from."""
        return f"{self.path}/restore"

    @property
    def layer(self) -> str:
        """What the attempt changes of its image. Beside the directory: the attempt sees it as its root only."""
        return f"{self.path}.layer"

    @property
    def door(self) -> str:
        """The socket by which the job submits jobs."""
        return f"{self.path}/submit"

    @property
    def pipe(self) -> str:
        """The named pipe for the output of an attempt with secrets."""
        return f"{self.path}/pipe"

    @property
    def stderr_pipe(self) -> str:
        """The same for what it writes to stderr."""
        return f"{self.path}/pipe.err"


class Workspace:
    def __init__(self, state_dir: Path) -> None:
        self.root = state_dir / "attempts"
        # By owner: a directory is never passed from one tenant's user to another's.
        self._spare: dict[int, list[tuple[Folder, _Empty]]] = {}
        self._spares = 0
        # Of directories in use that were spare before.
        self._empty: dict[str, _Empty] = {}

    def clear(self) -> None:
        """Removes everything: directories of an earlier process belong to an older incarnation."""
        self._spare.clear()
        self._spares = 0
        self._empty.clear()
        _remove(self.root)
        self.root.mkdir(parents=True, mode=0o700, exist_ok=True)

    def folder(self, ref: AttemptRef, rank: int) -> Folder:
        """The path of an attempt's directory. `create` makes it."""
        return Folder(f"{self.root}/{ref.job}.{ref.fence}.{rank}")

    def create(self, folder: Folder, uid: int | None = None, *, fresh: bool = False) -> None:
        """Reuses a spare directory of that user, or makes a new one, which belongs to the agent's user at first.

        What the agent writes in before the start needs a fresh one: another job of the same user may have kept a spare
        open, and put a link in the way.
        """
        spare = None if fresh else self._spare.get(os.geteuid() if uid is None else uid)
        if spare:
            self._spares -= 1
            before, empty = spare.pop()
            os.rename(before.path, folder.path)
            self._empty[folder.path] = empty
        else:
            os.mkdir(folder.path, 0o700)
            os.mkdir(folder.work, 0o700)
            os.mkdir(folder.outputs, 0o700)

    def recycle(self, folder: Folder) -> bool:
        """Keeps a directory whose attempt left nothing in it. False when it has to be removed."""
        known = self._empty.pop(folder.path, _UNKNOWN)
        if self._spares >= _SPARE_MAX:
            return False
        try:
            seen = os.lstat(folder.path)
            uid, empty = seen.st_uid, _cleaned(folder, seen, known)
            if empty is not None:
                spares = self._spare.setdefault(uid, [])
                spare = Folder(f"{self.root}/spare.{uid}.{len(spares)}")
                os.rename(folder.path, spare.path)
                spares.append((spare, empty))
                self._spares += 1
        except OSError:
            return False
        return empty is not None

    def has_outputs(self, folder: Folder) -> bool:
        """Whether the attempt left anything in its output directory. Every attempt pays for this look."""
        with contextlib.suppress(OSError):
            _, known = self._empty.get(folder.path, _UNKNOWN)
            if _stamp(os.lstat(folder.outputs)) == known:
                return False
        return holds_any(folder.outputs)

    @staticmethod
    def remove(folder: Folder) -> None:
        """Removes it with everything in it. May take long: call it in a thread."""
        _remove(folder.path)
        if os.path.lexists(folder.layer):
            _remove(folder.layer)


def written_in(start: Start) -> bool:
    """Whether the agent itself writes in the attempt's directory before it starts."""
    spec = start.spec
    return bool(
        projects_of(spec) or spec.image or start.secrets or spec.children or spec.runtime or spec.checkpoint
        or start.checkpoint
    )  # fmt: skip


def used_bytes(folder: Folder) -> int:
    """The disk space of a directory. Files that vanish meanwhile do not count."""
    total, ahead = 0, [folder.path, folder.layer]
    while ahead:
        try:
            with os.scandir(ahead.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
    return total


def _remove(root: str | Path) -> None:
    """Removes the whole tree, also directories that a job left without any permission, or nested thousands deep."""
    _try_remove(root)
    # Root needs no permission, so a second try would not help it.
    if os.geteuid() and os.path.lexists(root):
        with contextlib.suppress(RecursionError):
            _unlock(root)
        _try_remove(root)


def _try_remove(root: str | Path) -> None:
    with contextlib.suppress(OSError):
        _flatten(root)
    with contextlib.suppress(RecursionError):
        shutil.rmtree(root, ignore_errors=True)


def _flatten(root: str | Path) -> None:
    """Moves directories that are too deep for `rmtree` up to the top, until none is left. Raises OSError."""
    top, names = os.open(root, _DIRECTORY), map(".deep-{}".format, count())
    try:
        ahead = list(_moved_up(top, top, 0, names))
        while ahead:
            with _opened(ahead.pop(), top) as folder:
                ahead += _moved_up(top, folder, 1, names)
    finally:
        os.close(top)


def _moved_up(top: int, folder: int, depth: int, names: Iterator[str]) -> Iterator[str]:
    """New names of those that were too deep."""
    with os.scandir(folder) as entries:
        inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    for name in inner:
        if depth < _DEPTH_MAX:
            with _opened(name, folder) as below:
                yield from _moved_up(top, below, depth + 1, names)
            continue
        # A name that the job has taken already is passed over.
        new = next(new for new in names if new not in os.listdir(top))
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
        yield new


@contextlib.contextmanager
def _opened(name: str, above: int) -> Generator[int]:
    fd = os.open(name, _DIRECTORY, dir_fd=above)
    try:
        yield fd
    finally:
        os.close(fd)


def _unlock(root: str | Path) -> None:
    with contextlib.suppress(OSError):
        os.chmod(root, 0o700)
    for path, names, _ in os.walk(root):
        # Each directory is opened before the walk enters it. A link may lead out of the tree.
        for inner in (os.path.join(path, name) for name in names):
            with contextlib.suppress(OSError):
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)


def _names(path: str, limit: int) -> set[str]:
    """The names in a directory, at most one more than `limit`: a job may leave millions, and the agent's loop waits."""
    with os.scandir(path) as entries:
        return {entry.name for entry in islice(entries, limit + 1)}


def _cleaned(folder: Folder, top: os.stat_result, known: _Empty) -> _Empty | None:
    """What the two directories are like, when only files of Ares are left; it removes or empties those. None when the
    job left anything else. `top`: the directory itself; `known`: what the two were like when they were seen empty."""
    names = _names(folder.path, len(_OWN_NAMES))
    if not _DIRECTORIES <= names <= _OWN_NAMES:
        return None
    stamps = list[_Stamp]()
    # It was renamed for this attempt, by the same clock.
    settled = top.st_ctime_ns - _FRESH_NS
    for path, before in zip((folder.work, folder.outputs), known, strict=True):
        seen = os.lstat(path)
        if (seen.st_mode, seen.st_uid) != (_FOLDER_MODE, top.st_uid):
            return None
        stamp = _stamp(seen)
        if stamp != before and _names(path, 0):
            return None
        stamps.append(stamp if seen.st_ctime_ns < settled else (0, 0))
    if "log" in names:
        log = os.lstat(folder.log)
        # A second hard link would show the next attempt's output to this job.
        if log.st_mode != _LOG_MODE or log.st_nlink != 1:
            return None
        if log.st_size and not _emptied(folder.log, log):
            return None
    for name in names - _DIRECTORIES - {"log"}:
        os.unlink(f"{folder.path}/{name}")
    return stamps[0], stamps[1]


def _stamp(seen: os.stat_result) -> _Stamp:
    return seen.st_ino, seen.st_ctime_ns


def _emptied(path: str, seen: os.stat_result) -> bool:
    """Empties the file that was looked at: a process that kept the directory open may have put a link in its place."""
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        same = os.path.samestat(os.fstat(fd), seen)
        if same:
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)
    return same
