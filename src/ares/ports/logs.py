"""Where job output is kept. Never in the store of record."""

from typing import Protocol


class LogGap(Exception):
    """Bytes were offered beyond the end of what is kept: send again from `size`."""

    def __init__(self, size: int) -> None:
        super().__init__(f"log has {size} bytes; send again from there")
        self.size = size


class Logs(Protocol):
    """Output per (tenant, job, attempt, rank), addressed by byte offset."""

    def append(self, tenant: str, job: str, attempt: int, rank: int, offset: int, data: bytes) -> int:
        """Writes at `offset`; repeats are harmless, a gap raises LogGap. Returns the size kept now."""
        ...

    def read(self, tenant: str, job: str, attempt: int, rank: int, offset: int, limit: int) -> bytes: ...

    def size(self, tenant: str, job: str, attempt: int, rank: int) -> int: ...

    def ranks(self, tenant: str, job: str, attempt: int) -> tuple[int, ...]: ...

    def delete(self, tenant: str, job: str) -> None: ...
