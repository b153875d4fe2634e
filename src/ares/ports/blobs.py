"""Where output files of jobs are kept. Never in the store of record, which holds the only pointer to them."""

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from ares.model.link import AttemptRef
from ares.model.state import Fence, OutputFile


class Mismatch(Struct, frozen=True, gc=False):
    """What was kept is not what was announced; it has been dropped."""

    size: int
    sha256: str


class Blobs(Protocol):
    """Files by attempt and SHA-256. A sealed file never changes again; other files are only pieces so far.

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

    async def keep_only(self, tenant: str, job: str, fence: Fence | None) -> None:
        """Removes everything of the job except the sealed files of one attempt; everything without a fence."""
        ...

    async def unsettled(self, age_s: float) -> tuple[tuple[str, str], ...]:
        """Tenant and id of jobs that began to hand over files so long ago and for which `keep_only` was not called."""
        ...
