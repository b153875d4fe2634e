"""Folders below a root, entered step by step without following links: nothing leads out of the root."""

import contextlib
import os
import re
from collections.abc import Generator
from pathlib import Path

# Identifiers only: no dot, slash, or anything else a path could be built from.
_SAFE_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}", re.ASCII)
_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def checked(identifier: str) -> str:
    if not _SAFE_ID.fullmatch(identifier):
        raise ValueError(f"{identifier!r} is not an identifier that may name a folder")
    return identifier


def of_job(tenant: str, job: str) -> tuple[str, ...]:
    """The steps to a job's folder. The middle one keeps folders small; tasks of one array share it."""
    return checked(tenant), checked(job)[:2], job


@contextlib.contextmanager
def entered(
    root: Path, steps: tuple[str, ...], *, create: bool = False, durable: bool = False
) -> Generator[int | None]:
    """A descriptor of the folder, or None if it does not exist. With `durable`, new folders are synced to the disk."""
    with contextlib.ExitStack() as opened:
        fd: int | None = os.open(root, _DIR)
        opened.callback(os.close, fd)
        for step in steps:
            fd = _enter(fd, step, create=create, durable=durable)
            if fd is None:
                break
            opened.callback(os.close, fd)
        yield fd


def write_all(fd: int, data: memoryview, at: int) -> int:
    """Returns where it ended."""
    while data:
        written = os.pwrite(fd, data, at)
        at += written
        data = data[written:]
    return at


def _enter(above: int, step: str, *, create: bool, durable: bool) -> int | None:
    try:
        return os.open(step, _DIR, dir_fd=above)
    except FileNotFoundError:
        if not create:
            return None
    with contextlib.suppress(FileExistsError):
        os.mkdir(step, 0o700, dir_fd=above)
    if durable:
        os.fsync(above)
    return os.open(step, _DIR, dir_fd=above)
