"""Python environments that this node has built: `cache/<tenant>/envs/<key>/env`, bounded, the longest unused removed
first. A file `<key>.built` beside each says that it is complete, and how large it is.

Tenants share none of them: an environment holds what its tenant's code made of it.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ares.agent.attempts.workspace import Folder, Workspace, used_bytes
from ares.agent.files.job_files import write_whole

_ENVS: Final = "envs"
_BUILT: Final = ".built"


class BuiltEnvironment(NamedTuple):
    folder: str
    size: int
    used_ns: int


class EnvironmentShelf:
    """All calls but `folder` may take long: they are made in threads, and for one environment one at a time."""

    def __init__(self, root: Path, bytes_max: int, in_use: Callable[[], set[str]]) -> None:
        """`in_use`: directories of environments that attempts have now. They stay."""
        self._root = root
        self._bytes_max = bytes_max
        self._in_use = in_use

    def folder(self, tenant: str, key: str) -> str:
        return f"{self._root}/{tenant}/{_ENVS}/{key}"

    def open(self) -> None:
        """Removes what an agent that was killed had not finished."""
        for path in self._root.glob(f"*/{_ENVS}/*"):
            if path.suffix != _BUILT and not path.with_name(path.name + _BUILT).exists():
                Workspace.remove(Folder(str(path)))

    def known(self, folder: str) -> bool:
        """Whether it is complete. It counts as used now."""
        try:
            os.utime(f"{folder}{_BUILT}")
        except FileNotFoundError:
            return False
        return True

    def begin(self, folder: str, uid: int | None) -> None:
        """Makes the directories to build in, for that user: `src` for files, and `tmp`."""
        Workspace.remove(Folder(folder))
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        for path in (folder, f"{folder}/src", f"{folder}/tmp"):
            os.mkdir(path, 0o755)
            if uid is not None:
                os.chown(path, uid, uid)

    def seal(self, folder: str) -> int:
        """The environment is complete: from now on attempts may have it, and only read it. Returns its size."""
        for name in ("src", "tmp"):
            Workspace.remove(Folder(f"{folder}/{name}"))
        size = used_bytes(Folder(folder))
        if size > self._bytes_max:
            self.drop(folder)
            return size
        # The directory is the agent's: jobs of the tenant cannot put another environment into it.
        os.chown(folder, os.geteuid(), os.getegid())
        os.chmod(folder, 0o755)
        self._make_room(size)
        write_whole(f"{folder}{_BUILT}", str(size).encode())
        return size

    def drop(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{folder}{_BUILT}")
        Workspace.remove(Folder(folder))

    def _make_room(self, size: int) -> None:
        built, kept = sorted(self._all(), key=lambda found: found.used_ns), self._in_use()
        used = size + sum(found.size for found in built)
        for found in built:
            if used <= self._bytes_max:
                return
            if f"{found.folder}/env" not in kept:
                self.drop(found.folder)
                used -= found.size

    def _all(self) -> Iterator[BuiltEnvironment]:
        for path in self._root.glob(f"*/{_ENVS}/*{_BUILT}"):
            with contextlib.suppress(OSError, ValueError):
                size, seen = int(path.read_bytes()), path.stat()
                yield BuiltEnvironment(str(path)[: -len(_BUILT)], size, seen.st_mtime_ns)

    def free_bytes(self) -> int:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return shutil.disk_usage(self._root).free
