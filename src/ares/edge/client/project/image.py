"""A container image of this machine on its way to a job: an archive or a directory as the files of an OCI layout.

Every layer is a file of its own, so that a layer which the server has is not sent again, whatever image it came in."""

import contextlib
import hashlib
import json
import os
import posixpath
import tarfile
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

from ares.core.image.layout import DOCUMENT_BYTES_MAX, ImageIndex, digest_of, read_manifest
from ares.core.image.reference import ImageFlaw, ShippedImage
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.digests import DigestMemory, OnBytes, cache_home
from ares.edge.client.project.pack import Ask, Packed, packed
from ares.edge.client.project.scan import FoundEntry, Scanned

_INDEX: Final = "index.json"
_LAYOUT: Final = "oci-layout"
_DOCKER: Final = "manifest.json"
_BLOBS: Final = "blobs/sha256"
_PIECE: Final = 1 << 20
_VERSION: Final = b'{"imageLayoutVersion":"1.0.0"}'

# Reads a file of the archive or directory by its name; None when it is not there.
Open = Callable[[str], IO[bytes] | None]


def known_manifest(image: ShippedImage) -> bytes | None:
    """The manifest of an archive that was shipped before and did not change since: it need not be read again."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        stamp, manifest = msgspec.msgpack.decode(_memory(image).read_bytes(), type=tuple[str, bytes])
        if stamp == _stamp(image):
            return manifest
    return None


def remember_manifest(image: ShippedImage, manifest: bytes) -> None:
    with contextlib.suppress(OSError):
        path = _memory(image)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(msgspec.msgpack.encode((_stamp(image), manifest)))


def _memory(image: ShippedImage) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.abspath(os.path.expanduser(image.path)))).hexdigest()[:32]
    return cache_home() / "ares" / "images" / name


def _stamp(image: ShippedImage) -> str:
    seen = os.stat(os.path.expanduser(image.path))
    # A directory changes below without a new time of its own.
    return f"{seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {seen.st_ino}" if image.kind != "oci" else ""


@contextlib.contextmanager
def packed_image(image: ShippedImage, limit: int, ask: Ask | None, on_bytes: OnBytes) -> Generator[Packed]:
    """The image, ready to be sent during the block. Raises InvalidSpec."""
    path = Path(os.path.expanduser(image.path))
    try:
        if image.kind == "oci":
            if not path.is_dir():
                raise InvalidSpec(f"{image.path} is no directory here", fix="name an OCI layout directory of yours")
            names = _of_layout(lambda name: _open(path / name))
            found = _scanned(str(path.resolve()), names)
            yield packed(found, DigestMemory(found.root), limit, ask, on_bytes)
            return
        with tempfile.TemporaryDirectory(prefix="ares-image-") as folder, tarfile.open(path) as archive:
            names = _unpacked(archive, Path(folder))
            yield packed(_scanned(folder, names), None, limit, ask, on_bytes)
    except (OSError, tarfile.TarError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InvalidSpec(f"image {image.path} cannot be read: {why}", fix="name an archive of yours") from error
    except (ImageFlaw, msgspec.MsgspecError, ValueError, KeyError, TypeError) as flaw:
        raise InvalidSpec(
            f"{image.path} is no image that can be used: {flaw}", fix="write it with `docker save` or `skopeo copy`"
        ) from flaw


# ---- what belongs to it


def _of_layout(read: Open) -> list[str]:
    """Names of all files that the index leads to."""
    names, ahead = [_INDEX], [(_INDEX, True)]
    while ahead:
        name, document = ahead.pop()
        if not document:
            continue
        found = read_manifest(_document(read, name))
        below = (
            [(blob, True) for blob in found.manifests]
            if isinstance(found, ImageIndex)
            else [(blob, False) for blob in (found.config, *found.layers)]
        )
        for blob, whole in below:
            path = f"{_BLOBS}/{blob.digest.removeprefix('sha256:')}"
            if path not in names:
                names.append(path)
                ahead.append((path, whole))
    return names


def _document(read: Open, name: str) -> bytes:
    file = read(name)
    if file is None:
        raise ImageFlaw(f"it has no {name}")
    with file:
        return file.read(DOCUMENT_BYTES_MAX + 1)


def _open(path: Path) -> IO[bytes] | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _scanned(root: str, names: list[str]) -> Scanned:
    folders = [FoundEntry(name, "dir", 0o755) for name in ("blobs", _BLOBS)]
    return Scanned(root, sorted((*folders, *(_found(root, name) for name in names)), key=lambda entry: entry.path))


def _found(root: str, name: str) -> FoundEntry:
    seen = os.stat(f"{root}/{name}")
    stamp = (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)
    return FoundEntry(name, "file", 0o644, seen.st_size, stamp=stamp)


# ---- archives


def _unpacked(archive: tarfile.TarFile, folder: Path) -> list[str]:
    """Writes the files of the image, and says their names. Whatever the archive calls them, they have no other."""
    members = {posixpath.normpath(member.name): member for member in archive.getmembers()}

    def read(name: str) -> IO[bytes] | None:
        member = members.get(name)
        for _ in range(2):
            # Older versions of docker write a layer that is there twice as a link.
            if member is not None and member.issym():
                place = posixpath.join(posixpath.dirname(member.name), member.linkname)
                member = members.get(posixpath.normpath(place))
        return None if member is None or not member.isfile() else archive.extractfile(member)

    (folder / _BLOBS).mkdir(parents=True)
    if _INDEX in members:
        names = _of_layout(read)
        for name in names:
            _copy(read, name, folder / name)
    elif _DOCKER in members:
        names = _from_docker(read, folder)
    else:
        raise ImageFlaw(f"it has neither {_INDEX} nor {_DOCKER}")
    (folder / _LAYOUT).write_bytes(_VERSION)
    return [*names, _LAYOUT]


def _copy(read: Open, name: str, path: Path) -> tuple[str, int]:
    """Digest and size of what was copied."""
    source, sha256, size = read(name), hashlib.sha256(), 0
    if source is None:
        raise ImageFlaw(f"it has no {name}")
    with source, path.open("wb") as target:
        while data := source.read(_PIECE):
            target.write(data)
            sha256.update(data)
            size += len(data)
    return sha256.hexdigest(), size


def _from_docker(read: Open, folder: Path) -> list[str]:
    """An archive that `docker save` wrote, as a layout."""
    saved = json.loads(_document(read, _DOCKER))
    if not isinstance(saved, list) or len(cast("list[Any]", saved)) != 1:
        raise ImageFlaw("it holds several images, or none: save one")
    only = cast("dict[str, Any]", saved[0])
    blobs = list[str]()

    def kept(name: str) -> dict[str, Any]:
        digest, size = _copy(read, name, folder / "draft")
        (folder / "draft").rename(folder / _BLOBS / digest)
        blobs.append(f"{_BLOBS}/{digest}")
        return {"digest": f"sha256:{digest}", "size": size}

    manifest: dict[str, Any] = {"schemaVersion": 2, "config": kept(str(only["Config"]))}
    manifest["layers"] = [kept(str(name)) for name in only["Layers"]]
    raw = json.dumps(manifest).encode()
    digest = digest_of(raw)
    blobs.append(f"{_BLOBS}/{digest.removeprefix('sha256:')}")
    (folder / blobs[-1]).write_bytes(raw)
    index = {"schemaVersion": 2, "manifests": [{"digest": digest, "size": len(raw)}]}
    (folder / _INDEX).write_text(json.dumps(index))
    return [_INDEX, *dict.fromkeys(blobs)]
