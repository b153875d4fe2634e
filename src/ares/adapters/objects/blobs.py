"""Outputs and checkpoints as objects: `tenants/T/jobs/JOB/FENCE/SHA256`, those of a checkpoint in `FENCE+NUMBER`.

Pieces come in any size, and an object is written at once: until a file is sealed it lies in a spool on the server's
disk, where its digest is computed. An empty object `open/T+JOB` leads to the files that a crash left.
"""

import asyncio
import errno
import hashlib
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from ares.adapters.blobs.files import FileBlobs
from ares.adapters.disk import TenantRoom, checked
from ares.adapters.objects.bucket import Bucket
from ares.adapters.objects.room import BucketRoom
from ares.adapters.objects.turns import in_turns
from ares.model.base import AttemptRef, CheckpointRef, Fence
from ares.model.checkpoint import CheckpointId
from ares.model.state import OutputFile
from ares.ports.blobs import Mismatch

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CHECKPOINT: Final = re.compile(r"([0-9]+)\.([0-9]+)\+([0-9]+)", re.ASCII)
_OPEN: Final = "open/"
_PIECE: Final = 1 << 20
# A larger file is written in parts of so many bytes, or of a ten-thousandth of it: a store takes no more parts.
PART_BYTES: Final = 16 << 20
_PARTS_MAX: Final = 10_000
# What a store copies at once.
_COPY_BYTES_MAX: Final = 5 << 30
_MARKED_MAX: Final = 10_000


class ObjectBlobs:
    """The Blobs port. `spool`: a directory of this replica alone."""

    def __init__(
        self, bucket: Bucket, spool: Path, room: BucketRoom | None = None, disk: TenantRoom | None = None
    ) -> None:
        self._bucket = bucket
        self._spool = FileBlobs(spool, disk)
        self._folder = spool
        self._room = room or BucketRoom(bucket)
        # Jobs whose mark this replica has written.
        self._marked: set[tuple[str, str]] = set()

    async def append(self, ref: AttemptRef, sha256: str, offset: int, data: bytes) -> int:
        key = blob_key(ref, sha256)
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        if offset == 0 and (kept := await self._bucket.size(key)) is not None:
            return kept
        await self._mark(ref.tenant, ref.job)
        spooled = await self._spool.append(ref, sha256, offset, data)
        if spooled < offset and (kept := await self._bucket.size(key)) is not None:
            # It was sealed through another replica.
            return kept
        return spooled

    async def seal(self, ref: AttemptRef, sha256: str, size: int) -> Mismatch | None:
        key = blob_key(ref, sha256)
        if (kept := await self._bucket.size(key)) is not None:
            return await self._there(ref, key, sha256, size, kept)
        found = await self._spool.seal(ref, sha256, size)
        if found is not None:
            return found
        await self._room.charge(ref.tenant, size)
        try:
            await self._write(key, partial(_pieces, self._folder, ref, sha256, self._spool), size, sha256)
            found = None if self._bucket.compares else await self._reread(key, sha256, size)
        except BaseException:
            self._room.give_back(ref.tenant, size)
            raise
        if found is not None:
            self._room.give_back(ref.tenant, size)
            await self._bucket.remove(key)
            return found
        await self._spool.drop(ref, sha256)
        return None

    async def _there(self, ref: AttemptRef, key: str, sha256: str, size: int, kept: int) -> Mismatch | None:
        """Of what was written before: a replica may have ended before it read that back."""
        if kept == size and self._bucket.compares:
            return None
        if (found := await self._reread(key, sha256, kept)) is not None:
            await self._bucket.remove(key)
            self._room.give_back(ref.tenant, kept)
            return found
        # A sealed file stays, whatever size is said of it later.
        return None if kept == size else Mismatch(kept, sha256)

    async def unsealed(self, ref: AttemptRef, files: Iterable[OutputFile]) -> tuple[OutputFile, ...]:
        kept = {found.key.rpartition("/")[2]: found.size async for found in self._bucket.listed(f"{_attempt(ref)}/")}
        return tuple(file for file in files if kept.get(_digest(file.sha256)) != file.size)

    async def read(self, ref: AttemptRef, sha256: str, offset: int, limit: int) -> bytes:
        return await self._bucket.read(blob_key(ref, sha256), offset, limit) if limit > 0 else b""

    # ---- writing

    async def _write(
        self, key: str, pieces: Callable[[int, int], AsyncIterator[bytes]], size: int, sha256: str
    ) -> None:
        if size <= PART_BYTES:
            body = b"" if not size else partial(pieces, 0, size)
            await self._bucket.put(key, body, size, sha256)
            return
        step = max(PART_BYTES, -(-size // _PARTS_MAX))
        upload = await self._bucket.begin_parts(key)
        try:
            named = list[str]()
            for number, begin in enumerate(range(0, size, step), 1):
                part = b"".join([piece async for piece in pieces(begin, min(size, begin + step))])
                named.append(await self._bucket.put_part(key, upload, number, part))
            await self._bucket.end_parts(key, upload, named)
        except BaseException:
            await asyncio.shield(self._bucket.drop_parts(key, upload))
            raise
        # Digests are of parts: whether all of them are there is to be seen.
        if (kept := await self._bucket.size(key)) != size:
            await self._bucket.remove(key)
            raise OSError(errno.EIO, f"of {size:,} bytes the object store kept {kept or 0:,}")

    async def _reread(self, key: str, sha256: str, size: int) -> Mismatch | None:
        """Of a store that does not compare digests: what it really has, if that is something else."""
        digest, at = hashlib.sha256(), 0
        while at <= size and (piece := await self._bucket.read(key, at, 8 * _PIECE)):
            await asyncio.to_thread(digest.update, piece)
            at += len(piece)
        found = Mismatch(at, digest.hexdigest())
        return None if found == Mismatch(size, sha256) else found

    async def _mark(self, tenant: str, job: str) -> None:
        if (tenant, job) in self._marked:
            return
        await self._bucket.replace(f"{_OPEN}{checked(tenant)}+{checked(job)}", b"")
        if len(self._marked) >= _MARKED_MAX:
            self._marked.clear()
        self._marked.add((tenant, job))

    # ---- removing

    async def keep_only(
        self, tenant: str, job: str, fence: Fence | None, checkpoints: Collection[CheckpointId] = ()
    ) -> None:
        kept = {f"{known.fence}+{known.seq}" for known in checkpoints}
        if fence is not None:
            kept.add(str(fence))
        await self._spool.keep_only(tenant, job, None)
        await self._remove(tenant, f"{_job(tenant, job)}/", kept)
        self._marked.discard((tenant, job))
        await self._bucket.remove(f"{_OPEN}{tenant}+{job}")

    async def remove(self, ref: CheckpointRef) -> None:
        await self._spool.remove(ref)
        await self._remove(ref.tenant, f"{_attempt(ref)}/", set())

    async def _remove(self, tenant: str, prefix: str, kept: Collection[str]) -> None:
        """`kept`: folders of the job that stay."""
        gone = [
            found
            async for found in self._bucket.listed(prefix)
            if not kept or found.key.removeprefix(prefix).partition("/")[0] not in kept
        ]
        await in_turns([partial(self._bucket.remove, found.key) for found in gone])
        for found in gone:
            self._room.give_back(tenant, found.size)

    # ---- checkpoints

    async def checkpoints(self, tenant: str, job: str) -> tuple[CheckpointId, ...]:
        # By the objects: some stores list folders that are empty.
        prefix = f"{_job(tenant, job)}/"
        names = {found.key.removeprefix(prefix).partition("/")[0] async for found in self._bucket.listed(prefix)}
        found = (_CHECKPOINT.fullmatch(name) for name in names)
        numbers = (tuple(int(number) for number in match.groups()) for match in found if match is not None)
        there = {CheckpointId(fence=Fence(epoch=e, counter=c), seq=seq) for e, c, seq in numbers}
        return tuple(sorted(there | set(await self._spool.checkpoints(tenant, job))))

    async def adopt(self, source: CheckpointRef, target: CheckpointRef) -> None:
        await self._mark(target.tenant, target.job)
        prefix = f"{_attempt(source)}/"
        theirs = [found async for found in self._bucket.listed(prefix)]
        if not theirs:
            raise FileNotFoundError(f"no files of checkpoint {source.seq} of {source.job} are kept")
        for found in theirs:
            sha256 = found.key.removeprefix(prefix)
            own = blob_key(target, sha256)
            if await self._bucket.size(own) == found.size:
                continue
            await self._room.charge(target.tenant, found.size)
            if found.size <= _COPY_BYTES_MAX:
                await self._bucket.copy(found.key, own)
            else:
                await self._write(own, partial(_ranges, self._bucket, found.key), found.size, sha256)

    async def unsettled(self, age_s: float) -> tuple[tuple[str, str], ...]:
        before, found = time.time() - age_s, list(await self._spool.unsettled(age_s))
        async for mark in self._bucket.listed(_OPEN):
            tenant, _, job = mark.key.removeprefix(_OPEN).partition("+")
            if mark.changed_at <= before:
                found.append((tenant, job))
        return tuple(dict.fromkeys(found))


async def _pieces(
    root: Path, ref: AttemptRef, sha256: str, spool: FileBlobs, begin: int, end: int
) -> AsyncIterator[bytes]:
    while begin < end:
        data = await spool.read(ref, sha256, begin, min(_PIECE, end - begin))
        if not data:
            raise OSError(f"{os.fspath(root)} lost a file that was sealed")
        yield data
        begin += len(data)


async def _ranges(bucket: Bucket, key: str, begin: int, end: int) -> AsyncIterator[bytes]:
    while begin < end and (data := await bucket.read(key, begin, min(8 * _PIECE, end - begin))):
        yield data
        begin += len(data)


def _job(tenant: str, job: str) -> str:
    return f"tenants/{checked(tenant)}/jobs/{checked(job)}"


def _attempt(ref: AttemptRef) -> str:
    name = f"{ref.fence}+{ref.seq}" if isinstance(ref, CheckpointRef) else str(ref.fence)
    return f"{_job(ref.tenant, ref.job)}/{name}"


def blob_key(ref: AttemptRef, sha256: str) -> str:
    return f"{_attempt(ref)}/{_digest(sha256)}"


def _digest(sha256: str) -> str:
    if not _SHA256.fullmatch(sha256):
        raise ValueError(f"{sha256[:80]!r} is not a SHA-256 digest")
    return sha256
