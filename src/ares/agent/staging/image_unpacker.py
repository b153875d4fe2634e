"""Unpacks the layers of an image: a program of its own, which works as the tenant's user in a root directory that it
cannot leave. Whatever an image holds, it can change nothing but the directory that is made for it.

The request is JSON on stdin, see `main`; the answer JSON on stdout: what was made, `flaw`, or `trouble` that may pass.
Every file belongs to the user of the program, who may read and write it: the job is what root is in other containers.
Bits that change users are dropped, device files and extended attributes left out. Standard library only, all of it
imported before the root is left behind.
"""

import contextlib
import ctypes
import gzip
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import stat
import sys
import tarfile
import zlib
from collections.abc import Iterator
from typing import Any, Final

from ares.agent.staging.layer_bytes import PIECE, Flaw, Zstd, is_zstd, layer_bytes

_MEMORY_BYTES: Final = 512 << 20
_NICE: Final = 10
_NEWUSER: Final = 0x10000000
_PDEATHSIG: Final = 1
_PATH_BYTES_MAX: Final = 4096
_DEPTH_MAX: Final = 256
_HEADER_BYTES_MAX: Final = 1 << 20
_LONG: Final = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip
_TIME_MAX: Final = 1 << 33
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_AUFS: Final = ".wh..wh."
_PASSWD_BYTES_MAX: Final = 1 << 20
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Member(tarfile.TarInfo):
    """A header whose name, or whatever else it says beside the usual, is bounded before it is read."""

    def _proc_member(self, tarfile: Any) -> Any:
        if self.type in _LONG and self.size > _HEADER_BYTES_MAX:
            raise Flaw(f"a header in it takes {self.size:,} bytes, at most {_HEADER_BYTES_MAX:,} are taken")
        return super()._proc_member(tarfile)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType]


# ---- one layer after the other, in the new root


class _ImageTree:
    """The root directory as it grows."""

    def __init__(self, bytes_max: int, entries_max: int) -> None:
        self.bytes, self.entries = 0, 0
        self._bytes_max = bytes_max
        self._entries_max = entries_max
        # Permissions of directories, set in the end: their owner could not fill some.
        self._modes: dict[str, tuple[int, float]] = {}
        # Paths of the present layer and directories above them: its own marks do not remove them.
        self._fresh: set[str] = set()
        self._above: set[str] = set()

    def begin_layer(self) -> None:
        self._fresh, self._above = set(), set()

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._count(member)
        path = _path(member.name)
        above, name = os.path.split(path)
        if name.startswith(_WHITEOUT):
            self._white_out(above, name)
            return
        if not name:
            if member.isdir():
                self._modes["/"] = (member.mode, member.mtime)
            return
        if not (member.isdir() or member.isfile() or member.issym() or member.islnk() or member.isfifo()):
            # A device file: the job gets those of its node.
            return
        self._folder(above)
        self._make_way(path, member)
        self._made(tar, member, path)
        self._fresh.add(path)
        while above not in self._above:
            self._above.add(above)
            above = os.path.dirname(above)

    def _count(self, member: tarfile.TarInfo) -> None:
        self.entries += 1
        self.bytes += member.size if member.isreg() else 0
        if self.entries > self._entries_max:
            raise Flaw(f"it has more than the {self._entries_max:,} files and directories that are taken")
        if self.bytes > self._bytes_max:
            raise Flaw(f"it takes more than the {self._bytes_max:,} bytes that are taken when it is unpacked")
        if member.size < 0:
            raise Flaw(f"{member.name[:200]!r} has a negative size")
        if member.issparse():
            raise Flaw(f"{member.name[:200]!r} is written as a sparse file, which is not taken")

    def _folder(self, path: str) -> None:
        """Directories that the layer does not name itself. Links on the way lead to places in the image."""
        if not os.path.isdir(path):
            os.makedirs(path, 0o755, exist_ok=True)

    def _make_way(self, path: str, member: tarfile.TarInfo) -> None:
        """Removes what is in the way; a directory stays for a directory."""
        try:
            there = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(there):
            os.unlink(path)
        elif not member.isdir():
            shutil.rmtree(path)

    def _made(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        if member.isdir():
            if not os.path.isdir(path):
                os.mkdir(path, 0o700)
            self._modes[path] = (member.mode, member.mtime)
        elif member.issym():
            os.symlink(member.linkname, path)
        elif member.islnk():
            target = _path(member.linkname)
            if not stat.S_ISREG(os.lstat(target).st_mode):
                raise Flaw(f"{member.name[:200]!r} is a second name of {target[:200]!r}, which is no file")
            os.link(target, path, follow_symlinks=False)
        elif member.isfifo():
            os.mkfifo(path, 0o600)
        else:
            self._file(tar, member, path)

    def _file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        source = tar.extractfile(member)
        assert source is not None, "it is a file"
        fd = os.open(path, _NEW, 0o600)
        try:
            while data := source.read(PIECE):
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
            os.fchmod(fd, member.mode & 0o777 | 0o600)
            os.utime(fd, _times(member.mtime))
        finally:
            os.close(fd)

    def _white_out(self, above: str, name: str) -> None:
        if name == _OPAQUE:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                for below in os.listdir(above):
                    self._remove(os.path.join(above, below))
        elif not name.startswith(_AUFS):
            gone = name[len(_WHITEOUT) :]
            if gone in ("", ".", ".."):
                raise Flaw(f"{name!r} in {above[:200]!r} is no mark of a removed file")
            self._remove(os.path.join(above, gone))

    def _remove(self, path: str) -> None:
        """Removes what earlier layers have made."""
        try:
            folder = stat.S_ISDIR(os.lstat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return
        if folder and (path in self._fresh or path in self._above):
            for below in os.listdir(path):
                self._remove(os.path.join(path, below))
        elif folder:
            shutil.rmtree(path)
        elif path not in self._fresh:
            os.unlink(path)

    def finish(self) -> None:
        for path, (mode, mtime) in sorted(self._modes.items(), reverse=True):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    # The bit by which only owners remove files stays, as in /tmp.
                    os.chmod(path, mode & 0o1777 | 0o700)
                    os.utime(path, _times(mtime))


def _times(mtime: float) -> tuple[float, float]:
    known = mtime if 0 <= mtime < _TIME_MAX else 0.0
    return known, known


def _path(name: str) -> str:
    """The path in the root. Raises Flaw for one that leads elsewhere."""
    steps = [step for step in name.split("/") if step not in ("", ".")]
    if ".." in steps or "\0" in name:
        raise Flaw(f"{name[:200]!r} leads out of the image")
    if len(os.fsencode(name)) > _PATH_BYTES_MAX or len(steps) > _DEPTH_MAX:
        raise Flaw(f"a path of {len(name):,} characters and {len(steps)} directories is not taken")
    return "/" + "/".join(steps)


def _verify(layer: dict[str, Any], files: list[int]) -> str:
    """Compares a layer's bytes with its digest before anything of them is used. Returns its name in messages."""
    name, sha256, size = f"layer {layer['digest'][:19]}", hashlib.sha256(), 0
    for fd in files:
        while data := os.read(fd, PIECE):
            sha256.update(data)
            size += len(data)
        os.lseek(fd, 0, os.SEEK_SET)
    if (found := f"sha256:{sha256.hexdigest()}") != layer["digest"] or size != layer["size"]:
        raise OSError(f"{name} should be {layer['digest']} of {layer['size']:,} bytes, and came as {found} of {size:,}")
    return name


def _unpack(tree: _ImageTree, layer: dict[str, Any], files: list[int], zstd: Zstd | None, bytes_max: int) -> None:
    name = _verify(layer, files)
    # Headers and padding come on top of the files.
    plain = layer_bytes(files, zstd, 2 * bytes_max + (1 << 30), name)
    tree.begin_layer()
    with tarfile.open(fileobj=io.BufferedReader(plain, PIECE), mode="r|", tarinfo=_Member, errorlevel=2) as tar:
        for member in tar:
            tree.add(tar, member)
            # Otherwise it remembers every member.
            vars(tar)["members"] = []
    plain.finish(layer["diff_id"])


# ---- what was made


def _listing(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    ahead = [folder]
    while ahead:
        with os.scandir(ahead.pop()) as entries:
            for entry in sorted(entries, key=lambda found: found.name):
                seen = entry.stat(follow_symlinks=False)
                yield entry.path, seen
                if stat.S_ISDIR(seen.st_mode):
                    ahead.append(entry.path)


def _fingerprint() -> dict[str, Any]:
    """A digest of all names, kinds, permissions, sizes and times: what it is later, if nothing was changed."""
    sha256, files, size = hashlib.sha256(), 0, 0
    for path, seen in _listing("/"):
        plain = stat.S_ISREG(seen.st_mode)
        times = (seen.st_size, seen.st_mtime_ns) if plain else (0, 0)
        link = os.readlink(path) if stat.S_ISLNK(seen.st_mode) else ""
        sha256.update(os.fsencode(f"{path}\0{seen.st_mode}\0{times}\0{link}\n"))
        files += 1
        size += seen.st_blocks * 512
    return {"fingerprint": sha256.hexdigest(), "files": files, "bytes": size}


def _user(wanted: str) -> dict[str, str]:
    """The user that the image names, by its own list of users. Raises Flaw when there is no such name."""
    name = wanted.partition(":")[0] or "0"
    lines = list[str]()
    with contextlib.suppress(OSError):
        fd = os.open("/etc/passwd", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, errors="replace") as file:
            lines = file.read(_PASSWD_BYTES_MAX).splitlines()
    for line in lines:
        fields = line.split(":")
        if len(fields) > 5 and name in (fields[0], fields[2]):
            return {"name": fields[0], "home": fields[5] if fields[5].startswith("/") else "/"}
    if name.isdigit():
        return {"name": "", "home": "/root" if name == "0" else "/"}
    raise Flaw(f"it is to run as user {name[:100]!r}, whom it does not have")


# ---- the program


def _confine(root: str, uid: int | None) -> None:
    libc, agent = ctypes.CDLL(None, use_errno=True), os.getppid()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_NICE)
    if os.geteuid() != 0 and libc.unshare(_NEWUSER):
        raise OSError(ctypes.get_errno(), "this machine lets the agent make no user namespace")
    os.chroot(root)
    os.chdir("/")
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.umask(0o022)
    # Last: a change of users takes it back.
    libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != agent:
        raise Flaw("the agent has ended")


def _opened(paths: list[str]) -> list[int]:
    return [os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC) for path in paths]


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files = [_opened(layer["files"]) for layer in request["layers"]]
    # While the machine's libraries can be reached.
    zstd = Zstd() if any(is_zstd(parts) for parts in files) else None
    _confine(request["root"], request["uid"])
    if request["layers"]:
        tree = _ImageTree(request["bytes_max"], request["entries_max"])
        for layer, parts in zip(request["layers"], files, strict=True):
            _unpack(tree, layer, parts, zstd, request["bytes_max"])
        tree.finish()
    return {**_fingerprint(), **_user(request["user"])}


def main() -> None:
    """The request: `root`, `uid` or null, `layers` as {digest, diff_id, size, files}, `user`, `bytes_max` and
    `entries_max`. Without layers the directory is only looked at."""
    try:
        answer = _answer(json.load(sys.stdin))
    except Flaw as flaw:
        answer = {"flaw": str(flaw)}
    except MemoryError:
        answer = {"flaw": f"its archive wants more than {_MEMORY_BYTES >> 20} MiB of memory to be read"}
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, UnicodeError, ValueError) as error:
        answer = {"flaw": f"a layer is no archive that can be read: {error}"}
    except RecursionError:
        answer = {"flaw": "its directories are nested too deep"}
    except OSError as error:
        answer = {"trouble": f"it cannot be unpacked here: {error.strerror or error}"}
    sys.stdout.write(json.dumps(answer))
