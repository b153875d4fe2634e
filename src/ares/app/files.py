"""Where a server keeps the files of jobs: its disks, what is reserved and what tenants may hold there, or a bucket."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from ares.adapters.blobs.files import FileBlobs
from ares.adapters.disk import DiskShares, Reserve, TenantRoom
from ares.adapters.projects import FileProjects
from ares.api.projects import ProjectManifest
from ares.app.config import Config, ConfigError
from ares.core.project import parts_of
from ares.model.base import AttemptRef
from ares.model.state import OutputFile
from ares.ports.blobs import Blobs, SignedReads
from ares.ports.clock import Clock
from ares.ports.projects import ProjectFiles

if TYPE_CHECKING:
    from ares.adapters.objects.bucket import Bucket
    from ares.adapters.objects.signing import StoreCredentials

log = structlog.get_logger()

# How often an object store is tried out. What it serves meanwhile tells more.
_PROVE_EVERY_S = 300.0
_PROVE_AGAIN_S = 10.0
_READ_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ServerDisks:
    """`ports.disk.Reserves`, and the room that each kind of file has."""

    home: TenantRoom
    logs: TenantRoom
    outputs: TenantRoom
    # Of files on their way to an object store.
    spool: TenantRoom
    reserves: tuple[tuple[str, Reserve], ...]

    def short(self) -> str:
        """The first of its disks on which less is left than is reserved, in words; empty when there is none."""
        return next((f"{where}: {lacking}" for where, reserve in self.reserves if (lacking := reserve.short())), "")


def rooms_of(config: Config) -> ServerDisks:
    limits = config.limits
    paths = {"home": config.home_path, "logs": config.logs_path, "outputs": config.outputs_path}
    for path in paths.values():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    reserves = {name: Reserve(path, limits.disk_reserve_mib, limits.disk_reserve_files) for name, path in paths.items()}
    logs = DiskShares(config.logs_path, limits.tenant_log_mib_max, limits.tenant_files_max)
    outputs, spool = (
        DiskShares(path, limits.tenant_output_mib_max, limits.tenant_files_max)
        for path in (config.outputs_path, spool_of(config))
    )
    return ServerDisks(
        home=TenantRoom(reserves["home"]),
        logs=TenantRoom(reserves["logs"], logs),
        outputs=TenantRoom(reserves["outputs"], outputs),
        spool=TenantRoom(reserves["home"], spool),
        reserves=tuple(reserves.items()),
    )


def spool_of(config: Config) -> Path:
    return config.home_path / "spool"


@dataclass(slots=True)
class KeptFiles:
    """`bucket` is None where files are kept on disk."""

    blobs: Blobs
    projects: ProjectFiles
    bucket: "Bucket | None" = None
    signed: SignedReads | None = None
    # What was wrong when the store was last tried out.
    wrong: str = ""

    async def open(self) -> None:
        """Tries the store out. One that does not answer now may do so later."""
        if self.bucket is not None:
            self.wrong = await self.bucket.prove()
            if self.wrong:
                log.error("objects.unusable", origin=self.bucket.origin, bucket=self.bucket.name, why=self.wrong)
            elif not self.bucket.compares:
                log.warning("objects.read_back", origin=self.bucket.origin, why="it takes bytes of another digest")

    async def run(self, clock: Clock) -> None:
        while self.bucket is not None:
            await clock.sleep(_PROVE_AGAIN_S if self.wrong else _PROVE_EVERY_S)
            await self.open()

    async def close(self) -> None:
        if self.bucket is not None:
            await self.bucket.close()

    def facts(self) -> Mapping[str, str]:
        """For `/readyz`."""
        if self.bucket is None:
            return {}
        where = f"{self.bucket.origin}/{self.bucket.name}"
        compares = "compares digests" if self.bucket.compares else "takes bytes of another digest: files are read back"
        return {"objects": where, "objects_trouble": self.wrong or self.bucket.trouble, "objects_digests": compares}


def files_of(config: Config, disks: ServerDisks) -> KeptFiles:
    if not config.objects.endpoint:
        # Where the name of the directory is remembered.
        known = config.home_path / "outputs.id"
        return KeptFiles(
            FileBlobs(config.outputs_path, disks.outputs, known),
            FileProjects(config.outputs_path, disks.outputs, known),
        )
    from ares.adapters.objects.blobs import ObjectBlobs
    from ares.adapters.objects.projects import ObjectProjects
    from ares.adapters.objects.room import BucketRoom
    from ares.adapters.objects.urls import ObjectUrls

    bucket = bucket_of(config)
    room = BucketRoom(bucket, config.limits.tenant_output_mib_max, config.limits.tenant_files_max)
    blobs = ObjectBlobs(bucket, spool_of(config), room, disks.spool)
    signed = ObjectUrls(bucket) if config.objects.direct else None
    return KeptFiles(blobs, ObjectProjects(bucket, room), bucket, signed)


def bucket_of(config: Config) -> "Bucket":
    from ares.adapters.objects.bucket import Bucket

    given = config.objects
    for name, value in (("bucket", given.bucket), ("credentials_file", given.credentials_file)):
        if not value:
            raise ConfigError(f"objects.endpoint is set, and objects.{name} is not", "see docs/guides/object-store.md")
    credentials = _credentials(Path(given.credentials_file), given.region)
    return Bucket(
        given.endpoint, given.bucket, credentials, prefix=given.prefix and f"{given.prefix.strip('/')}/",
        public_origin=given.public_endpoint,
    )  # fmt: skip


def _credentials(path: Path, region: str) -> "StoreCredentials":
    from ares.adapters.objects.signing import StoreCredentials

    fix = "objects.credentials_file names a file of two lines: the access key's id, and its secret"
    try:
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", fix) from None
    if len(lines) != 2:
        raise ConfigError(f"{path} has {len(lines)} lines", fix)
    return StoreCredentials(lines[0], lines[1], region)


# ---- for `ares verify`


def object_flaw(config: Config, ref: AttemptRef, file: OutputFile) -> str:
    """What is wrong with a sealed object, in words; empty when it is as it was committed."""
    from ares.adapters.objects.blobs import blob_key

    return asyncio.run(_flaw(bucket_of(config), blob_key(ref, file.sha256), file.size, file.sha256))


def object_project_flaw(config: Config, tenant: str, sha256: str) -> str:
    """The same of a project or a dataset, with all of its parts."""
    return asyncio.run(_project_flaw(bucket_of(config), tenant, sha256))


async def _project_flaw(bucket: "Bucket", tenant: str, sha256: str) -> str:
    from ares.adapters.objects.projects import manifest_key, part_key

    try:
        raw = await bucket.read(manifest_key(tenant, sha256))
        if hashlib.sha256(raw).hexdigest() != sha256:
            return "its manifest is not as it was shipped"
        for part, size in parts_of(msgspec.json.decode(raw, type=ProjectManifest)):
            if wrong := await _flaw(bucket, part_key(tenant, part), size, part):
                return f"part {part[:12]}: {wrong}"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    finally:
        await bucket.close()
    return ""


async def _flaw(bucket: "Bucket", key: str, size: int, sha256: str) -> str:
    digest, at = hashlib.sha256(), 0
    try:
        while at <= size and (piece := await bucket.read(key, at, _READ_BYTES)):
            digest.update(piece)
            at += len(piece)
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    finally:
        await bucket.close()
    if (at, digest.hexdigest()) == (size, sha256):
        return ""
    return f"it has {at:,} bytes with digest {digest.hexdigest()[:12]}, not {size:,} with {sha256[:12]}"
