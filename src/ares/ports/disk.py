"""What is left of the disks that a server writes to."""

from collections.abc import Callable
from typing import Protocol

from ares.model.base import Record


class DiskRoom(Record, frozen=True):
    """The room on one disk. The count of inodes is 0 where a file system does not count them."""

    path: str
    bytes_free: int
    bytes_all: int
    inodes_free: int = 0
    inodes_all: int = 0


# One entry for each directory; several directories may be on one disk.
Disk = Callable[[], tuple[DiskRoom, ...]]


class Reserves(Protocol):
    """What is kept on these disks for the store and the audit log, and never given to what jobs leave behind."""

    def short(self) -> str:
        """What the reserves lack, in words; empty when nothing. Raises OSError."""
        ...
