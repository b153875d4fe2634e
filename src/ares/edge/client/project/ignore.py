"""What is left out of a project: by the lines of .gitignore and .aresignore files, as git reads them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

# Never shipped, whatever the files say: they are large, made anew elsewhere, or of no use there.
ALWAYS: Final = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
# The later one has the last word.
FILES: Final = (".gitignore", ".aresignore")
_CLASS = re.compile(r"\[(!?)(\]?[^\]]*)\]")


@dataclass(frozen=True, slots=True)
class _IgnoreLine:
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


@dataclass(frozen=True, slots=True)
class IgnoreRules:
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
