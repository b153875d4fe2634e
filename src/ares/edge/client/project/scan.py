"""The files below a directory that belong to a project, with what is to be said about them. Nothing is read yet."""

import os
import re
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from ares.api.projects import ENTRIES_MAX, FileKind
from ares.core.project.manifest import link_flaw, path_flaw
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.ignore import IgnoreRules, above

# Names that credentials usually have.
_SECRET: Final = re.compile(
    r"\.env(\..+)?|id_(rsa|dsa|ecdsa|ed25519)|.+\.(pem|key|p12|pfx|jks|keystore)|credentials(\.json)?|"
    r"\.(netrc|pgpass|pypirc|npmrc|htpasswd)|service[-_]account.*\.json|secrets?\.(ya?ml|json|toml)",
    re.IGNORECASE,
)
_HARMLESS: Final = re.compile(r".*\.(example|sample|template|dist)", re.IGNORECASE)
_SYSTEM: Final = (
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys",
    "/tmp", "/usr", "/var", "/var/tmp",
)  # fmt: skip
_ALL_NAMED: Final = 3


@dataclass(slots=True)
class FoundEntry:
    """One path of the project."""

    path: str
    kind: FileKind
    mode: int
    size: int = 0
    link: str = ""
    # Of a file: size, time of the last change of its bytes and of its inode, and the inode. If these are as before,
    # so are the bytes.
    stamp: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(slots=True)
class Scanned:
    root: str
    entries: list[FoundEntry] = field(default_factory=list[FoundEntry])
    # Paths by why they are left out, and paths that look like secrets.
    left_out: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    secrets: list[str] = field(default_factory=list[str])

    def warnings(self) -> tuple[str, ...]:
        found = [f"left out, because {why}: {named(paths)}" for why, paths in self.left_out.items()]
        if self.secrets:
            found.append(
                f"shipped, and looks like secrets: {named(self.secrets)}; "
                "leave it out by a line in .aresignore, and give jobs their values with `ares secret`"
            )
        return tuple(found)


def named(paths: list[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(paths) - _ALL_NAMED:,} more" if len(paths) > _ALL_NAMED else ""
    return ", ".join(paths[:_ALL_NAMED]) + more


def not_a_project(root: Path) -> str:
    """Why a directory is not taken for a project without being named; empty when it is."""
    home = Path(os.path.expanduser("~")).resolve()
    if root == home:
        return f"{root} is your home directory"
    if root in home.parents:
        return f"{root} holds your home directory"
    if str(root) in _SYSTEM or root == Path(tempfile.gettempdir()).resolve():
        return f"{root} is a directory of the system"
    return ""


def scan(root: Path) -> Scanned:
    """Raises InvalidSpec when it cannot be shipped."""
    found = Scanned(str(root))
    try:
        _walk(found, str(root), "", above(root))
    except OSError as error:
        raise InvalidSpec(
            f"{error.filename or root} cannot be read: {error.strerror}",
            fix="make it readable, or leave it out by a line in .aresignore",
        ) from error
    found.entries.sort(key=lambda entry: entry.path)
    return found


def chosen(root: Path, paths: Iterable[str]) -> Scanned:
    """These files below the root, with their directories. Permissions are left aside: the digest is that of names and
    bytes. Raises InvalidSpec."""
    found = Scanned(str(root))
    folders = {str(above) for path in paths for above in PurePosixPath(path).parents} - {"."}
    found.entries += [FoundEntry(folder, "dir", 0o755) for folder in folders]
    for path in paths:
        try:
            seen = os.stat(root / path)
        except OSError as error:
            raise InvalidSpec(f"{path} cannot be read: {error.strerror}", fix="make it readable") from error
        if flaw := path_flaw(path):
            raise InvalidSpec(f"{printable(path)} cannot be shipped: {flaw}", fix="give it another name")
        stamp = (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)
        found.entries.append(FoundEntry(path, "file", 0o644, seen.st_size, "", stamp))
    found.entries.sort(key=lambda entry: entry.path)
    return found


def _walk(found: Scanned, folder: str, path: str, outer: IgnoreRules) -> None:
    rules = outer.within(folder, path)
    with os.scandir(folder) as entries:
        for entry in entries:
            below = f"{path}/{entry.name}" if path else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules.ignores(below, folder=is_folder):
                continue
            if len(found.entries) >= ENTRIES_MAX:
                raise InvalidSpec(
                    f"{found.root} holds more than {ENTRIES_MAX:,} files and directories",
                    fix="leave data out by lines in .aresignore, or ship another directory with --workdir DIR",
                )
            if _take(found, entry, below) and is_folder:
                _walk(found, entry.path, below, rules)


def _take(found: Scanned, entry: "os.DirEntry[str]", path: str) -> bool:
    seen = entry.stat(follow_symlinks=False)
    kind = stat.S_IFMT(seen.st_mode)
    mode = stat.S_IMODE(seen.st_mode) & 0o777
    link = os.readlink(entry.path) if kind == stat.S_IFLNK else ""
    flaw = path_flaw(path) or (link_flaw(path, link) if link else "")
    if flaw or kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        why = "a link leads out of the project" if link and not path_flaw(path) else flaw or "it is no plain file"
        found.left_out.setdefault(why, []).append(printable(path))
        return False
    if kind == stat.S_IFREG:
        stamp = (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)
        found.entries.append(FoundEntry(path, "file", mode, seen.st_size, "", stamp))
        if _SECRET.fullmatch(entry.name) and not _HARMLESS.fullmatch(entry.name):
            found.secrets.append(path)
    else:
        found.entries.append(FoundEntry(path, "link" if link else "dir", 0o777 if link else mode, 0, link))
    return True


def printable(path: str) -> str:
    return path if path.isprintable() else repr(path)
