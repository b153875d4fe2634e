"""What a job hands over: its result, JSON that every part of Ares can read, write and show; and its files: which paths,
how many, and how the ranks of a gang share one list."""

from collections.abc import Iterable
from typing import Any

import msgspec

from ares.model.state import OutputFile

FILES_MAX = 1000
PATH_BYTES_MAX = 512
# The list is part of the result's record, and of a gang's state while some of its ranks still run.
LIST_BYTES_MAX = 256 * 1024
# What one file takes in it beside its path.
_FILE_BYTES = 128
_SHA256 = 64
_HEX = frozenset("0123456789abcdef")


def path_flaw(path: str) -> str:
    """What is wrong with a path, or nothing. It may hold no name that leads elsewhere or drives a terminal."""
    if not path.isprintable():
        return "its path has characters that cannot be printed"
    if any(name in ("", ".", "..") for name in path.split("/")):
        return "its path is not one of plain names"
    if len(path.encode()) > PATH_BYTES_MAX:
        return f"its path takes {len(path.encode())} bytes, at most {PATH_BYTES_MAX} are kept"
    return ""


def list_flaw(files: Iterable[OutputFile], bytes_max: int | None = None) -> str:
    """Why a list of files cannot be kept, or nothing. What an agent says is not believed."""
    count = size = taken = 0
    paths = set[str]()
    for file in files:
        count, size, taken = (
            count + 1,
            size + file.size,
            taken + len(file.path.encode("utf-8", "replace")) + _FILE_BYTES,
        )
        flaw = path_flaw(file.path)
        if not flaw and file.path in paths:
            flaw = "it is there twice"
        if not flaw and (file.size < 0 or len(file.sha256) != _SHA256 or not _HEX.issuperset(file.sha256)):
            flaw = "its size or digest is not one"
        if flaw:
            return f"{file.path!r}: {flaw}"
        paths.add(file.path)
    if count > FILES_MAX:
        return f"there are {count:,} files, at most {FILES_MAX:,} are kept; put them into an archive"
    if taken > LIST_BYTES_MAX:
        return f"the list of {count:,} files takes {taken:,} bytes, at most {LIST_BYTES_MAX:,} are kept"
    if bytes_max is not None and size > bytes_max:
        return f"they take {size:,} bytes, at most {bytes_max:,} are kept"
    return ""


def of_rank(files: Iterable[OutputFile], rank: int) -> tuple[OutputFile, ...]:
    """The files as they are shown when several ranks hand over files."""
    return tuple(OutputFile(path=f"rank-{rank}/{file.path}", size=file.size, sha256=file.sha256) for file in files)


# ---- the result

# Encoders give up somewhat earlier than decoders, and both later or sooner as the stack is deep: stay far below.
NESTED_MAX = 512


def decode_result(data: bytes) -> Any:
    """Raises ValueError for what is not JSON, or is nested too deeply to be written again."""
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        value = None
    else:
        if not _reaches(value, NESTED_MAX):
            return value
    raise ValueError(f"it is nested more than {NESTED_MAX} levels deep")


def _reaches(value: Any, depth: int) -> bool:
    level: list[Any] = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return value if isinstance(value, list) else ()  # pyright: ignore[reportUnknownVariableType]
