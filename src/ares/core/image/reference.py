"""What a job may name as its image, from its text to its parts."""

import re
from typing import Final, Literal

import msgspec

# Of the submitter's machine: such an image is shipped with the job.
Shipped = Literal["oci-archive", "docker-archive", "oci"]
SHIPPED: Final[tuple[Shipped, ...]] = ("oci-archive", "docker-archive", "oci")
FORMS: Final = (
    "docker://host/name:tag, oci-archive:FILE, docker-archive:FILE, oci:DIRECTORY or dir:/DIRECTORY-OF-THE-NODE"
)
_HUB: Final = "docker.io"
_HOST: Final = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII
)
_NAME: Final = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*", re.ASCII)
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_NAME_CHARS_MAX: Final = 255


class ImageFlaw(Exception):
    """Why an image cannot be used, in words."""


class RegistryImage(msgspec.Struct, frozen=True, gc=False):
    """An image that its node fetches. `version` is a tag or a digest."""

    # As people write it, with the port if one was given: what the operator allows, and where to connect.
    host: str
    name: str
    tag: str
    digest: str = ""

    @property
    def version(self) -> str:
        return self.digest or self.tag


class ShippedImage(msgspec.Struct, frozen=True, gc=False):
    """A file or a directory of the submitter's machine."""

    kind: Shipped
    path: str


class DirectoryImage(msgspec.Struct, frozen=True, gc=False):
    """An unpacked root directory of the node's machine."""

    path: str


Reference = RegistryImage | ShippedImage | DirectoryImage


def parse(text: str) -> Reference:
    """Raises ImageFlaw."""
    scheme, colon, rest = text.partition(":")
    if text.startswith("docker://"):
        return _registry(text.removeprefix("docker://"))
    if colon and scheme in SHIPPED:
        if not rest:
            raise ImageFlaw(f"{text!r} names no file")
        return ShippedImage(kind=scheme, path=rest)
    if colon and scheme == "dir":
        if not rest.startswith("/") or {"", ".", ".."} & set(rest[1:].rstrip("/").split("/")):
            raise ImageFlaw(f"{rest!r} is no directory of a node, written out in full from / on")
        return DirectoryImage(path=rest.rstrip("/"))
    raise ImageFlaw(f"{text[:200]!r} is no image: write {FORMS}")


def _registry(text: str) -> RegistryImage:
    named, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ImageFlaw(f"{digest[:100]!r} is no digest: sha256: and 64 hexadecimal digits are")
    first, slash, rest = named.partition("/")
    # As everywhere: the first part is a host if it looks like one.
    if slash and ("." in first or ":" in first or first == "localhost"):
        host, path = first, rest
    else:
        host, path = _HUB, named
    name, colon, tag = path.partition(":")
    if host == _HUB and "/" not in name:
        name = f"library/{name}"
    if not _HOST.fullmatch(host):
        raise ImageFlaw(f"{host[:200]!r} is no host of a registry")
    if not _NAME.fullmatch(name) or len(name) > _NAME_CHARS_MAX:
        raise ImageFlaw(f"{name[:200]!r} is no name of an image: lower-case letters, digits and . _ - / between them")
    if colon and not _TAG.fullmatch(tag):
        raise ImageFlaw(f"{tag[:100]!r} is no tag of an image")
    return RegistryImage(host=host, name=name, tag=tag or "latest", digest=digest)
