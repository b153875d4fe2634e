"""Files between a job and the agent: its result and its progress, and its gang. Files of a job are not trusted."""

import contextlib
import errno
import os
import stat
from typing import Annotated

import msgspec

from ares.core.lifecycle import outputs

RESULT_BYTES_MAX = 64 * 1024
PROGRESS_BYTES_MAX = 4 * 1024
PROGRESS_MESSAGE_MAX = 1000


class ResultFile(msgspec.Struct, frozen=True, gc=False):
    """A job's result: JSON bytes, empty without a result. `trouble` says why a result cannot be stored."""

    value: bytes = b""
    trouble: str = ""


class ProgressNote(msgspec.Struct, frozen=True, gc=False):
    fraction: float | None
    message: str


class _Written(msgspec.Struct):
    """The progress file as `ares.job.progress` writes it. Other fields in it are the job's own."""

    fraction: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None = None
    message: Annotated[str, msgspec.Meta(max_length=PROGRESS_MESSAGE_MAX)] = ""


def read_result(path: str) -> ResultFile:
    try:
        data = read_bounded(path, RESULT_BYTES_MAX)
        if data:
            outputs.decode_result(data)
    except FileNotFoundError:
        return ResultFile()
    except OSError as error:
        what = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        return ResultFile(trouble=f"its result cannot be kept: {what}")
    except ValueError as error:
        return ResultFile(trouble=f"its result cannot be kept: {error}")
    return ResultFile(value=data)


def read_progress(path: str) -> ProgressNote | None:
    """The progress in that file, or None when it is missing or not valid."""
    try:
        written = msgspec.json.decode(read_bounded(path, PROGRESS_BYTES_MAX), type=_Written)
    except (OSError, ValueError, RecursionError):
        return None
    return ProgressNote(written.fraction, written.message)


def write_whole(path: str, data: bytes) -> None:
    """Replaces a file atomically: a reader sees the old content or the new. The job may have put a file in the way."""
    draft = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "wb") as file:
        # Readable by the job's user whatever the umask is. Only that user can enter the directory.
        os.fchmod(file.fileno(), 0o644)
        file.write(data)
    os.replace(draft, path)


def read_bounded(path: str, limit: int) -> bytes:
    """A file that the job may have written. Raises OSError, and ValueError for what is no such file."""
    # Non-blocking: a named pipe in place of the file must not block the agent.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("it is not a regular file")
        data = os.read(fd, limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        raise ValueError(f"it is larger than {limit} bytes")
    return data
