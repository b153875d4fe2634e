"""What an image says of itself: its index, manifest and configuration, as OCI and Docker write them. Nothing of it is
believed: every number is bounded, and every digest is compared with what came."""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, field

from ares.core.image.reference import ImageFlaw

DOCUMENT_BYTES_MAX: Final = 4 << 20
LAYERS_MAX: Final = 256
BLOB_BYTES_MAX: Final = 1 << 40
Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$(?!\n)")]
_Text = Annotated[str, Meta(max_length=65_536)]
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
)  # fmt: skip
Kind = Literal["index", "manifest"]


class Platform(msgspec.Struct, frozen=True):
    architecture: _Text = ""
    os: _Text = ""

    @property
    def text(self) -> str:
        return f"{self.os or 'linux'}/{self.architecture or 'unknown'}"


class Descriptor(msgspec.Struct, frozen=True):
    digest: Digest
    size: Annotated[int, Meta(ge=0, le=BLOB_BYTES_MAX)]
    media_type: _Text = field(name="mediaType", default="")
    platform: Platform | None = None


class ImageIndex(msgspec.Struct, frozen=True):
    manifests: Annotated[tuple[Descriptor, ...], Meta(max_length=1000)]


class ImageManifest(msgspec.Struct, frozen=True):
    config: Descriptor
    layers: Annotated[tuple[Descriptor, ...], Meta(max_length=LAYERS_MAX)]


class RunConfig(msgspec.Struct, frozen=True):
    """How the image wants to be run."""

    entrypoint: tuple[_Text, ...] | None = field(name="Entrypoint", default=None)
    cmd: tuple[_Text, ...] | None = field(name="Cmd", default=None)
    env: tuple[_Text, ...] | None = field(name="Env", default=None)
    workdir: _Text | None = field(name="WorkingDir", default=None)
    user: _Text | None = field(name="User", default=None)


class RootFiles(msgspec.Struct, frozen=True):
    # Digests of the layers as they are when unpacked.
    diff_ids: Annotated[tuple[Digest, ...], Meta(max_length=LAYERS_MAX)] = ()


class ImageConfig(msgspec.Struct, frozen=True):
    architecture: _Text = ""
    os: _Text = "linux"
    config: RunConfig | None = None
    rootfs: RootFiles = RootFiles()


T = TypeVar("T", ImageIndex, ImageManifest, ImageConfig)


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def read_manifest(raw: bytes) -> ImageIndex | ImageManifest:
    """Raises ImageFlaw."""
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise ImageFlaw(f"its manifest takes {len(raw):,} bytes, at most {DOCUMENT_BYTES_MAX:,} are taken")
    return _read(raw, ImageIndex, "index") if b'"manifests"' in raw else _read(raw, ImageManifest, "manifest")


def read_config(raw: bytes, machine: str) -> ImageConfig:
    """The configuration of an image that this machine can run. Raises ImageFlaw."""
    found = _read(raw, ImageConfig, "configuration")
    wanted = platform_of(machine)
    if (found.os, found.architecture) != (wanted.os, wanted.architecture):
        own = Platform(found.architecture, found.os)
        raise ImageFlaw(f"it is made for {own.text}, and this node is {wanted.text}")
    return found


def _read(raw: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ImageFlaw(f"its {what} cannot be read: {str(error)[:300]}") from None


def platform_of(machine: str) -> Platform:
    return Platform(_MACHINES.get(machine, machine), "linux")


def choose(index: ImageIndex, machine: str) -> Descriptor:
    """The image for this machine. Raises ImageFlaw that names those there are."""
    wanted = platform_of(machine)
    fitting = [found for found in index.manifests if found.platform in (None, wanted) or _same(found.platform, wanted)]
    if fitting:
        # One that says so rather than one that says nothing.
        return next((found for found in fitting if found.platform is not None), fitting[0])
    there = ", ".join(sorted({found.platform.text for found in index.manifests if found.platform is not None}))
    raise ImageFlaw(f"it has nothing for {wanted.text}, only for {there or 'no machine at all'}")


def _same(found: Platform | None, wanted: Platform) -> bool:
    return found is not None and (found.os, found.architecture) == (wanted.os, wanted.architecture)


def layers_of(manifest: ImageManifest, config: ImageConfig) -> Sequence[tuple[Descriptor, str]]:
    """Every layer with the digest it has unpacked. Raises ImageFlaw."""
    if len(manifest.layers) != len(config.rootfs.diff_ids):
        raise ImageFlaw(f"it has {len(manifest.layers)} layers and {len(config.rootfs.diff_ids)} digests for them")
    return tuple(zip(manifest.layers, config.rootfs.diff_ids, strict=True))
