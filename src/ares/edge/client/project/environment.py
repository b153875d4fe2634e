"""The Python environment that a job is to have: the active one, one that is named, or files to build one from."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.pack import NONE
from ares.model.job import JobSpec, PythonEnvironment

Wish = str | os.PathLike[str]

_LOCK: Final = "uv.lock"
_PYPROJECT: Final = "pyproject.toml"
# Beside the file: says which Python the environment is for.
_VERSION: Final = ".python-version"
_FILES_MAX: Final = 1000
# Lines of a list of requirements that name other files: "-r base.txt", "--constraint=versions.txt".
_OPTION: Final = re.compile(
    r"(-r|--requirement|-c|--constraint|-f|--find-links|-e|--editable)(?:\s*=\s*|\s+|(?=\S))(.+)"
)
_NESTED: Final = ("-r", "--requirement", "-c", "--constraint")
_LINKS: Final = ("-f", "--find-links")
_PACKAGES: Final = (".whl", ".tar.gz", ".zip")
_ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class PythonFiles(Struct, frozen=True):
    """What an environment is built from: the file that says what to install, and all that it names, below `root`."""

    root: Path
    file: str
    paths: tuple[str, ...]


def of_the_api(wish: object) -> bool:
    """Whether a `python` is as the API has it; others are the caller's."""
    return isinstance(wish, Mapping | PythonEnvironment)


def python_of(wish: Wish | None, active: str | None = None) -> PythonEnvironment | PythonFiles | None:
    """What a job is to have, by what is wished for, or else the active environment. Raises InvalidSpec."""
    if wish is None:
        return None if active is None else PythonEnvironment(path=active, required=False)
    if os.fspath(wish) == NONE:
        return None
    path = Path(os.path.expanduser(wish))
    if path.is_file():
        return _files(path)
    if path.is_dir() and not _is_environment(path):
        raise InvalidSpec(f"python: {path} is no virtualenv or conda environment", fix=_FORMS)
    if not path.is_dir() and not path.is_absolute():
        raise InvalidSpec(f"python: {os.fspath(wish)!r} is neither a file nor an environment here", fix=_FORMS)
    return PythonEnvironment(path=os.path.realpath(path) if path.is_dir() else str(path))


_FORMS: Final = (
    "name requirements.txt, pyproject.toml or uv.lock, a directory of an environment that the nodes have, or none"
)


def without_files(spec: JobSpec, wish: Any) -> JobSpec:
    """The job with the environment that is wished for, where nothing is shipped. Raises InvalidSpec."""
    if wish is None or of_the_api(wish):
        return spec
    found = python_of(wish)
    if isinstance(found, PythonFiles):
        raise InvalidSpec(
            f"python: {found.file} is shipped with single jobs only",
            fix="submit the job by itself, or name the directory of an environment that the nodes have",
        )
    return replace(spec, python=found)


def active_environment(*, of_this_python: bool) -> str | None:
    """The environment that is active here. With `of_this_python` the one that this program runs in comes first: in a
    notebook it is what its author works with, while the command line may be installed in one of its own."""
    named = [os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX")]
    if of_this_python:
        named.insert(0, sys.prefix)
    for text in named:
        if text and os.path.isabs(text) and ":" not in text and _is_environment(path := Path(text)):
            return os.path.realpath(path)
    return None


def _is_environment(path: Path) -> bool:
    return (path / "pyvenv.cfg").is_file() or (path / "conda-meta").is_dir()


# ---- files


def _files(path: Path) -> PythonFiles:
    path = path.resolve()
    here = Path.cwd().resolve()
    root = here if here in path.parents else path.parent
    name = path.relative_to(root).as_posix()
    beside = path.parent.relative_to(root).as_posix()
    found = {name, *_present(root, beside, (_VERSION,))}
    if path.name == _LOCK:
        if not (path.parent / _PYPROJECT).is_file():
            raise InvalidSpec(f"python: {path} has no {_PYPROJECT} beside it", fix="uv needs both of them")
        found |= _present(root, beside, (_PYPROJECT,))
    elif path.name != _PYPROJECT:
        _follow(root, path, found)
    return PythonFiles(root, name, tuple(sorted(found)))


def _present(root: Path, folder: str, names: tuple[str, ...]) -> set[str]:
    paths = (name if folder == "." else f"{folder}/{name}" for name in names)
    return {path for path in paths if (root / path).is_file()}


def _follow(root: Path, path: Path, found: set[str]) -> None:
    """Adds what a list of requirements names: other lists, and packages that lie here."""
    ahead = [path]
    while ahead:
        current = ahead.pop()
        for option, target in _named(current.read_text(errors="replace")):
            place = Path(os.path.normpath((root if option in _LINKS else current.parent) / target))
            wanted = sorted(place.iterdir()) if option in _LINKS and place.is_dir() else [place]
            for item in wanted:
                if option in _LINKS and not item.name.endswith(_PACKAGES):
                    continue
                below = _below(root, current, item)
                if below not in found and option in _NESTED:
                    ahead.append(item)
                found.add(below)
        if len(found) > _FILES_MAX:
            raise InvalidSpec(
                f"python: {path.name} names more than {_FILES_MAX:,} files", fix="take them from an index"
            )


def _below(root: Path, source: Path, item: Path) -> str:
    if item.is_dir():
        raise InvalidSpec(
            f"python: {source.name} installs the directory {item}",
            fix="leave it out: the files of the project go with the job, which finds them by --env PYTHONPATH=. or in "
            "its directory; or build a wheel of it and name that",
        )
    if not item.is_file():
        raise InvalidSpec(f"python: {source.name} names {item}, which is not there", fix="correct the line")
    if root not in item.parents:
        raise InvalidSpec(
            f"python: {source.name} names {item}, which lies outside of {root}",
            fix="submit from a directory above both",
        )
    return item.relative_to(root).as_posix()


def _named(text: str) -> Iterator[tuple[str, str]]:
    """Options with the paths they name, and packages by their path, with "" as their option."""
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        option = _OPTION.fullmatch(line)
        kind, target = (option[1], option[2].strip().strip("\"'")) if option else ("", _package(line))
        if target and not _ELSEWHERE.match(target) and not target.startswith(("/", "file:")):
            yield kind, target


def _package(line: str) -> str:
    """The path in ./wheels/x.whl, or in x @ ./wheels/x.whl; empty for what comes from an index."""
    target = line.partition(" @ ")[2].strip() or line
    target = target.partition(";")[0].partition(" --")[0].strip()
    local = target in (".", "..") or target.startswith(("./", "../")) or target.endswith(_PACKAGES)
    return re.sub(r"\[[^]]*\]$", "", target) if local else ""
