"""Disks that a server writes to: folders that nothing leads out of, space for the files of jobs, and what is left."""

import contextlib
import errno
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ares.ports.disk import DiskRoom

# ---- folders below a root


# Identifiers only: no dot, slash, or anything else a path could be built from.
_SAFE_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}", re.ASCII)
_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def checked(identifier: str) -> str:
    if not _SAFE_ID.fullmatch(identifier):
        raise ValueError(f"{identifier!r} is not an identifier that may name a folder")
    return identifier


def of_job(tenant: str, job: str) -> tuple[str, ...]:
    """The steps to a job's folder. The middle one keeps folders small; tasks of one array share it."""
    return checked(tenant), checked(job)[:2], job


@contextlib.contextmanager
def entered(
    root: Path, steps: tuple[str, ...], *, create: bool = False, durable: bool = False
) -> Generator[int | None]:
    """A descriptor of the folder, or None if it does not exist. With `durable`, new folders are synced to the disk."""
    with contextlib.ExitStack() as opened:
        fd: int | None = os.open(root, _DIR)
        opened.callback(os.close, fd)
        for step in steps:
            fd = _enter(fd, step, create=create, durable=durable)
            if fd is None:
                break
            opened.callback(os.close, fd)
        yield fd


def write_all(fd: int, data: memoryview, at: int) -> int:
    """Returns where it ended."""
    while data:
        written = os.pwrite(fd, data, at)
        at += written
        data = data[written:]
    return at


def _enter(above: int, step: str, *, create: bool, durable: bool) -> int | None:
    try:
        return os.open(step, _DIR, dir_fd=above)
    except FileNotFoundError:
        if not create:
            return None
    with contextlib.suppress(FileExistsError):
        os.mkdir(step, 0o700, dir_fd=above)
    if durable:
        os.fsync(above)
    return os.open(step, _DIR, dir_fd=above)


# ---- a directory that is told from an empty one in its place

_NAME = "+id"


class KeptRoot:
    """A directory of files that must not be taken for lost while its disk is not mounted. It has a name, written into
    it, and into `known`, which lies elsewhere: an empty directory in its place does not have that name. Without `known`
    every directory is taken for the right one."""

    def __init__(self, path: Path, known: Path | None = None) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path
        self._known = known
        self._name = None if known is None else _name_of(path / _NAME, known)

    def check(self) -> None:
        """Raises OSError (ENODEV) when the directory is not the one that files were kept in. To be called before a file
        counts as lost, and before the first one is made."""
        if self._known is None or _read_name(self._path / _NAME) == self._name:
            return
        why = f"{self._path} is not the directory that files were kept in: is its disk mounted?"
        raise OSError(errno.ENODEV, f"{why} If it is new on purpose, remove {self._known} and start again")


def _name_of(path: Path, known: Path) -> str:
    """The name that the directory had before, or has from now on."""
    before = _read_name(known)
    if before is None:
        before = _read_name(path) or _named(path)
        known.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known.write_text(before)
    return before


def _read_name(path: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return path.read_text()[:80]
    return None


def _named(path: Path) -> str:
    """Of several replicas that begin at once, one gives the name."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    draft.write_text(secrets.token_hex(16))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    return path.read_text()


# ---- disk space for the files of jobs
# It is checked before every write: asking the file system costs microseconds, a full disk stops every tenant.


_MIB = 1 << 20
# The reserve is no more than this part of a small disk.
_RESERVE_SHARE = 10
# No tenant holds more than this part of a disk, whatever its configured limit is.
_TENANT_SHARE = 2
# The walk pauses this long after so many files, so that other readers of the disk are not slowed down.
_WALK_PAUSE_S, _WALK_STEP = 0.002, 500
_WALK_EVERY_S = 3600.0


class Reserve:
    """The reserve on the disk of `path`. `inodes` applies where the file system counts inodes."""

    def __init__(
        self, path: Path, mib: int, inodes: int, statvfs: Callable[[Path], os.statvfs_result] = os.statvfs
    ) -> None:
        self._path = path
        self._bytes = mib * _MIB
        self._inodes = inodes
        self._statvfs = statvfs
        # Size of the last write that was refused. Until there is room for it, the disk is short.
        self._wanted = 0

    def short(self) -> str:
        """What the disk lacks now, as a text; empty when it lacks nothing."""
        lacking = self._lacking(self._wanted)
        if not lacking:
            self._wanted = 0
        return lacking

    def _lacking(self, size: int) -> str:
        disk = self._statvfs(self._path)
        free, least = disk.f_bavail * disk.f_frsize, min(self._bytes, disk.f_blocks * disk.f_frsize // _RESERVE_SHARE)
        if free - size < least:
            return f"{free // _MIB:,} MiB are left on the disk, and {least // _MIB:,} MiB are reserved for the store"
        files = min(self._inodes, disk.f_files // _RESERVE_SHARE)
        if disk.f_files and disk.f_favail <= files:
            return f"{disk.f_favail:,} files can be made on the disk, and {files:,} are reserved for the store"
        return ""

    def take(self, size: int) -> None:
        """Raises OSError when so many bytes would touch the reserve."""
        if lacking := self._lacking(size):
            self._wanted = size
            raise OSError(errno.ENOSPC, lacking)

    def half(self) -> int:
        """The most that one tenant may hold."""
        disk = self._statvfs(self._path)
        return disk.f_blocks * disk.f_frsize // _TENANT_SHARE


@dataclass(slots=True)
class _Used:
    size: int = 0
    files: int = 0

    def add(self, size: int, files: int) -> None:
        self.size += size
        self.files += files


class DiskShares:
    """Disk use of each tenant below a root with one folder per tenant. Every write is counted; a walk over the files
    counts anew every hour, since other replicas write there too."""

    def __init__(self, root: Path, mib_max: int, files_max: int) -> None:
        self._root = root
        self._bytes_max = mib_max * _MIB
        self._files_max = files_max
        self._used: dict[str, _Used] = {}
        # Writes since the walk under way began.
        self._since: dict[str, _Used] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._keep_counting, name="disk-shares", daemon=True).start()

    def take(self, tenant: str, size: int, files: int, half: int) -> None:
        """Counts a write. Raises OSError when the tenant would hold too much."""
        with self._lock:
            used, most = self._used.setdefault(tenant, _Used()), min(self._bytes_max, half)
            if used.size + size > most:
                held = f"tenant {tenant} holds {used.size // _MIB:,} MiB of {most // _MIB:,} MiB that it may"
                raise OSError(errno.EDQUOT, held)
            if used.files + files > self._files_max:
                raise OSError(errno.EDQUOT, f"tenant {tenant} holds {used.files:,} files, of {self._files_max:,}")
            self._add(tenant, size, files)

    def give_back(self, tenant: str, size: int, files: int) -> None:
        with self._lock:
            self._add(tenant, -size, -files)

    def _add(self, tenant: str, size: int, files: int) -> None:
        self._used.setdefault(tenant, _Used()).add(size, files)
        self._since.setdefault(tenant, _Used()).add(size, files)

    def count(self) -> None:
        """Walks over all files. What was written meanwhile is added, twice at worst, until the next walk."""
        with self._lock:
            self._since = {}
        found = {tenant.name: _walked(tenant) for tenant in _folders(self._root)}
        with self._lock:
            for tenant, since in self._since.items():
                found.setdefault(tenant, _Used()).add(since.size, since.files)
            self._used = found

    def _keep_counting(self) -> None:
        while True:
            self.count()
            time.sleep(_WALK_EVERY_S)


class TenantRoom:
    """The check before a write. Without a reserve or shares it allows every write."""

    def __init__(self, reserve: Reserve | None = None, shares: DiskShares | None = None) -> None:
        self._reserve = reserve
        self._shares = shares

    def spare(self, size: int) -> None:
        """Raises OSError (ENOSPC) when so many bytes would touch the reserve."""
        if self._reserve is not None:
            self._reserve.take(size)

    def charge(self, tenant: str, size: int, files: int = 0) -> None:
        """Counts for the tenant what is about to be written. Raises OSError (EDQUOT) when it holds too much."""
        if self._shares is not None and self._reserve is not None:
            self._shares.take(tenant, size, files, self._reserve.half())

    def give_back(self, tenant: str, size: int, files: int) -> None:
        if self._shares is not None:
            self._shares.give_back(tenant, size, files)


def _folders(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _walked(folder: Path) -> _Used:
    used, ahead = _Used(), [str(folder)]
    while ahead:
        try:
            with os.scandir(ahead.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
                        continue
                    used.add(entry.stat(follow_symlinks=False).st_size, 1)
                    if used.files % _WALK_STEP == 0:
                        time.sleep(_WALK_PAUSE_S)
        except OSError:
            # Removed meanwhile.
            continue
    return used


# ---- the disks of a server


class Disks:
    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)

    def __call__(self) -> tuple[DiskRoom, ...]:
        return tuple(_room(path) for path in self._paths)


def _room(path: Path) -> DiskRoom:
    # The directory is made at the first write. Until then its parent tells the disk.
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    disk = os.statvfs(there)
    return DiskRoom(
        path=str(path),
        bytes_free=disk.f_bavail * disk.f_frsize,
        bytes_all=disk.f_blocks * disk.f_frsize,
        inodes_free=disk.f_favail,
        inodes_all=disk.f_files,
    )
