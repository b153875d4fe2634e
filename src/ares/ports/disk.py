"""What is left of the disks that a server writes to."""

from collections.abc import Callable
from typing import Protocol

from ares.model.base import Record


class DiskRoom(Record, frozen=True):
    """Of one disk. Of inodes there are 0 in all where a file system does not count them."""

    path: str
    bytes_free: int
    bytes_all: int
    inodes_free: int = 0
    inodes_all: int = 0


# One for each directory; several may be on one disk.
Disk = Callable[[], tuple[DiskRoom, ...]]


class Reserves(Protocol):
    """What is kept on these disks for the store and the audit log, and never given to what jobs leave behind."""

    def short(self) -> str:
        """What is lacking of it, in words; empty when nothing is. Raises OSError."""
        ...
