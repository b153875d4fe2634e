"""Outputs as plain files: `root/tenant/xx/job/fence/sha256`, with `.part` behind the name until it is sealed; those of
a checkpoint in `fence+number` instead of `fence`.

The name is the digest of the content, so two replicas that write one part at once write the same bytes at the same
places. A sealed file and its directories are synced to the disk, not only to the operating system's cache.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path

from ares.adapters.disk import KeptRoot, TenantRoom, checked, entered, of_job, write_all
from ares.model.base import AttemptRef, CheckpointRef, Fence
from ares.model.checkpoint import CheckpointId
from ares.model.state import OutputFile
from ares.ports.blobs import Mismatch

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CHECKPOINT = re.compile(r"([0-9]+)\.([0-9]+)\+([0-9]+)", re.ASCII)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 1024 * 1024
_PART = ".part"
# No tenant has this name. It holds one empty file per job whose files may have to be removed.
_OPEN = "+open"


class FileBlobs:
    """The Blobs port. It works in threads: a disk may be slow, and digests take long."""

    def __init__(self, root: Path, room: TenantRoom | None = None, known: Path | None = None) -> None:
        self._kept_in = KeptRoot(root, known)
        self._root = root
        self._room = room or TenantRoom()

    async def append(self, ref: AttemptRef, sha256: str, offset: int, data: bytes) -> int:
        return await asyncio.to_thread(self._append, ref, _digest(sha256), offset, data)

    async def seal(self, ref: AttemptRef, sha256: str, size: int) -> Mismatch | None:
        return await asyncio.to_thread(self._seal, ref, _digest(sha256), size)

    async def unsealed(self, ref: AttemptRef, files: Iterable[OutputFile]) -> tuple[OutputFile, ...]:
        return await asyncio.to_thread(self._unsealed, ref, tuple(files))

    async def read(self, ref: AttemptRef, sha256: str, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(self._read, ref, _digest(sha256), offset, limit)

    async def keep_only(
        self, tenant: str, job: str, fence: Fence | None, checkpoints: Collection[CheckpointId] = ()
    ) -> None:
        kept = {_folder(known.fence, known.seq) for known in checkpoints}
        if fence is not None:
            kept.add(str(fence))
        await asyncio.to_thread(self._keep_only, tenant, job, kept)

    async def checkpoints(self, tenant: str, job: str) -> tuple[CheckpointId, ...]:
        return await asyncio.to_thread(self._checkpoints, tenant, job)

    async def remove(self, ref: CheckpointRef) -> None:
        await asyncio.to_thread(self._remove, ref.tenant, ref.job, _folder(ref.fence, ref.seq))

    async def drop(self, ref: AttemptRef, sha256: str) -> None:
        """Removes one file of an attempt, for an adapter that keeps files here until it has them elsewhere."""
        await asyncio.to_thread(self._drop, ref, _digest(sha256))

    async def adopt(self, source: CheckpointRef, target: CheckpointRef) -> None:
        await asyncio.to_thread(self._adopt, source, target)

    async def unsettled(self, age_s: float) -> tuple[tuple[str, str], ...]:
        return await asyncio.to_thread(self._unsettled, age_s)

    # ---- writing

    def _append(self, ref: AttemptRef, sha256: str, offset: int, data: bytes) -> int:
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        steps = _attempt(ref)
        if data:
            self._room.spare(len(data))
        charge = partial(self._room.charge, ref.tenant)
        with entered(self._root, steps) as folder:
            if folder is not None:
                return _append(folder, sha256, offset, data, charge)
        # Written before any file of the job: after a crash it leads to the files that were left.
        self._mark(ref.tenant, ref.job)
        with entered(self._root, steps, create=True, durable=True) as folder:
            assert folder is not None
            return _append(folder, sha256, offset, data, charge)

    def _seal(self, ref: AttemptRef, sha256: str, size: int) -> Mismatch | None:
        with entered(self._root, _attempt(ref)) as folder:
            if folder is None:
                return Mismatch(0, hashlib.sha256().hexdigest())
            if (kept := _size(folder, sha256)) is not None:
                return None if kept == size else Mismatch(kept, sha256)
            part = sha256 + _PART
            try:
                fd = os.open(part, _READ, dir_fd=folder)
            except FileNotFoundError:
                return Mismatch(0, hashlib.sha256().hexdigest())
            try:
                found = _measure(fd, size)
                if found != Mismatch(size, sha256):
                    size = os.fstat(fd).st_size
                    os.unlink(part, dir_fd=folder)
                    self._room.give_back(ref.tenant, size, 1)
                    return found
                os.fsync(fd)
                os.fchmod(fd, 0o400)
                with contextlib.suppress(FileExistsError):
                    # By descriptor: the file that was read back gets the name, even if the part was replaced meanwhile.
                    os.link(f"/proc/self/fd/{fd}", sha256, dst_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(fd)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part, dir_fd=folder)
            os.fsync(folder)
            return None

    # ---- reading

    def _unsealed(self, ref: AttemptRef, files: tuple[OutputFile, ...]) -> tuple[OutputFile, ...]:
        with entered(self._root, _attempt(ref)) as folder:
            if folder is None:
                return files
            return tuple(file for file in files if _size(folder, _digest(file.sha256)) != file.size)

    def _read(self, ref: AttemptRef, sha256: str, offset: int, limit: int) -> bytes:
        with entered(self._root, _attempt(ref)) as folder:
            if folder is None:
                self._kept_in.check()
                raise FileNotFoundError(f"no outputs of {ref.job}, fence {ref.fence}, are kept")
            fd = os.open(sha256, _READ, dir_fd=folder)
            try:
                return os.pread(fd, limit, offset)
            finally:
                os.close(fd)

    # ---- removing

    def _keep_only(self, tenant: str, job: str, kept: Collection[str]) -> None:
        steps = of_job(tenant, job)
        with entered(self._root, steps) as folder:
            for name in () if folder is None else os.listdir(folder):
                self._remove(tenant, job, name, parts_only=name in kept)
        if not kept:
            with entered(self._root, steps[:-1]) as above, contextlib.suppress(FileNotFoundError):
                if above is not None:
                    os.rmdir(job, dir_fd=above)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._root / _OPEN / f"{tenant}+{job}")

    def _remove(self, tenant: str, job: str, name: str, *, parts_only: bool = False) -> None:
        steps = of_job(tenant, job)
        with entered(self._root, (*steps, name)) as attempt:
            for size in _emptied(attempt, parts_only=parts_only):
                self._room.give_back(tenant, size, 1)
        if not parts_only:
            with entered(self._root, steps) as folder, contextlib.suppress(FileNotFoundError):
                if folder is not None:
                    os.rmdir(name, dir_fd=folder)

    def _drop(self, ref: AttemptRef, sha256: str) -> None:
        with entered(self._root, _attempt(ref)) as folder, contextlib.suppress(FileNotFoundError):
            if folder is not None:
                size = os.stat(sha256, dir_fd=folder, follow_symlinks=False).st_size
                os.unlink(sha256, dir_fd=folder)
                self._room.give_back(ref.tenant, size, 1)

    # ---- checkpoints

    def _checkpoints(self, tenant: str, job: str) -> tuple[CheckpointId, ...]:
        with entered(self._root, of_job(tenant, job)) as folder:
            names = [] if folder is None else os.listdir(folder)
        found = (_CHECKPOINT.fullmatch(name) for name in names)
        numbers = [tuple(int(number) for number in match.groups()) for match in found if match is not None]
        return tuple(CheckpointId(fence=Fence(epoch=e, counter=c), seq=seq) for e, c, seq in sorted(numbers))

    def _adopt(self, source: CheckpointRef, target: CheckpointRef) -> None:
        """By second names for the same files: a sealed file never changes."""
        self._mark(target.tenant, target.job)
        with entered(self._root, _attempt(source)) as theirs:
            names = [] if theirs is None else [name for name in os.listdir(theirs) if not name.endswith(_PART)]
            if not names:
                self._kept_in.check()
                raise FileNotFoundError(f"no files of checkpoint {source.seq} of {source.job} are kept")
            with entered(self._root, _attempt(target), create=True, durable=True) as own:
                for name in names:
                    size = os.stat(name, dir_fd=theirs, follow_symlinks=False).st_size
                    self._room.charge(target.tenant, size, 1)
                    try:
                        os.link(name, name, src_dir_fd=theirs, dst_dir_fd=own, follow_symlinks=False)
                    except OSError as error:
                        self._room.give_back(target.tenant, size, 1)
                        # A repeat, after an answer that was lost.
                        if not isinstance(error, FileExistsError):
                            raise
                assert own is not None
                os.fsync(own)

    def _mark(self, tenant: str, job: str) -> None:
        self._kept_in.check()
        path = self._root / _OPEN / f"{checked(tenant)}+{checked(job)}"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))

    def _unsettled(self, age_s: float) -> tuple[tuple[str, str], ...]:
        before, found = time.time() - age_s, list[tuple[str, str]]()
        if not (self._root / _OPEN).is_dir():
            self._kept_in.check()
            return ()
        with os.scandir(self._root / _OPEN) as marks:
            for mark in marks:
                tenant, _, job = mark.name.partition("+")
                # Another replica may just have removed it.
                with contextlib.suppress(FileNotFoundError):
                    if mark.stat(follow_symlinks=False).st_mtime <= before:
                        found.append((tenant, job))
        return tuple(found)


def flaw(root: Path, ref: AttemptRef, file: OutputFile) -> str:
    """What is wrong with a sealed file, in words; empty when it is as it was committed. Changes nothing."""
    with entered(root, _attempt(ref)) as folder:
        if folder is None:
            return "it is gone, with the folder of its attempt"
        try:
            fd = os.open(_digest(file.sha256), _READ, dir_fd=folder)
        except OSError as error:
            return f"it cannot be read: {error.strerror}"
        try:
            found = _measure(fd, file.size)
        finally:
            os.close(fd)
    if found == Mismatch(file.size, file.sha256):
        return ""
    return f"it has {found.size:,} bytes with digest {found.sha256[:12]}, not {file.size:,} with {file.sha256[:12]}"


def _attempt(ref: AttemptRef) -> tuple[str, ...]:
    name = _folder(ref.fence, ref.seq) if isinstance(ref, CheckpointRef) else str(ref.fence)
    return *of_job(ref.tenant, ref.job), name


def _folder(fence: Fence, seq: int) -> str:
    return f"{fence}+{seq}"


def _digest(sha256: str) -> str:
    if not _SHA256.fullmatch(sha256):
        raise ValueError(f"{sha256[:80]!r} is not a SHA-256 digest")
    return sha256


def _size(folder: int, name: str) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    except FileNotFoundError:
        return None


def _append(folder: int, sha256: str, offset: int, data: bytes, charge: Callable[[int, int], None]) -> int:
    if (sealed := _size(folder, sha256)) is not None:
        return sealed
    fd = os.open(sha256 + _PART, _WRITE, 0o600, dir_fd=folder)
    try:
        size = os.fstat(fd).st_size
        fresh = memoryview(data)[max(0, size - offset) :]
        if offset > size or not fresh:
            return size
        charge(len(fresh), not size)
        return write_all(fd, fresh, size)
    finally:
        os.close(fd)


def _measure(fd: int, size: int) -> Mismatch:
    """Size and digest of the file. Reading stops soon after `size`: that is enough to show that it is too large."""
    digest, at = hashlib.sha256(), 0
    while at <= size and (block := os.pread(fd, _BLOCK, at)):
        digest.update(block)
        at += len(block)
    return Mismatch(at, digest.hexdigest())


def _emptied(folder: int | None, *, parts_only: bool) -> Iterator[int]:
    """Removes files, and gives the size of each."""
    for name in () if folder is None else os.listdir(folder):
        if name.endswith(_PART) or not parts_only:
            with contextlib.suppress(FileNotFoundError):
                size = os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
                os.unlink(name, dir_fd=folder)
                yield size
