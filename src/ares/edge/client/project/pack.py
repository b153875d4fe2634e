"""A directory as a project: its manifest, and where each part of it is found."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from ares.api.projects import PART_BYTES, ProjectEntry
from ares.core.project import write_manifest
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.digests import DigestMemory, OnBytes, changed, digest_all, read_part
from ares.edge.client.project.scan import FoundEntry, Scanned, named, not_a_project, scan

NONE: Final = "none"
# More than this is not read or sent without being asked for.
LIMIT_BYTES: Final = 256 << 20
# Bytes of one request. A part is never divided.
_REQUEST_BYTES: Final = PART_BYTES
_REQUEST_PARTS: Final = 2048
_LENGTH_BYTES: Final = 4
_LARGEST: Final = 3


class TooMuch(Struct, frozen=True):
    """New files that take more than the limit. `largest` names some of them."""

    root: str
    files: int
    size: int
    limit: int
    largest: tuple[tuple[str, int], ...]

    def sentence(self) -> str:
        shown = ", ".join(f"{path} ({size_text(size)})" for path, size in self.largest)
        return f"{self.root} has {self.files:,} new files of {size_text(self.size)}, the largest are {shown}"


# Whether to go on all the same.
Ask = Callable[[TooMuch], bool]


class Packed(Struct, frozen=True):
    """A project that is ready to be sent."""

    root: str
    manifest: bytes
    files: int
    size: int
    warnings: tuple[str, ...]
    # By digest: a file that has the part, and where in it.
    places: dict[str, tuple[FoundEntry, int]]

    def requests(self, missing: Iterable[str]) -> Iterator[tuple[str, ...]]:
        """Digests of parts that go together."""
        some, size = list[str](), 0
        for sha256 in missing:
            entry, at = self.places[sha256]
            own = min(PART_BYTES, entry.size - at)
            if some and (size + own > _REQUEST_BYTES or len(some) == _REQUEST_PARTS):
                yield tuple(some)
                some, size = [], 0
            some.append(sha256)
            size += own
        if some:
            yield tuple(some)

    def body(self, parts: Iterable[str]) -> bytes:
        """The parts as they are sent. Raises InvalidSpec when a file changed meanwhile."""
        pieces = list[bytes]()
        for sha256 in parts:
            data = read_part(self.root, *self.places[sha256])
            pieces += (len(data).to_bytes(_LENGTH_BYTES), data)
        return b"".join(pieces)

    def check(self, sent: tuple[str, ...], kept: tuple[str, ...]) -> None:
        """What the server has is what was read first. Raises InvalidSpec."""
        wrong = next((mine for mine, theirs in zip(sent, kept, strict=True) if mine != theirs), None)
        if wrong is not None:
            raise changed(self.places[wrong][0].path)


def directory_of(wish: str | os.PathLike[str] | None) -> Path | None:
    """The directory to ship. None: nothing. Raises InvalidSpec for one that is not there."""
    if wish is None or os.fspath(wish) == NONE:
        return None
    path = Path(os.path.expanduser(wish))
    if not path.is_dir():
        raise InvalidSpec(
            f"workdir {os.fspath(wish)!r} is no directory here",
            fix="name a directory of yours, or none; chdir is a directory of the machine the job runs on",
        )
    return path.resolve()


def default_directory() -> tuple[Path | None, str]:
    """The directory that is shipped when none is named; or None, and why."""
    if os.environ.get("ARES_SHIP", "") == "never":
        return None, ""
    try:
        here = Path.cwd()
    except OSError:
        return None, "the current directory is gone"
    why = not_a_project(here)
    return (None, why) if why else (here, "")


def pack(root: Path, *, limit: int = LIMIT_BYTES, ask: Ask | None = None, on_bytes: OnBytes = lambda _: None) -> Packed:
    """Reads what is new. Raises InvalidSpec when it cannot be shipped."""
    found = scan(root)
    return packed(found, DigestMemory(found.root), limit, ask, on_bytes)


def packed(found: Scanned, memory: DigestMemory | None, limit: int, ask: Ask | None, on_bytes: OnBytes) -> Packed:
    """Files that were found, ready to be sent. Without a memory all of them are read."""
    files = [entry for entry in found.entries if entry.kind == "file"]
    known = {entry.path: parts for entry in files if memory is not None and (parts := memory.of(entry)) is not None}
    fresh = [entry for entry in files if entry.path not in known]
    _ask_about(found, fresh, limit, ask)
    known |= digest_all(found.root, fresh, on_bytes)
    if memory is not None:
        memory.remember((entry, known[entry.path]) for entry in files)
    places: dict[str, tuple[FoundEntry, int]] = {}
    for entry in files:
        for number, part in enumerate(known[entry.path]):
            places.setdefault(part, (entry, number * PART_BYTES))
    manifest = write_manifest(tuple(_entry(entry, known.get(entry.path, ())) for entry in found.entries))
    size = sum(entry.size for entry in files)
    return Packed(found.root, manifest, len(files), size, found.warnings(), places)


def _ask_about(found: Scanned, fresh: list[FoundEntry], limit: int, ask: Ask | None) -> None:
    size = sum(entry.size for entry in fresh)
    if size <= limit:
        return
    largest = sorted(fresh, key=lambda entry: -entry.size)[:_LARGEST]
    much = TooMuch(found.root, len(fresh), size, limit, tuple((entry.path, entry.size) for entry in largest))
    if ask is None or not ask(much):
        raise InvalidSpec(
            f"{much.sentence()}; more than {size_text(limit)} is not shipped without being asked for",
            fix=f"leave {named([entry.path for entry in largest])} out by a line in .aresignore, "
            "say --yes or limit=, or ship nothing with --workdir none",
        )


def _entry(found: FoundEntry, parts: tuple[str, ...]) -> ProjectEntry:
    return ProjectEntry(
        path=found.path, kind=found.kind, mode=found.mode, size=found.size, parts=parts, link=found.link
    )


def size_text(size: int) -> str:
    """12 B, 3.4 KiB, 5.6 GiB."""
    amount, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{size:,} B" if unit == "B" else f"{amount:.1f} {unit}"
