"""A Python environment that the node has: a virtualenv or a conda environment at a path that the job names.

The agent may see more than the job's user. It therefore answers for a path that is closed to that user as for one that
does not exist, and shows a job no directory but a real environment.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ares.ports.executor import NodeFolder

EnvironmentKind = Literal["virtualenv", "conda"]
_MARKS: Final[tuple[tuple[str, Callable[[int], bool], EnvironmentKind], ...]] = (
    ("pyvenv.cfg", stat.S_ISREG, "virtualenv"),
    ("conda-meta", stat.S_ISDIR, "conda"),
)
_STEP: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# In a sandbox, directories of the job's own.
_PRIVATE: Final = ("/tmp", "/var/tmp", "/dev/shm", "/run")
# Where the agent has no PATH.
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class NoEnvironment(Exception):
    """There is none that the job may use, in words."""


@dataclass(frozen=True, slots=True)
class EnvironmentTerms:
    """The operator's settings: Ares' own directories and those that are hidden, which no environment may be in or hold,
    and directories in which environments may be used also where they are closed to the job's user."""

    private: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadyEnvironment:
    kind: EnvironmentKind
    folder: NodeFolder
    # A sandbox does not show it by itself.
    covered: bool = True

    def activate(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables as after `activate`: its programs come first."""
        prefix = self.folder.path
        named = {key: value for key, value in env.items() if key not in _OUTER}
        named["PATH"] = f"{prefix}/bin:{env.get('PATH') or _PATH}"
        if self.kind == "virtualenv":
            return {**named, "VIRTUAL_ENV": prefix}
        return {**named, "CONDA_PREFIX": prefix, "CONDA_DEFAULT_ENV": os.path.basename(prefix)}


# Of another environment, or of a Python that is not this one.
_OUTER: Final = ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONHOME")


def find_environment(path: str, uid: int | None, terms: EnvironmentTerms) -> ReadyEnvironment:
    """The environment at the path, for attempts of that user. Raises NoEnvironment."""
    real = os.path.realpath(path)
    if any(_within(real, own) or _within(own, real) for own in terms.private):
        raise _nothing(path)
    try:
        fd = _reached(real, uid, terms.allowed)
    except OSError:
        raise _nothing(path) from None
    try:
        seen, kind = os.fstat(fd), _kind(fd)
        if kind is None or not _open_to_all(seen.st_mode, uid):
            raise _nothing(path)
    finally:
        os.close(fd)
    _check_interpreter(real, uid, terms.allowed)
    covered = any(_within(real, folder) for folder in (*_PRIVATE, *terms.allowed))
    return ReadyEnvironment(kind, NodeFolder(real, seen.st_dev, seen.st_ino), covered)


def shown_at(path: str) -> ReadyEnvironment:
    """A virtualenv that the agent had built. Raises OSError when the build left something else there."""
    return ReadyEnvironment("virtualenv", folder_at(path))


def folder_at(path: str) -> NodeFolder:
    """Raises OSError when there is no directory, or a link in its place."""
    seen = os.stat(path, follow_symlinks=False)
    if not stat.S_ISDIR(seen.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is no directory", path)
    return NodeFolder(path, seen.st_dev, seen.st_ino)


def _nothing(path: str) -> NoEnvironment:
    return NoEnvironment(f"there is no virtualenv or conda environment at {path} that the job's user may read")


def _reached(path: str, uid: int | None, allowed: Iterable[str]) -> int:
    """Opens a path without links, step by step, where the job's user could do so, too. Raises OSError."""
    trusted = any(_within(path, folder) for folder in allowed)
    at = os.open("/", _STEP)
    try:
        for name in path.strip("/").split("/"):
            below = os.open(name, _STEP, dir_fd=at)
            os.close(at)
            at = below
            mode = os.fstat(at).st_mode
            if stat.S_ISLNK(mode) or not (trusted or stat.S_ISREG(mode) or _open_to_all(mode, uid, enter=True)):
                raise PermissionError(path)
        return os.dup(at)
    finally:
        os.close(at)


def _open_to_all(mode: int, uid: int | None, *, enter: bool = False) -> bool:
    """Attempts without a user of their own have what the agent's user has."""
    wanted = 0o001 if enter else 0o005
    return uid is None or mode & wanted == wanted


def _kind(folder: int) -> EnvironmentKind | None:
    for name, is_kind, kind in _MARKS:
        try:
            if is_kind(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return kind
        except OSError:
            continue
    return None


def _check_interpreter(prefix: str, uid: int | None, allowed: Iterable[str]) -> None:
    """Its `python` is most often a link to another directory, which the job's user must see as well."""
    program = os.path.realpath(f"{prefix}/bin/python")
    if _within(program, prefix) or any(_within(program, own) for own in (sys.prefix, sys.base_prefix)):
        return
    try:
        os.close(_reached(program, uid, allowed))
    except OSError:
        raise NoEnvironment(f"the interpreter of {prefix} is not on this node, or closed to the job's user") from None
    if any(_within(program, folder) for folder in _PRIVATE):
        raise NoEnvironment(
            f"the interpreter of {prefix} is {program}, in a directory that jobs have one of their own of"
        )


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
