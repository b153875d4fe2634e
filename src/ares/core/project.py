"""Whether a manifest describes a tree of files that can be unpacked safely. Its sender is not believed."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ares.api.projects import PART_BYTES, ProjectEntry, ProjectManifest
from ares.model.base import Sha256

PATH_BYTES_MAX = 1024
# It goes to agents in one message.
MANIFEST_BYTES_MAX = 12 << 20
NAME_BYTES_MAX = 255
DEPTH_MAX = 64
_decode = msgspec.json.Decoder(ProjectManifest).decode
_encode = msgspec.json.Encoder().encode


class ManifestFlaw(Exception):
    """Why it is no manifest of a project, in words."""


def read_manifest(raw: bytes, bytes_max: int) -> ProjectManifest:
    """Raises ManifestFlaw."""
    if len(raw) > MANIFEST_BYTES_MAX:
        raise ManifestFlaw(f"its manifest takes {len(raw):,} bytes, at most {MANIFEST_BYTES_MAX:,} are taken")
    try:
        found = _decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ManifestFlaw(f"it cannot be read: {str(error)[:300]}") from None
    if flaw := manifest_flaw(found, bytes_max):
        raise ManifestFlaw(flaw)
    return found


def write_manifest(entries: tuple[ProjectEntry, ...]) -> bytes:
    return _encode(ProjectManifest(entries=entries))


def manifest_flaw(manifest: ProjectManifest, bytes_max: int) -> str:
    """What is wrong with it, in words; empty when nothing is."""
    total, before, folders = 0, "", {""}
    for entry in manifest.entries:
        if entry.path <= before:
            return f"{entry.path[:200]!r} is not in order, or is there twice"
        if flaw := _entry_flaw(entry, folders):
            return f"{entry.path[:200]!r}: {flaw}"
        if entry.kind == "dir":
            folders.add(entry.path)
        before, total = entry.path, total + entry.size
        if total > bytes_max:
            return f"its files take more than {bytes_max:,} bytes, the limit"
    return ""


def path_flaw(path: str) -> str:
    """What is wrong with a path below the project's directory. It may hold no name that leads elsewhere, and nothing
    that drives a terminal."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    if not path.isprintable():
        return "its name has characters that cannot be printed"
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names):
        return "its path is not one of plain names"
    if size > PATH_BYTES_MAX:
        return f"its path takes {size:,} bytes, at most {PATH_BYTES_MAX:,} are taken"
    if len(names) > DEPTH_MAX:
        return f"directories are nested {len(names)} deep, at most {DEPTH_MAX} are taken"
    if any(len(name.encode()) > NAME_BYTES_MAX for name in names):
        return f"a name in it takes more than {NAME_BYTES_MAX} bytes"
    return ""


def link_flaw(path: str, target: str) -> str:
    """What is wrong with where a symbolic link leads. It stays below the project's directory."""
    if not target or not target.isprintable() or len(target.encode("utf-8", "replace")) > PATH_BYTES_MAX:
        return "the link leads to no path that can be taken"
    if target.startswith("/"):
        return f"the link leads to {target}, out of the project"
    depth = path.count("/")
    for name in target.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(name, 1)
        if depth < 0:
            return f"the link leads to {target}, out of the project"
    return ""


def parts_of(manifest: ProjectManifest) -> Iterator[tuple[Sha256, int]]:
    """Every part of every file, with its size."""
    for entry in manifest.entries:
        left = entry.size
        for part in entry.parts:
            yield part, min(PART_BYTES, left)
            left -= PART_BYTES


class PartPlace(NamedTuple):
    """Where the bytes of a part belong."""

    path: str
    at: int
    size: int


def places_of(manifest: ProjectManifest) -> dict[Sha256, list[PartPlace]]:
    """All places of each part: equal bytes may be in several files, and several times in one."""
    found: dict[Sha256, list[PartPlace]] = {}
    for entry in manifest.entries:
        for number, part in enumerate(entry.parts):
            at = number * PART_BYTES
            found.setdefault(part, []).append(PartPlace(entry.path, at, min(PART_BYTES, entry.size - at)))
    return found


def _entry_flaw(entry: ProjectEntry, folders: set[str]) -> str:
    if flaw := path_flaw(entry.path):
        return flaw
    if entry.path.rpartition("/")[0] not in folders:
        return "the directory it is in is not in the manifest"
    if entry.kind == "link":
        if entry.size or entry.parts:
            return "a link has no bytes"
        return link_flaw(entry.path, entry.link)
    if entry.link:
        return "only a link leads elsewhere"
    if entry.kind == "dir":
        return "a directory has no bytes" if entry.size or entry.parts else ""
    wanted = -(-entry.size // PART_BYTES)
    return "" if len(entry.parts) == wanted else f"{entry.size:,} bytes have {wanted:,} parts, not {len(entry.parts):,}"
