"""Projects as plain files: `root/tenant/+project/parts/xx/sha256` and `root/tenant/+project/manifests/sha256`.

No job has such a name, so they lie beside the outputs of the tenant's jobs and count with them. The time of a file is
when it was last used. A part that is being removed is renamed first: a manifest that wants it at that moment is told
that it is missing, and the sender sends it again.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from ares.adapters.disk import KeptRoot, TenantRoom, checked, entered, write_all
from ares.api.projects import ProjectManifest
from ares.core.project import parts_of

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_HOME: Final = "+project"
_PARTS: Final = "parts"
_MANIFESTS: Final = "manifests"
_DRAFT: Final = ".draft-"
_GOING: Final = ".going"
# A part that was used within this is not marked again: most are used many times a day.
_FRESH_S: Final = 3600.0
# Syncs that wait at once: the file system puts them into one write of its journal.
_SYNCING: Final = 8
_decode = msgspec.json.Decoder(ProjectManifest).decode


class FileProjects:
    """The ProjectFiles port. It works in threads: digests and disks take long."""

    def __init__(self, root: Path, room: TenantRoom | None = None, known: Path | None = None) -> None:
        self._kept_in = KeptRoot(root, known)
        self._root = root
        self._room = room or TenantRoom()
        self._pool = ThreadPoolExecutor(_SYNCING, "project-parts")

    async def keep(self, tenant: str, parts: Sequence[memoryview]) -> tuple[str, ...]:
        loop = asyncio.get_running_loop()
        kept = (loop.run_in_executor(self._pool, self._keep, tenant, part) for part in parts)
        return tuple(await asyncio.gather(*kept))

    async def commit(self, tenant: str, sha256: str, manifest: bytes, parts: Mapping[str, int]) -> tuple[str, ...]:
        return await asyncio.to_thread(self._commit, tenant, sha256, manifest, parts)

    async def touch(self, tenant: str, sha256: str) -> bool:
        return await asyncio.to_thread(self._touch, tenant, sha256)

    async def manifest(self, tenant: str, sha256: str) -> bytes:
        return await asyncio.to_thread(self._read, _manifests(tenant), sha256)

    async def part(self, tenant: str, sha256: str) -> bytes:
        return await asyncio.to_thread(self._read, _shelf(tenant, sha256), sha256)

    async def tenants(self) -> tuple[str, ...]:
        return tuple(await asyncio.to_thread(self._tenants))

    async def unused(self, age_s: float) -> tuple[tuple[str, str], ...]:
        return await asyncio.to_thread(self._unused, age_s)

    async def forget(self, tenant: str, manifests: Collection[str], age_s: float) -> int:
        return await asyncio.to_thread(self._forget, tenant, manifests, age_s)

    # ---- writing

    def _keep(self, tenant: str, part: memoryview) -> str:
        sha256 = hashlib.sha256(part).hexdigest()
        self._kept_in.check()
        with entered(self._root, _shelf(tenant, sha256), create=True, durable=True) as folder:
            assert folder is not None
            if _used(folder, sha256) is None:
                self._write(tenant, folder, sha256, part)
        return sha256

    def _write(self, tenant: str, folder: int, name: str, data: memoryview) -> None:
        self._room.spare(len(data))
        self._room.charge(tenant, len(data), 1)
        draft = f"{_DRAFT}{secrets.token_hex(8)}"
        try:
            fd = os.open(draft, _NEW, 0o400, dir_fd=folder)
            try:
                write_all(fd, data, 0)
                os.fdatasync(fd)
            finally:
                os.close(fd)
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        except BaseException:
            self._room.give_back(tenant, len(data), 1)
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise

    def _commit(self, tenant: str, sha256: str, manifest: bytes, parts: Mapping[str, int]) -> tuple[str, ...]:
        self._kept_in.check()
        if missing := tuple(self._missing(tenant, parts)):
            return missing
        with entered(self._root, _manifests(tenant), create=True, durable=True) as folder:
            assert folder is not None
            if _used(folder, sha256) is None:
                self._write(tenant, folder, sha256, memoryview(manifest))
        # Once more: from now on the manifest holds them, and one may have been removed a moment before.
        return tuple(self._missing(tenant, parts))

    def _missing(self, tenant: str, parts: Mapping[str, int]) -> Iterator[str]:
        with entered(self._root, (checked(tenant), _HOME, _PARTS)) as shelves:
            for sha256, size in parts.items():
                name = f"{sha256[:2]}/{sha256}"
                if shelves is None or _used(shelves, name, size) is None:
                    yield sha256

    # ---- reading

    def _touch(self, tenant: str, sha256: str) -> bool:
        with entered(self._root, _manifests(tenant)) as folder:
            if folder is None:
                self._kept_in.check()
            return folder is not None and _used(folder, sha256) is not None

    def _read(self, steps: tuple[str, ...], name: str) -> bytes:
        with entered(self._root, steps) as folder:
            if folder is None:
                self._kept_in.check()
            return _content(folder, name)

    # ---- removing

    def _unused(self, age_s: float) -> tuple[tuple[str, str], ...]:
        before, found = time.time() - age_s, list[tuple[str, str]]()
        for tenant in self._tenants():
            with entered(self._root, _manifests(tenant)) as folder:
                for name, seen in _listed(folder):
                    if seen.st_mtime < before and not name.startswith("."):
                        found.append((tenant, name))
        return tuple(found)

    def _tenants(self) -> list[str]:
        with os.scandir(self._root) as entries:
            found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return [name for name in found if (self._root / name / _HOME).is_dir()]

    def _forget(self, tenant: str, manifests: Collection[str], age_s: float) -> int:
        freed, before = 0, time.time() - age_s
        drop = partial(self._drop, tenant, before)
        with entered(self._root, _manifests(tenant)) as folder:
            # Without one there may be parts all the same, of an upload that was never finished.
            if folder is not None:
                freed = sum(drop(folder, sha256) for sha256 in manifests)
            held = set(self._held(folder))
        with entered(self._root, (checked(tenant), _HOME, _PARTS)) as shelves:
            for shelf in () if shelves is None else os.listdir(shelves):
                with entered(self._root, (checked(tenant), _HOME, _PARTS, shelf)) as folder:
                    for name, seen in _listed(folder):
                        if folder is not None and name not in held and seen.st_mtime < before:
                            freed += drop(folder, name)
        return freed

    @staticmethod
    def _held(folder: int | None) -> Iterator[str]:
        for name, _ in _listed(folder):
            with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
                fd = os.open(name, _READ, dir_fd=folder)
                with os.fdopen(fd, "rb") as file:
                    yield from (part for part, _ in parts_of(_decode(file.read())))

    def _drop(self, tenant: str, before: float, folder: int, name: str) -> int:
        """Removes a file unless it was used meanwhile. Returns its size."""
        going = f"{name}{_GOING}"
        try:
            os.rename(name, going, src_dir_fd=folder, dst_dir_fd=folder)
            seen = os.stat(going, dir_fd=folder, follow_symlinks=False)
            if seen.st_mtime >= before:
                os.rename(going, name, src_dir_fd=folder, dst_dir_fd=folder)
                return 0
            os.unlink(going, dir_fd=folder)
        except FileNotFoundError:
            # Another replica removes it.
            return 0
        self._room.give_back(tenant, seen.st_size, 1)
        return seen.st_size


def _manifests(tenant: str) -> tuple[str, ...]:
    return checked(tenant), _HOME, _MANIFESTS


def _shelf(tenant: str, sha256: str) -> tuple[str, ...]:
    return checked(tenant), _HOME, _PARTS, checked(sha256)[:2]


def _used(folder: int, name: str, size: int | None = None) -> int | None:
    """The size of a file, which then counts as used now. None when it is not there, or not of the wanted size."""
    try:
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if size is not None and seen.st_size != size:
            return None
        if time.time() - seen.st_mtime > _FRESH_S:
            os.utime(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return seen.st_size


def _listed(folder: int | None) -> Iterator[tuple[str, os.stat_result]]:
    if folder is None:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                yield entry.name, entry.stat(follow_symlinks=False)


def project_flaw(root: Path, tenant: str, sha256: str) -> str:
    """What is wrong with a project, in words; empty when all of it is as it was shipped. Changes nothing."""
    try:
        with entered(root, _manifests(tenant)) as folder:
            raw = _content(folder, sha256)
        if hashlib.sha256(raw).hexdigest() != sha256:
            return "its manifest is not as it was shipped"
        for part, _ in parts_of(_decode(raw)):
            with entered(root, _shelf(tenant, part)) as folder:
                if hashlib.sha256(_content(folder, part)).hexdigest() != part:
                    return f"part {part[:12]} is not as it was shipped"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    return ""


def _content(folder: int | None, name: str) -> bytes:
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, f"{name[:12]} is not kept")
    fd = os.open(name, _READ, dir_fd=folder)
    with os.fdopen(fd, "rb", buffering=0) as file:
        return file.readall()
