"""Outputs in memory: for tests and simulations, where nothing may depend on a disk."""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable

from ares.model.base import AttemptRef, CheckpointRef, Fence
from ares.model.checkpoint import CheckpointId
from ares.model.state import OutputFile
from ares.ports.blobs import Mismatch

_Key = tuple[AttemptRef, str]


class MemoryBlobs:
    """The Blobs port. `now` is the clock that ages are counted by."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.parts: dict[_Key, bytes] = {}
        self.sealed: dict[_Key, bytes] = {}
        self._begun: dict[tuple[str, str], float] = {}

    async def append(self, ref: AttemptRef, sha256: str, offset: int, data: bytes) -> int:
        key = (ref, sha256)
        if key in self.sealed:
            return len(self.sealed[key])
        self._begun.setdefault((ref.tenant, ref.job), self._now())
        kept = self.parts.setdefault(key, b"")
        if offset <= len(kept):
            kept += data[len(kept) - offset :]
            self.parts[key] = kept
        return len(kept)

    async def seal(self, ref: AttemptRef, sha256: str, size: int) -> Mismatch | None:
        key = (ref, sha256)
        found = self.sealed[key] if key in self.sealed else self.parts.pop(key, b"")
        mismatch = Mismatch(len(found), hashlib.sha256(found).hexdigest())
        if mismatch != Mismatch(size, sha256):
            return mismatch
        self.sealed[key] = found
        return None

    async def unsealed(self, ref: AttemptRef, files: Iterable[OutputFile]) -> tuple[OutputFile, ...]:
        kept = {sha256: len(data) for (of, sha256), data in self.sealed.items() if of == ref}
        return tuple(file for file in files if kept.get(file.sha256) != file.size)

    async def read(self, ref: AttemptRef, sha256: str, offset: int, limit: int) -> bytes:
        if (ref, sha256) not in self.sealed:
            raise FileNotFoundError(f"no output {sha256} of {ref.job}, fence {ref.fence}, is kept")
        return self.sealed[ref, sha256][offset : offset + limit]

    async def keep_only(
        self, tenant: str, job: str, fence: Fence | None, checkpoints: Collection[CheckpointId] = ()
    ) -> None:
        for files in (self.parts, self.sealed):
            for ref, sha256 in [key for key in files if (key[0].tenant, key[0].job) == (tenant, job)]:
                kept = _id(ref) in checkpoints if isinstance(ref, CheckpointRef) else ref.fence == fence
                if files is self.parts or not kept:
                    del files[ref, sha256]
        self._begun.pop((tenant, job), None)

    async def checkpoints(self, tenant: str, job: str) -> tuple[CheckpointId, ...]:
        refs = {ref for ref, _ in (*self.parts, *self.sealed) if (ref.tenant, ref.job) == (tenant, job)}
        return tuple(sorted(_id(ref) for ref in refs if isinstance(ref, CheckpointRef)))

    async def remove(self, ref: CheckpointRef) -> None:
        for files in (self.parts, self.sealed):
            for key in [key for key in files if key[0] == ref]:
                del files[key]

    async def adopt(self, source: CheckpointRef, target: CheckpointRef) -> None:
        found = {sha256: data for (ref, sha256), data in self.sealed.items() if ref == source}
        if not found:
            raise FileNotFoundError(f"no files of checkpoint {source.seq} of {source.job} are kept")
        self._begun.setdefault((target.tenant, target.job), self._now())
        self.sealed |= {(target, sha256): data for sha256, data in found.items()}

    async def unsettled(self, age_s: float) -> tuple[tuple[str, str], ...]:
        before = self._now() - age_s
        return tuple(job for job, begun in self._begun.items() if begun <= before)


def _id(ref: CheckpointRef) -> CheckpointId:
    return CheckpointId(fence=ref.fence, seq=ref.seq)
