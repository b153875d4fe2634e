"""The files an attempt leaves in its output directory: found, checked and digested. None of them is trusted.

Every directory is opened by descriptor and without following links, so that no path leads out of it.
"""

import asyncio
import contextlib
import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Generator

import msgspec

from ares.core.lifecycle.outputs import FILES_MAX, list_flaw, path_flaw
from ares.model.state import OutputFile

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: a named pipe in place of a file must not block the agent.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK = 1024 * 1024
_DEPTH_MAX = 32
_KINDS = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device", stat.S_IFCHR: "a device",
}  # fmt: skip

Stamp = tuple[int, int, int, int]


class FoundFile(msgspec.Struct, frozen=True, gc=False):
    """One file as it was when it was read. A `stamp` that differs later means that the file was changed."""

    file: OutputFile
    stamp: Stamp


class Collected(msgspec.Struct, frozen=True, gc=False):
    """The files of one attempt. `trouble` says why they cannot be stored."""

    found: tuple[FoundFile, ...] = ()
    trouble: str = ""


class _Unfit(Exception):
    """The directory holds an entry that cannot be stored."""


class GivenUp(Exception):
    """The attempt was fenced, so its files are not needed any more."""


# Directory, limit in bytes, and a check whether the files are still wanted.
Collect = Callable[[str, int, Callable[[], bool]], Awaitable[Collected]]


async def collect(root: str, bytes_max: int, wanted: Callable[[], bool]) -> Collected:
    """`collect_now` in a thread: digests of large files take long."""
    return await asyncio.to_thread(collect_now, root, bytes_max, wanted)


def collect_now(root: str, bytes_max: int, wanted: Callable[[], bool]) -> Collected:
    """All files below a directory, by path. Raises GivenUp."""
    try:
        with _descriptor(root, _DIRECTORY) as top:
            paths = sorted(_paths(top, "", 0, [0]))
            return _digested(top, paths, bytes_max, wanted)
    except _Unfit as unfit:
        return Collected(trouble=str(unfit))
    except OSError as error:
        return Collected(trouble=f"{error.filename or root}: {error.strerror}")


def holds_any(root: str) -> bool:
    """Whether there is any output file. Every attempt pays for this look, so it reads one entry only."""
    try:
        with os.scandir(root) as entries:
            return next(entries, None) is not None
    except OSError:
        # Something else took the directory's place: `collect_now` says what.
        return os.path.lexists(root)


@contextlib.contextmanager
def opened(root: str, path: str) -> Generator[int]:
    """Opens a file below a directory for reading."""
    with _descriptor(root, _DIRECTORY) as top, _opened(top, path) as fd:
        yield fd


@contextlib.contextmanager
def _opened(folder: int, path: str) -> Generator[int]:
    *steps, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for step in steps:
            folder = stack.enter_context(_descriptor(step, _DIRECTORY, folder))
        yield stack.enter_context(_descriptor(name, _FILE, folder))


def stamp_of(fd: int) -> Stamp:
    seen = os.fstat(fd)
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


@contextlib.contextmanager
def _descriptor(path: str, flags: int, above: int | None = None) -> Generator[int]:
    fd = os.open(path, flags, dir_fd=above)
    try:
        yield fd
    finally:
        os.close(fd)


def _paths(folder: int, above: str, depth: int, seen: list[int]) -> list[str]:
    """Paths of regular files below a directory. Entries are counted, as a job may leave millions."""
    found = list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            path, seen[0] = f"{above}{entry.name}", seen[0] + 1
            if flaw := path_flaw(path):
                raise _Unfit(f"{path!r}: {flaw}")
            if seen[0] > FILES_MAX:
                raise _Unfit(f"there are more than {FILES_MAX:,} files and directories; put them into an archive")
            kind = stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
            if kind == stat.S_IFREG:
                found.append(path)
            elif kind != stat.S_IFDIR:
                raise _Unfit(f"{path!r} is {_KINDS.get(kind, 'not a file')}; only files and directories are kept")
            elif depth == _DEPTH_MAX:
                raise _Unfit(f"{path!r}: directories are nested more than {_DEPTH_MAX} deep")
            else:
                with _descriptor(entry.name, _DIRECTORY, folder) as inner:
                    found += _paths(inner, f"{path}/", depth + 1, seen)
    return found


def _digested(top: int, paths: list[str], bytes_max: int, wanted: Callable[[], bool]) -> Collected:
    found, left, owner = list[FoundFile](), bytes_max, os.fstat(top).st_uid
    for path in paths:
        with _opened(top, path) as fd:
            before = stamp_of(fd)
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                raise _Unfit(f"{path!r} is no longer a file")
            if seen.st_nlink > 1 and seen.st_uid != owner:
                # A hard link to a file that the agent may read and the job may not.
                raise _Unfit(f"{path!r} is a second name of another user's file")
            left -= before[1]
            if left < 0:
                raise _Unfit(f"{path!r}: with it they take more than the {bytes_max:,} bytes that are kept")
            digest = _digest(fd, before[1], wanted)
            if stamp_of(fd) != before:
                raise _Unfit(f"{path!r} changed while it was read")
        found.append(FoundFile(OutputFile(path=path, size=before[1], sha256=digest), before))
    flaw = list_flaw(output.file for output in found)
    return Collected(trouble=flaw) if flaw else Collected(tuple(found))


def _digest(fd: int, size: int, wanted: Callable[[], bool]) -> str:
    digest, at = hashlib.sha256(), 0
    # Only up to the size seen before: reading a file that grows would never end.
    while at < size and (block := os.pread(fd, min(_BLOCK, size - at), at)):
        if not wanted():
            raise GivenUp
        digest.update(block)
        at += len(block)
    return digest.hexdigest()
