"""The disks that a server writes to, as the kernel tells of them."""

import os
from collections.abc import Sequence
from pathlib import Path

from ares.ports.disk import DiskRoom


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
