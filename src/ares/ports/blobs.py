"""Where output files and checkpoints of jobs are kept. Never in the store of record, which holds the only pointers."""

from collections.abc import Collection, Iterable
from typing import Protocol

from msgspec import Struct

from ares.model.base import AttemptRef, CheckpointRef, Fence
from ares.model.checkpoint import CheckpointId
from ares.model.state import OutputFile


class Mismatch(Struct, frozen=True, gc=False):
    """What was kept is not what was announced; it has been dropped."""

    size: int
    sha256: str


class Blobs(Protocol):
    """Files by attempt, or by checkpoint of an attempt, and SHA-256. A sealed file never changes again; other files are
    only pieces so far.

    Calls raise OSError when they cannot be carried out. They may be repeated, and made by several replicas at once.
    """

    async def append(self, ref: AttemptRef, sha256: str, offset: int, data: bytes) -> int:
        """Repeats are harmless, and with a gap nothing is written. Returns the size kept now, which tells where to go
        on."""
        ...

    async def seal(self, ref: AttemptRef, sha256: str, size: int) -> Mismatch | None:
        """Reads back what was kept. None: the file has this size and digest, is durable, and stays as it is."""
        ...

    async def unsealed(self, ref: AttemptRef, files: Iterable[OutputFile]) -> tuple[OutputFile, ...]:
        """The files of an attempt that are not sealed with their size."""
        ...

    async def read(self, ref: AttemptRef, sha256: str, offset: int, limit: int) -> bytes:
        """Bytes of a sealed file. Raises FileNotFoundError when it is not there."""
        ...

    async def keep_only(
        self, tenant: str, job: str, fence: Fence | None, checkpoints: Collection[CheckpointId] = ()
    ) -> None:
        """Removes everything of the job except the sealed files of one attempt, and of these checkpoints."""
        ...

    async def checkpoints(self, tenant: str, job: str) -> tuple[CheckpointId, ...]:
        """The checkpoints of the job of which any file is there, in order."""
        ...

    async def remove(self, ref: CheckpointRef) -> None:
        """Removes one checkpoint."""
        ...

    async def adopt(self, source: CheckpointRef, target: CheckpointRef) -> None:
        """Gives sealed files of one checkpoint to another one of the same tenant too. Raises FileNotFoundError when
        there are none."""
        ...

    async def unsettled(self, age_s: float) -> tuple[tuple[str, str], ...]:
        """Tenant and id of jobs that began to hand over files so long ago and for which `keep_only` was not called."""
        ...


class SignedReads(Protocol):
    """URLs by which a node reads one file from where it is kept, without a credential. They are good for some minutes,
    for reading, and for this file only."""

    def part(self, tenant: str, sha256: str) -> str:
        """Of a part of a project."""
        ...

    def blob(self, ref: AttemptRef, sha256: str) -> str:
        """Of a sealed file of an attempt or a checkpoint."""
        ...
