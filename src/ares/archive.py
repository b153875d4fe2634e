"""Files and directories as one stream of bytes, for `ares cp`. Both ends are this file: the command line imports it,
and the agent runs its text inside the job, with whatever Python is there.

An entry is the length of a header in four bytes, the header in JSON, and of a file its bytes and their SHA-256. The
first entry is what is copied itself, with an empty path; the last says how many there were.

The reader trusts nothing: no path leads out of the directory, no link is followed on the way, only files, directories
and links that stay inside are made, and a file appears under its name only when its digest is right.

Standard library only.
"""

import contextlib
import hashlib
import json
import os
import stat
import struct
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any, cast

PIECE_BYTES = 32 * 1024
HEADER_BYTES_MAX = 64 * 1024
PATH_CHARS_MAX = 4096
DEPTH_MAX = 100
ENTRIES_MAX = 1_000_000
FILE_BYTES_MAX = 1 << 50
_LENGTH = struct.Struct(">I")
_DIGEST_BYTES = 32
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BadArchive(Exception):
    """The stream is damaged, or would write where it must not."""


# ---- writing


def pack(path: str, skipped: Callable[[str], None]) -> Iterator[bytes]:
    """The file or directory as a stream. Devices, pipes and sockets are left out, and `skipped` is told."""
    root = path.rstrip("/") or path
    found = os.stat(root)
    name = os.path.basename(os.path.abspath(root))
    entries = 1
    if stat.S_ISDIR(found.st_mode):
        yield _header(path="", kind="dir", mode=stat.S_IMODE(found.st_mode), name=name)
        for below in _walk(root, "", skipped):
            entries += 1
            yield from below
    elif stat.S_ISREG(found.st_mode):
        yield from _file(root, "", name)
    else:
        raise BadArchive(f"{path} is neither a file nor a directory")
    yield _header(kind="end", entries=entries)


def _walk(folder: str, prefix: str, skipped: Callable[[str], None]) -> Iterator[Iterator[bytes]]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        where, path = f"{folder}/{name}", f"{prefix}{name}"
        mode = os.lstat(where).st_mode
        if stat.S_ISREG(mode):
            yield _file(where, path, "")
        elif stat.S_ISDIR(mode):
            yield iter([_header(path=path, kind="dir", mode=stat.S_IMODE(mode))])
            yield from _walk(where, f"{path}/", skipped)
        elif stat.S_ISLNK(mode) and _stays(path, os.readlink(where)):
            yield iter([_header(path=path, kind="link", target=os.readlink(where))])
        else:
            skipped(path)


def _file(where: str, path: str, name: str) -> Iterator[bytes]:
    # It may have become another kind of file since it was looked at: a pipe must not be waited for.
    fd = os.open(where, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if path else 0))
    with open(fd, "rb", buffering=0) as file:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise BadArchive(f"{where} is no file any more")
        left, digest = seen.st_size, hashlib.sha256()
        yield _header(path=path, kind="file", mode=stat.S_IMODE(seen.st_mode), size=left, name=name)
        while left:
            data = file.read(min(left, PIECE_BYTES))
            if not data:
                raise BadArchive(f"{where} became shorter while it was copied")
            digest.update(data)
            left -= len(data)
            yield data
    yield digest.digest()


def _header(**fields: Any) -> bytes:
    data = json.dumps({key: value for key, value in fields.items() if value != ""}).encode("utf-8", "surrogatepass")
    if len(data) > HEADER_BYTES_MAX:
        raise BadArchive("a path is too long")
    return _LENGTH.pack(len(data)) + data


# ---- reading


class Unpacking:
    """Feed it the stream; it writes to `target`, or into it where that is a directory already.

    There it is called `name`. The stream's own word for it is taken only where none is given: a job must not choose
    what is written on its user's machine.
    """

    def __init__(self, target: str, name: str = "") -> None:
        self._target = target
        self._called = name
        self._data = bytearray()
        self._root = -1
        self._entries = 0
        self.bytes = 0
        self.done = False
        # The file being written: its directory, its name and the name until it is whole.
        self._fd = self._folder = -1
        self._name = self._draft = ""
        self._left = self._mode = 0
        self._digest = hashlib.sha256()

    def feed(self, data: bytes) -> None:
        self._data += data
        while self._step():
            pass

    def finish(self) -> None:
        """Raises BadArchive when the stream ended early."""
        if not self.done:
            raise BadArchive("the stream ended before everything was copied")

    def close(self) -> None:
        """Removes what is not whole."""
        if self._fd >= 0:
            os.close(self._fd)
            with contextlib.suppress(OSError):
                os.unlink(self._draft, dir_fd=self._folder)
            os.close(self._folder)
            self._fd = -1
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def _step(self) -> bool:
        if self.done:
            if self._data:
                raise BadArchive("there is something behind the end")
            return False
        if self._fd >= 0:
            return self._write()
        if len(self._data) < _LENGTH.size:
            return False
        (length,) = _LENGTH.unpack_from(self._data)
        if not 0 < length <= HEADER_BYTES_MAX:
            raise BadArchive(f"a header of {length} bytes; the most is {HEADER_BYTES_MAX}")
        if len(self._data) < _LENGTH.size + length:
            return False
        raw = bytes(self._data[_LENGTH.size : _LENGTH.size + length])
        del self._data[: _LENGTH.size + length]
        try:
            fields: object = json.loads(raw)
        except (ValueError, RecursionError):
            raise BadArchive("a header is not JSON") from None
        if not isinstance(fields, dict):
            raise BadArchive("a header is no object")
        self._begin(cast("dict[str, Any]", fields))
        return True

    def _begin(self, fields: dict[str, Any]) -> None:
        kind, mode = fields.get("kind"), _number(fields.get("mode", 0o644), 0o7777) & 0o777
        if kind == "end":
            if fields.get("entries") != self._entries or not self._entries:
                raise BadArchive("entries are missing")
            self.done = True
            return
        self._entries += 1
        if self._entries > ENTRIES_MAX:
            raise BadArchive(f"more than {ENTRIES_MAX:,} entries")
        steps = _steps(fields.get("path", ""))
        if self._entries == 1:
            self._begin_root(kind, steps, fields, mode)
            return
        if self._root < 0 or not steps:
            raise BadArchive("an entry is in no directory")
        with _entered(self._root, steps[:-1]) as folder:
            if kind == "dir":
                with contextlib.suppress(FileExistsError):
                    os.mkdir(steps[-1], mode | 0o700, dir_fd=folder)
            elif kind == "file":
                self._open(os.dup(folder), steps[-1], _number(fields.get("size"), FILE_BYTES_MAX), mode)
            elif kind == "link":
                _link(folder, steps, fields.get("target"))
            else:
                raise BadArchive(f"an entry of the kind {str(kind)[:20]!r}")

    def _begin_root(self, kind: object, steps: list[str], fields: dict[str, Any], mode: int) -> None:
        if steps:
            raise BadArchive("the first entry has a path")
        target = self._target
        if os.path.isdir(target) or target.endswith("/"):
            told = self._called or fields.get("name", "")
            target = os.path.join(target, _steps(told)[-1] if told else "copy")
        folder, name = os.path.split(os.path.abspath(target))
        if kind == "dir":
            if os.path.lexists(target) and not os.path.isdir(target):
                raise BadArchive(f"{target} is a file, and a directory came")
            os.makedirs(target, exist_ok=True)
            self._root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        elif kind == "file":
            os.makedirs(folder, exist_ok=True)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._open(fd, name, _number(fields.get("size"), FILE_BYTES_MAX), mode)
        else:
            raise BadArchive("the first entry is neither a file nor a directory")

    def _open(self, folder: int, name: str, size: int, mode: int) -> None:
        self._draft = f".{name[:80]}.{os.urandom(4).hex()}.part"
        try:
            self._fd = os.open(self._draft, _NEW, 0o600, dir_fd=folder)
        except OSError:
            os.close(folder)
            raise
        self._folder, self._name, self._left, self._mode = folder, name, size, mode
        self._digest = hashlib.sha256()

    def _write(self) -> bool:
        if self._left:
            data = bytes(self._data[: self._left])
            if not data:
                return False
            del self._data[: len(data)]
            self._digest.update(data)
            self._left -= len(data)
            self.bytes += len(data)
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            return True
        if len(self._data) < _DIGEST_BYTES:
            return False
        told = bytes(self._data[:_DIGEST_BYTES])
        del self._data[:_DIGEST_BYTES]
        if told != self._digest.digest():
            raise BadArchive(f"{self._name}: its bytes are not those that were sent")
        os.fchmod(self._fd, self._mode)
        os.close(self._fd)
        self._fd = -1
        os.replace(self._draft, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.close(self._folder)
        return True


def _number(value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise BadArchive("a number is out of its bounds")
    return value


def _steps(path: object) -> list[str]:
    """The parts of a path; none of the empty one."""
    if not isinstance(path, str) or len(path) > PATH_CHARS_MAX or "\0" in path:
        raise BadArchive("a path is no path")
    steps = path.split("/") if path else []
    if any(step in ("", ".", "..") for step in steps) or len(steps) > DEPTH_MAX:
        raise BadArchive(f"a path that leads out of the directory, or too deep: {path[:100]!r}")
    return steps


def _stays(path: str, target: str) -> bool:
    """Whether a link at the path leads to something inside what is copied."""
    depth = path.count("/")
    if target.startswith("/") or not target or "\0" in target or len(target) > PATH_CHARS_MAX:
        return False
    for step in target.split("/"):
        depth += -1 if step == ".." else 0 if step in ("", ".") else 1
        if depth < 0:
            return False
    return True


def _link(folder: int, steps: list[str], target: object) -> None:
    if not isinstance(target, str) or not _stays("/".join(steps), target):
        raise BadArchive(f"a link that leads out of the directory: {'/'.join(steps)[:100]!r}")
    draft = f".{os.urandom(8).hex()}.part"
    os.symlink(target, draft, dir_fd=folder)
    os.replace(draft, steps[-1], src_dir_fd=folder, dst_dir_fd=folder)


@contextlib.contextmanager
def _entered(root: int, steps: list[str]) -> Generator[int, None, None]:
    """The directory below the root. A link on the way could lead anywhere, so none is followed."""
    with contextlib.ExitStack() as opened:
        fd = root
        for step in steps:
            try:
                fd = os.open(step, _DIRECTORY, dir_fd=fd)
            except OSError as error:
                raise BadArchive(f"{step[:100]!r} on the way is no directory: {error.strerror}") from None
            opened.callback(os.close, fd)
        yield fd


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main(direction: str, path: str) -> None:
    """Inside the job: `out` writes the path to stdout as a stream, `in` reads a stream from stdin to the path."""
    if direction == "out":
        for data in pack(path, lambda left_out: _say(f"left out: {left_out}")):
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
        return
    unpacking = Unpacking(path)
    try:
        while data := os.read(0, PIECE_BYTES):
            unpacking.feed(data)
        unpacking.finish()
    finally:
        unpacking.close()


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2])
    except (OSError, BadArchive) as error:
        sys.exit(str(error))
