"""A directory of each tenant on the node that outlives its jobs: `$ARES_CACHE_DIR`, bounded in bytes and files.

Jobs of the tenant write to it while it is looked through. Every step is therefore taken from the directory above, and
no link is followed: a job cannot lead the agent elsewhere.
"""

import asyncio
import contextlib
import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from ares.agent.staging.node_environment import folder_at
from ares.ports.clock import Clock
from ares.ports.executor import NodeFolder

_log = structlog.get_logger(__name__)

_OWN: Final = "own"
_LOOK_EVERY_S: Final = 60.0
# After a removal this share of the bounds is in use.
_LEFT_SHARE: Final = 0.9
# What is nested deeper, or more than so many times the bound of files, is removed without being looked at.
_DEPTH_MAX: Final = 64
_LOOKED_AT: Final = 2
_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Caches of well-known programs, below the directory. XDG_CACHE_HOME is the one that most others go by.
_XDG: Final = "XDG_CACHE_HOME"
_BELOW: Final = {"HF_HOME": "huggingface", "TORCH_HOME": "torch", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv"}


class CacheBounds(NamedTuple):
    """Of one tenant."""

    bytes_max: int = 20 << 30
    files_max: int = 1_000_000


class _CachedFile(NamedTuple):
    used_ns: int
    size: int
    folder: str
    name: str


class _CacheContents(NamedTuple):
    files: list[_CachedFile]
    folders: list[str]
    # Too deep to be looked at.
    deep: list[str]
    size: int
    complete: bool

    @property
    def entries(self) -> int:
        return len(self.files) + len(self.folders)


class TenantCaches:
    """Directories are made in the agent's loop, and looked through in threads."""

    def __init__(self, state_dir: Path, bounds: CacheBounds) -> None:
        self._root = state_dir / "cache"
        self._bounds = bounds
        self._made: dict[tuple[str, int | None], NodeFolder] = {}
        self._used: set[str] = set()

    def of(self, tenant: str, uid: int | None) -> NodeFolder:
        """The directory of the tenant, for its user. Raises OSError."""
        if (found := self._made.get((tenant, uid))) is None:
            path = f"{self._root}/{tenant}/{_OWN}"
            os.makedirs(path, mode=0o700, exist_ok=True)
            os.chmod(path, 0o700)
            if uid is not None:
                os.chown(path, uid, uid)
            self._made[tenant, uid] = found = folder_at(path)
        self._used.add(found.path)
        return found

    async def run(self, clock: Clock) -> None:
        """Keeps them within bounds. Only those that jobs were given since the last look have changed."""
        self._used.update(str(path) for path in self._root.glob(f"*/{_OWN}"))
        while True:
            paths, self._used = self._used, set()
            for path in paths:
                await asyncio.to_thread(tidy, path, self._bounds)
            await clock.sleep(_LOOK_EVERY_S)


def cache_variables(folder: str, env: Mapping[str, str]) -> dict[str, str]:
    """Where programs keep what they fetched. A job that says where caches are is left alone."""
    named = {"ARES_CACHE_DIR": folder}
    if _XDG in env:
        return named
    return {**named, _XDG: folder, **{key: f"{folder}/{name}" for key, name in _BELOW.items()}}


def tidy(root: str, bounds: CacheBounds) -> None:
    """Removes the longest unused files until the rest is within bounds, and directories that are empty then."""
    try:
        found = _contents(root, bounds.files_max * _LOOKED_AT)
        if not found.complete:
            _log.warning("cache.emptied", path=root, files=found.entries)
            _remove(root, os.listdir(root))
            return
        _remove(root, found.deep)
        if found.size > bounds.bytes_max or found.entries > bounds.files_max:
            _shrink(root, found, bounds)
    except OSError as error:
        _log.warning("cache.not_looked_at", path=root, why=str(error))


def _shrink(root: str, found: _CacheContents, bounds: CacheBounds) -> None:
    size, left = found.size, found.entries
    # Entries of each directory: one without any goes as well.
    inside = Counter([*(file.folder for file in found.files), *(path.rpartition("/")[0] for path in found.folders)])

    def drop(folder: str, name: str, remove: Callable[..., None]) -> int:
        """Removes an entry, and directories above it that are empty then. Returns how many went."""
        try:
            with _opened(root, folder) as opened:
                remove(name, dir_fd=opened)
        except OSError:
            return 0
        inside[folder] -= 1
        above, _, name = folder.rpartition("/")
        return 1 + (drop(above, name, os.rmdir) if folder and not inside[folder] else 0)

    for path in [path for path in found.folders if not inside[path]]:
        above, _, name = path.rpartition("/")
        left -= drop(above, name, os.rmdir)
    for file in sorted(found.files):
        if size <= bounds.bytes_max * _LEFT_SHARE and left <= bounds.files_max * _LEFT_SHARE:
            break
        if gone := drop(file.folder, file.name, os.unlink):
            size, left = size - file.size, left - gone
    _log.info("cache.shrunk", path=root, bytes=found.size - size, files=found.entries - left)


def _contents(root: str, limit: int) -> _CacheContents:
    files, folders, deep, size, ahead = list[_CachedFile](), list[str](), list[str](), 0, [""]
    while ahead:
        path = ahead.pop()
        with contextlib.suppress(OSError), _opened(root, path) as folder, os.scandir(folder) as entries:
            for entry in entries:
                seen = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
                size += seen.st_blocks * 512
                below = f"{path}/{entry.name}" if path else entry.name
                if not stat.S_ISDIR(seen.st_mode):
                    used = max(seen.st_atime_ns, seen.st_mtime_ns)
                    files.append(_CachedFile(used, seen.st_blocks * 512, path, entry.name))
                elif below.count("/") >= _DEPTH_MAX:
                    deep.append(below)
                else:
                    folders.append(below)
                    ahead.append(below)
                if len(files) + len(folders) > limit:
                    return _CacheContents(files, folders, deep, size, complete=False)
    return _CacheContents(files, folders, deep, size, complete=True)


@contextlib.contextmanager
def _opened(root: str, path: str) -> Generator[int]:
    """A directory below the root, each step from the one above it."""
    at = os.open(root, _STEP)
    try:
        for name in path.split("/") if path else ():
            below = os.open(name, _STEP, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _remove(root: str, paths: list[str]) -> None:
    """Whole trees, of any depth: each directory is moved to the top before it is emptied, so no path grows long."""
    moved, ahead = count(), list[str]()
    with _opened(root, "") as top:
        for path in paths:
            above, _, name = path.rpartition("/")
            with contextlib.suppress(OSError), _opened(root, above) as folder:
                ahead += _taken_away(folder, name, top, moved)
        while ahead:
            path = ahead.pop()
            with contextlib.suppress(OSError):
                with _opened(root, path) as folder:
                    for name in os.listdir(folder):
                        ahead += _taken_away(folder, name, top, moved)
                os.rmdir(path, dir_fd=top)


def _taken_away(folder: int, name: str, top: int, moved: Iterator[int]) -> list[str]:
    """Removes a file, or moves a directory to the top, under a name of ours."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
        return []
    while True:
        place = f".removed-{next(moved)}"
        try:
            os.rename(name, place, src_dir_fd=folder, dst_dir_fd=top)
        except FileExistsError:
            continue
        except OSError as error:
            # A directory that is not empty has the name already.
            if error.errno != errno.ENOTEMPTY:
                raise
            continue
        return [place]
