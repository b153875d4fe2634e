"""The image of an attempt: found, fetched and unpacked on this node, and how the attempt runs in it."""

import asyncio
import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from ares.agent.staging.image_store import ImageStore, ImageTerms, LayerFiles, UnpackedImage, Wanted
from ares.agent.staging.stager import Stager, StagingFailed, TenantThreads, in_thread
from ares.agent.staging.unpack import NotWanted
from ares.agent.transfer.transfers import Transfers
from ares.api.projects import ProjectManifest
from ares.core.image import layout
from ares.core.image.account import account_of
from ares.core.image.layout import Descriptor, ImageConfig, ImageIndex, ImageManifest, RunConfig
from ares.core.image.reference import DirectoryImage, ImageFlaw, RegistryImage, parse
from ares.core.image.run import ImageUser, argv_of, environment_of, workdir_of
from ares.model.job import JobSpec
from ares.model.link import Start
from ares.model.secret import RegistryAccount
from ares.ports.executor import ImageFiles, Launch
from ares.ports.link import Registry, RegistryBarred, RegistryRefused, RegistryUnreachable

_BLOBS: Final = "blobs/sha256/"
_RESERVE_BYTES: Final = 256 << 20
# An index may name an index, once.
_NESTED_MAX: Final = 2
_ASKED_MAX: Final = 4
T = TypeVar("T")
_ROOT_USER: Final = ImageUser("root", "/root")


class NodeBars(Exception):
    """This node does not have that directory, or does not give it to jobs. Another one may."""


class StagedImage(msgspec.Struct, frozen=True):
    """An image that is ready on this node for one attempt."""

    root: str
    layer: str
    run: RunConfig
    user: ImageUser
    # Called when no process of the attempt is left.
    release: Callable[[], None]

    def dress(self, launch: Launch, spec: JobSpec) -> Launch:
        """The launch in the image: as `docker run` would, with the job's own files where it has any."""
        try:
            argv = argv_of(self.run, launch.argv)
            workdir = "" if spec.project or spec.workdir else workdir_of(self.run)
        except ImageFlaw as flaw:
            raise StagingFailed(f"the image cannot be run: {flaw}", lasting=True) from None
        env = environment_of(self.run, self.user, launch.env, spec.env)
        files = ImageFiles(self.root, self.layer, self.user.home, workdir)
        return msgspec.structs.replace(launch, argv=argv, env=env, cwd=workdir or launch.cwd, image=files)


class Images:
    """One for all attempts of a node."""

    def __init__(
        self,
        store: ImageStore,
        stager: Stager | None,
        registry: Registry | None,
        terms: ImageTerms,
        transfers: Transfers,
    ) -> None:
        self._store = store
        self._transfers = transfers
        self._stager = stager
        self._registry = registry
        self._terms = terms
        self._machine = platform.machine()
        self._threads = TenantThreads(_ASKED_MAX)

    async def stage(self, start: Start, layer: str, uid: int | None, wanted: Wanted) -> StagedImage:
        """Raises StagingFailed, and NotWanted when the attempt is to end."""
        wish = start.spec.image
        assert wish is not None, "only a job with an image is staged so"
        try:
            found = parse(wish.ref)
            if isinstance(found, DirectoryImage):
                root = await self._threads.look(start.ref.tenant, lambda: _directory(found.path, self._terms))
                return StagedImage(root, layer, RunConfig(), _ROOT_USER, _nothing)
            if isinstance(found, RegistryImage):
                return await self._from_registry(start, found, layer, uid, wanted)
            return await self._shipped(start, wish.project or "", layer, uid, wanted)
        except (ImageFlaw, RegistryRefused) as flaw:
            raise StagingFailed(f"image {wish.ref} cannot be used: {flaw}", lasting=True) from None
        except (NodeBars, RegistryBarred) as barred:
            raise StagingFailed(f"image {wish.ref} cannot be used: {barred}") from None
        except RegistryUnreachable as error:
            raise StagingFailed(f"image {wish.ref} cannot be fetched now: {error}") from None
        except OSError as error:
            raise StagingFailed(f"image {wish.ref} cannot be unpacked here: {error.strerror or error}") from None

    # ---- where it comes from

    async def _shipped(self, start: Start, project: str, layer: str, uid: int | None, wanted: Wanted) -> StagedImage:
        if self._stager is None:
            raise StagingFailed("this node cannot fetch the files of an image")
        async with self._stager.fetched(start, project, wanted) as (manifest, cached):
            source = _Layout(manifest, cached)
            digest, image = await in_thread(lambda: self._resolved(source.document("index.json"), source.blob))
            return await self._unpacked(start, digest, image, layer, uid, wanted, source.files)

    async def _from_registry(
        self, start: Start, ref: RegistryImage, layer: str, uid: int | None, wanted: Wanted
    ) -> StagedImage:
        registry = self._registry
        if registry is None:
            raise StagingFailed("this node fetches no images from registries")
        if (account := _account(start, ref.host)) is not None:
            registry = registry.signed_in(account)

        if ref.digest and (kept := await self._kept(start, ref.digest, layer, uid)) is not None:
            return kept

        def resolve() -> tuple[str, ImageManifest]:
            first = registry.manifest(ref.host, ref.name, ref.version)
            if ref.digest and layout.digest_of(first) != ref.digest:
                raise ImageFlaw(f"it came with the digest {layout.digest_of(first)}")
            return self._resolved(first, lambda wanted: registry.manifest(ref.host, ref.name, wanted.digest))

        tenant, transfers, loop = start.ref.tenant, self._transfers, asyncio.get_running_loop()

        def came(size: int) -> bool:
            transfers.take_in_thread(loop, tenant, "image", size, wanted)
            return wanted()

        async with transfers.turn(tenant, ref.host, job=start.ref.job, failures=(RegistryUnreachable,)):
            digest, manifest = await self._threads.run(tenant, resolve)
        fetched = _Download(registry, ref, self._store.folder(tenant, digest).parent, came)
        with contextlib.closing(fetched):
            try:
                return await self._unpacked(start, digest, manifest, layer, uid, wanted, fetched.files)
            except RegistryUnreachable:
                transfers.ended(tenant, ref.host, ok=False)
                raise

    def _resolved(self, raw: bytes, read: Callable[[Descriptor], bytes]) -> tuple[str, ImageManifest]:
        """The manifest for this machine, and its digest. Raises ImageFlaw."""
        found, digest = layout.read_manifest(raw), layout.digest_of(raw)
        for _ in range(_NESTED_MAX):
            if isinstance(found, ImageManifest):
                return digest, found
            wanted = layout.choose(found, self._machine)
            raw = _checked(wanted, read(wanted))
            found, digest = layout.read_manifest(raw), wanted.digest
        if isinstance(found, ImageIndex):
            raise ImageFlaw("its index leads to another and another")
        return digest, found

    # ---- into the cache

    async def _kept(self, start: Start, digest: str, layer: str, uid: int | None) -> StagedImage | None:
        """An image of this very digest that is here already: its registry need not be asked."""
        tenant, store = start.ref.tenant, self._store
        with contextlib.ExitStack() as pin:
            pin.enter_context(store.pinned(tenant, digest))
            async with store.turn(tenant, digest):
                image = await store.find(tenant, digest, uid)
            if image is None:
                return None
            return StagedImage(store.root(tenant, digest), layer, image.run, image.user, pin.pop_all().close)

    async def _unpacked(
        self,
        start: Start,
        digest: str,
        manifest: ImageManifest,
        layer: str,
        uid: int | None,
        wanted: Wanted,
        files: Callable[[Descriptor], tuple[str, ...]],
    ) -> StagedImage:
        tenant, store = start.ref.tenant, self._store
        pin = contextlib.ExitStack()
        pin.enter_context(store.pinned(tenant, digest))
        try:
            async with store.turn(tenant, digest):
                image = await store.find(tenant, digest, uid)
                if image is None:
                    image = await self._add(tenant, digest, manifest, uid, wanted, files)
        except BaseException:
            pin.close()
            raise
        return StagedImage(store.root(tenant, digest), layer, image.run, image.user, pin.close)

    async def _add(
        self,
        tenant: str,
        digest: str,
        manifest: ImageManifest,
        uid: int | None,
        wanted: Wanted,
        files: Callable[[Descriptor], tuple[str, ...]],
    ) -> UnpackedImage:
        limit = self._store.limits.image_bytes_max
        if (size := sum(blob.size for blob in manifest.layers)) > limit:
            raise ImageFlaw(f"its layers take {size:,} bytes, at most {limit:,} are taken")
        parent = self._store.folder(tenant, digest).parent
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = shutil.disk_usage(parent).free
        # Packed and unpacked, which is twice as much as a rule.
        if free - 3 * size < _RESERVE_BYTES:
            raise StagingFailed(
                f"the image needs about {3 * size >> 20:,} MiB of this node's disk, and {free >> 20:,} MiB are free"
            )

        def fetch() -> tuple[ImageConfig, list[LayerFiles]]:
            raw = b"".join(Path(path).read_bytes() for path in files(manifest.config))
            config = layout.read_config(_checked(manifest.config, raw), self._machine)
            layers = list[LayerFiles]()
            for blob, diff_id in layout.layers_of(manifest, config):
                if not wanted():
                    raise NotWanted
                layers.append(LayerFiles(files(blob), blob.digest, blob.size, diff_id))
            return config, layers

        config, layers = await self._threads.run(tenant, fetch)
        return await self._store.add(tenant, digest, config, layers, uid, wanted)


def _account(start: Start, host: str) -> RegistryAccount | None:
    given = next((secret for secret in start.secrets if secret.registry == host), None)
    return None if given is None else account_of(given.value.reveal(), given.name, host)


def _nothing() -> None:
    return


def _checked(wanted: Descriptor, raw: bytes) -> bytes:
    if (found := layout.digest_of(raw)) != wanted.digest:
        raise ImageFlaw(f"{wanted.digest} came with the digest {found}")
    return raw


def _directory(path: str, terms: ImageTerms) -> str:
    """An unpacked image of this machine, if the operator lets jobs use it."""
    real = os.path.realpath(path)
    if not any(_below(real, os.path.realpath(root)) for root in terms.roots):
        allowed = ", ".join(terms.roots) or "none"
        raise NodeBars(f"the node lets jobs use directories below these as images: {allowed} (node.images.roots)")
    if any(_below(os.path.realpath(own), real) or _below(real, os.path.realpath(own)) for own in terms.own):
        raise NodeBars("it holds files of Ares itself")
    if not os.path.isdir(real):
        raise NodeBars("there is no such directory on the node")
    return real


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


class _Layout:
    """An image that was shipped: an OCI layout in parts of files."""

    def __init__(self, manifest: ProjectManifest, cached: Path) -> None:
        self._cached = cached
        self._entries: Mapping[str, tuple[int, tuple[str, ...]]] = {
            entry.path: (entry.size, entry.parts) for entry in manifest.entries if entry.kind == "file"
        }

    def document(self, path: str) -> bytes:
        size, parts = self._entries.get(path, (0, ()))
        if not 0 < size <= layout.DOCUMENT_BYTES_MAX:
            raise ImageFlaw(f"its {path} is missing, or takes more than {layout.DOCUMENT_BYTES_MAX:,} bytes")
        return b"".join((self._cached / part).read_bytes() for part in parts)

    def blob(self, wanted: Descriptor) -> bytes:
        return self.document(_path(wanted))

    def files(self, wanted: Descriptor) -> tuple[str, ...]:
        if _path(wanted) not in self._entries:
            raise ImageFlaw(f"{wanted.digest} is not among its files")
        return tuple(f"{self._cached}/{part}" for part in self._entries[_path(wanted)][1])


def _path(wanted: Descriptor) -> str:
    return f"{_BLOBS}{wanted.digest.removeprefix('sha256:')}"


class _Download:
    """Blobs of a registry, as files that go when the image is unpacked."""

    def __init__(self, registry: Registry, image: RegistryImage, folder: Path, came: Callable[[int], bool]) -> None:
        self._came = came
        self._registry = registry
        self._image = image
        self._above = folder
        self._folder: Path | None = None

    def files(self, wanted: Descriptor) -> tuple[str, ...]:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=".draft-blobs-", dir=self._above))
        path = self._folder / wanted.digest.removeprefix("sha256:")
        if not path.exists():
            self._registry.save(self._image.host, self._image.name, wanted.digest, wanted.size, path, self._came)
        return (str(path),)

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
