"""A project in an attempt's directory: a writable copy that shares its blocks with the cache where the disk can.

Directories and files are made new, and links last: nothing is ever written through a link. Each directory is entered
from the one above it, so that a link which a process puts in the way is an error.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ares.api.projects import ProjectEntry, ProjectManifest

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotWanted(Exception):
    """The attempt was told to end: its files are not needed any more."""


def unpack(manifest: ProjectManifest, cached: Path, root: str, uid: int | None, wanted: Callable[[], bool]) -> None:
    """Makes the project below an empty directory, for that user. Raises OSError, and NotWanted."""
    tree = _Tree(str(cached), root, uid)
    try:
        _fill(tree, manifest, wanted)
    finally:
        tree.leave()


def _fill(tree: "_Tree", manifest: ProjectManifest, wanted: Callable[[], bool]) -> None:
    for entry in manifest.entries:
        if not wanted():
            raise NotWanted
        if entry.kind == "dir":
            tree.folder(entry)
        elif entry.kind == "file":
            tree.file(entry)
    for entry in manifest.entries:
        if entry.kind == "link":
            tree.link(entry)
    # Last: a directory that its owner may not write to could not be filled.
    for entry in manifest.entries:
        if entry.kind == "dir":
            tree.close(entry)


class _Tree:
    def __init__(self, cached: str, root: str, uid: int | None) -> None:
        self._cached = cached
        self._uid = uid
        self._root = os.open(root, _DIRECTORY)
        # The directory entered last: most entries lie beside the one before.
        self._entered: str = ""
        self._folder: int = self._root

    def leave(self) -> None:
        self._enter("")
        os.close(self._root)

    def folder(self, entry: ProjectEntry) -> None:
        name = self._beside(entry)
        os.mkdir(name, 0o700, dir_fd=self._folder)
        self._give(name)

    def close(self, entry: ProjectEntry) -> None:
        if entry.mode != 0o700:
            self._enter(entry.path)
            # Its owner can always enter it: what is in it has to be removed in the end.
            os.fchmod(self._folder, entry.mode | 0o500)

    def file(self, entry: ProjectEntry) -> None:
        name = self._beside(entry)
        target = os.open(name, _NEW, 0o600, dir_fd=self._folder)
        try:
            at = 0
            for part in entry.parts:
                at = _copied(f"{self._cached}/{part}", target, at)
            if at != entry.size:
                raise OSError(errno.EIO, f"{entry.path} has {at:,} bytes in the cache, {entry.size:,} are meant")
            if self._uid is not None:
                os.fchown(target, self._uid, self._uid)
            os.fchmod(target, entry.mode)
        finally:
            os.close(target)

    def link(self, entry: ProjectEntry) -> None:
        name = self._beside(entry)
        os.symlink(entry.link, name, dir_fd=self._folder)
        self._give(name)

    def _beside(self, entry: ProjectEntry) -> str:
        """Enters the directory of the entry, and says its name in there."""
        above, _, name = entry.path.rpartition("/")
        self._enter(above)
        return name

    def _enter(self, path: str) -> None:
        if path == self._entered:
            return
        folder = self._root
        for step in path.split("/") if path else ():
            try:
                below = os.open(step, _DIRECTORY, dir_fd=folder)
            finally:
                if folder not in (self._root, self._folder):
                    os.close(folder)
            folder = below
        if self._folder != self._root:
            os.close(self._folder)
        self._entered, self._folder = path, folder

    def _give(self, name: str) -> None:
        if self._uid is not None:
            os.chown(name, self._uid, self._uid, dir_fd=self._folder, follow_symlinks=False)


def _copied(path: str, target: int, at: int) -> int:
    """Appends a part. The kernel shares the blocks of the two files on disks that can."""
    source = os.open(path, _READ)
    try:
        left = os.fstat(source).st_size
        while left:
            copied = os.copy_file_range(source, target, left, None, at)
            if not copied:
                raise OSError(errno.EIO, "a part in the cache became shorter")
            left, at = left - copied, at + copied
    finally:
        os.close(source)
    return at
