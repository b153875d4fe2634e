"""The files below a directory that belong to a project, with what is to be said about them. Nothing is read yet."""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from msgspec import Struct

from ares.api.projects import ENTRIES_MAX, FileKind
from ares.core.project import link_flaw, path_flaw
from ares.edge.client.errors import InvalidSpec

# ---- what is left out


# Never shipped, whatever the files say: they are large, made anew elsewhere, or of no use there.
ALWAYS: Final = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
# The later one has the last word.
FILES: Final = (".gitignore", ".aresignore")
_CLASS = re.compile(r"\[(!?)(\]?[^\]]*)\]")


class _IgnoreLine(NamedTuple):
    """One line. It speaks of paths below the directory that its file is in."""

    matches: re.Pattern[str]
    ignores: bool
    only_folders: bool


class _IgnoreLevel(NamedTuple):
    """The lines of one directory, the last first, and how a path below the project is seen from there."""

    # So much is cut off its beginning, and this is put before it.
    cut: int
    prefix: str
    lines: tuple[_IgnoreLine, ...]


class IgnoreRules(NamedTuple):
    """The lines that hold in a directory: its own, and those of the directories above it."""

    # Innermost first.
    levels: tuple[_IgnoreLevel, ...] = ()

    def within(self, folder: str, path: str) -> "IgnoreRules":
        """The rules inside of a directory. `path` is its own below the project's."""
        lines = [line for name in FILES for line in _lines_of(f"{folder}/{name}")]
        return self._with(lines, len(path) + 1 if path else 0, "")

    def beside(self, folder: Path, prefix: str) -> "IgnoreRules":
        """With those of a directory above the project's."""
        return self._with(_lines_of(f"{folder}/{FILES[0]}"), 0, prefix)

    def _with(self, lines: list[_IgnoreLine], cut: int, prefix: str) -> "IgnoreRules":
        level = _IgnoreLevel(cut, prefix, tuple(reversed(lines)))
        return IgnoreRules((level, *self.levels)) if lines else self

    def ignores(self, path: str, *, folder: bool) -> bool:
        """The last line that fits decides, and inner files come after outer ones."""
        if path.rpartition("/")[2] in ALWAYS:
            return True
        for level in self.levels:
            below = level.prefix + path[level.cut :]
            for line in level.lines:
                if (folder or not line.only_folders) and line.matches.fullmatch(below):
                    return line.ignores
        return False


def above(root: Path) -> IgnoreRules:
    """Rules from outside of the project: of the directories above it, if it is part of a git repository."""
    chain = [root, *root.parents]
    top = next((number for number, folder in enumerate(chain) if (folder / ".git").exists()), 0)
    rules = IgnoreRules()
    for folder in reversed(chain[1 : top + 1]):
        rules = rules.beside(folder, f"{root.relative_to(folder).as_posix()}/")
    return rules


def _lines_of(path: str) -> list[_IgnoreLine]:
    try:
        with open(path, errors="replace") as file:
            return [line for raw in file.read().splitlines() if (line := _line(raw)) is not None]
    except OSError:
        return []


def _line(raw: str) -> _IgnoreLine | None:
    text = re.sub(r"(?<!\\)\s+$", "", raw)
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    text = text.removeprefix("!")
    only_folders = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    pattern = ("" if "/" in text else "(?:.*/)?") + _translated(text.removeprefix("/"))
    return _IgnoreLine(re.compile(pattern, re.DOTALL), ignores, only_folders)


def _translated(glob: str) -> str:
    out, at = list[str](), 0
    while at < len(glob):
        rest = glob[at:]
        if rest.startswith("**/") and (at == 0 or glob[at - 1] == "/"):
            out.append("(?:.*/)?")
            at += 3
        elif rest == "**" and at and glob[at - 1] == "/":
            out.append(".+")
            at += 2
        elif rest[0] == "*":
            out.append("[^/]*")
            at += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            out.append("[^/]")
            at += 1
        elif rest[0] == "[" and (found := _CLASS.match(rest)) is not None:
            inner = found[2].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[{'^/' if found[1] else ''}{inner}]")
            at += len(found[0])
        else:
            if rest[0] == "\\" and len(rest) > 1:
                at, rest = at + 1, rest[1:]
            out.append(re.escape(rest[0]))
            at += 1
    return "".join(out)


# ---- what is found


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
# Where programs put files for a while, if not in /tmp.
_TEMPORARY: Final = ("TMPDIR", "TEMP", "TMP")
_ALL_NAMED: Final = 3


class FoundEntry(Struct):
    """One path of the project."""

    path: str
    kind: FileKind
    mode: int
    size: int = 0
    link: str = ""
    # Of a file: size, time of the last change of its bytes and of its inode, and the inode. If these are as before,
    # so are the bytes.
    stamp: tuple[int, int, int, int] = (0, 0, 0, 0)


class Scanned(Struct):
    root: str
    entries: list[FoundEntry] = []
    # Paths by why they are left out, and paths that look like secrets.
    left_out: dict[str, list[str]] = {}
    secrets: list[str] = []

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
    temporary = [Path(os.environ[name]).resolve() for name in _TEMPORARY if os.environ.get(name)]
    if str(root) in _SYSTEM or root in temporary:
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


def whole(root: Path) -> Scanned:
    """All that is below a directory: of data nothing is left out for what it is called. Permissions are left aside but
    for whether a file can be run: the digest is that of names and bytes. Raises InvalidSpec."""
    found = Scanned(str(root))
    try:
        _walk(found, str(root), "", None)
    except OSError as error:
        message = f"{error.filename or root} cannot be read: {error.strerror}"
        raise InvalidSpec(message, fix="make it readable, or take it out of the directory") from error
    for entry in found.entries:
        if entry.kind != "link":
            entry.mode = 0o755 if entry.kind == "dir" or entry.mode & 0o100 else 0o644
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


def _walk(found: Scanned, folder: str, path: str, outer: IgnoreRules | None) -> None:
    """Without rules nothing is ignored."""
    rules = None if outer is None else outer.within(folder, path)
    with os.scandir(folder) as entries:
        for entry in entries:
            below = f"{path}/{entry.name}" if path else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules is not None and rules.ignores(below, folder=is_folder):
                continue
            if len(found.entries) >= ENTRIES_MAX:
                fix = "leave data out by lines in .aresignore, or ship another directory with --workdir DIR"
                raise InvalidSpec(
                    f"{found.root} holds more than {ENTRIES_MAX:,} files and directories",
                    fix="pack small files into larger ones, such as tar files" if rules is None else fix,
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
