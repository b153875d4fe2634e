"""Projects and datasets as objects: `tenants/T/parts/SHA256` and `tenants/T/manifests/SHA256`.

The time of an object is when it was last used: it is copied onto itself when that is long ago.
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from ares.adapters.disk import checked
from ares.adapters.objects.bucket import Bucket, StoredObject
from ares.adapters.objects.room import BucketRoom
from ares.adapters.objects.turns import in_turns
from ares.api.projects import ProjectManifest
from ares.core.project import parts_of

_FRESH_S: Final = 3600.0
# More are looked for by listing all of the tenant.
_ASKED_MAX: Final = 500
_decode = msgspec.json.Decoder(ProjectManifest).decode


class ObjectProjects:
    """The ProjectFiles port."""

    def __init__(self, bucket: Bucket, room: BucketRoom | None = None) -> None:
        self._bucket = bucket
        self._room = room or BucketRoom(bucket)

    # ---- writing

    async def keep(self, tenant: str, parts: Sequence[memoryview]) -> tuple[str, ...]:
        digests = [await asyncio.to_thread(_sha256, part) for part in parts]
        first = dict(zip(digests, parts, strict=True))
        await in_turns([partial(self._put, tenant, part_key(tenant, sha), bytes(part)) for sha, part in first.items()])
        return tuple(digests)

    async def _put(self, tenant: str, key: str, data: bytes) -> None:
        sha256 = key.rpartition("/")[2]
        kept = await self._bucket.size(key)
        if kept == len(data) and (self._bucket.compares or await self._bucket.read(key) == data):
            await self._use(key)
            return
        if kept is not None:
            # It is not what was sent then, and would never be written again.
            await self._bucket.remove(key)
            self._room.give_back(tenant, kept)
        await self._room.charge(tenant, len(data))
        try:
            await self._bucket.put(key, data, len(data), sha256)
            if not self._bucket.compares and _sha256(await self._bucket.read(key)) != sha256:
                await self._bucket.remove(key)
                raise OSError(f"the object store has other bytes than were sent for {sha256[:12]}")
        except BaseException:
            self._room.give_back(tenant, len(data))
            raise

    async def commit(self, tenant: str, sha256: str, manifest: bytes, parts: Mapping[str, int]) -> tuple[str, ...]:
        if missing := await self._missing(tenant, parts):
            return missing
        await self._put(tenant, manifest_key(tenant, sha256), manifest)
        # Once more: from now on the manifest holds them, and one may have been removed a moment before.
        return await self._missing(tenant, parts)

    async def _missing(self, tenant: str, parts: Mapping[str, int]) -> tuple[str, ...]:
        if len(parts) > _ASKED_MAX:
            prefix = f"{_home(tenant)}/parts/"
            there = {found.key: found async for found in self._bucket.listed(prefix)}
        else:
            there = dict[str, StoredObject]()
            await in_turns([partial(self._look, part_key(tenant, sha256), there) for sha256 in parts])
        lacking, before = list[str](), time.time() - _FRESH_S
        for sha256, size in parts.items():
            found = there.get(part_key(tenant, sha256))
            if found is None or found.size != size:
                lacking.append(sha256)
            elif found.changed_at < before:
                await self._bucket.copy(found.key, found.key)
        return tuple(lacking)

    async def _look(self, key: str, there: dict[str, StoredObject]) -> None:
        if (found := await self._bucket.look(key)) is not None:
            there[key] = found

    # ---- reading

    async def touch(self, tenant: str, sha256: str) -> bool:
        return await self._use(manifest_key(tenant, sha256))

    async def _use(self, key: str) -> bool:
        found = await self._bucket.look(key)
        if found is not None and time.time() - found.changed_at > _FRESH_S:
            await self._bucket.copy(key, key)
        return found is not None

    async def manifest(self, tenant: str, sha256: str) -> bytes:
        return await self._bucket.read(manifest_key(tenant, sha256))

    async def part(self, tenant: str, sha256: str) -> bytes:
        return await self._bucket.read(part_key(tenant, sha256))

    async def tenants(self) -> tuple[str, ...]:
        return tuple(await self._bucket.folders("tenants/"))

    # ---- removing

    async def unused(self, age_s: float) -> tuple[tuple[str, str], ...]:
        before, found = time.time() - age_s, list[tuple[str, str]]()
        for tenant in await self.tenants():
            async for manifest in self._bucket.listed(f"{_home(tenant)}/manifests/"):
                if manifest.changed_at < before:
                    found.append((tenant, manifest.key.rpartition("/")[2]))
        return tuple(found)

    async def forget(self, tenant: str, manifests: Collection[str], age_s: float) -> int:
        before, freed = time.time() - age_s, 0
        for sha256 in manifests:
            freed += await self._drop(tenant, manifest_key(tenant, sha256), before)
        held = set[str]()
        async for manifest in self._bucket.listed(f"{_home(tenant)}/manifests/"):
            with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
                held.update(part for part, _ in parts_of(_decode(await self._bucket.read(manifest.key))))
        old = [
            part.key
            async for part in self._bucket.listed(f"{_home(tenant)}/parts/")
            if part.changed_at < before and part.key.rpartition("/")[2] not in held
        ]
        for key in old:
            freed += await self._drop(tenant, key, before)
        return freed

    async def _drop(self, tenant: str, key: str, before: float) -> int:
        """Removes an object unless it was used meanwhile. Returns its size."""
        found = await self._bucket.look(key)
        if found is None or found.changed_at >= before:
            return 0
        await self._bucket.remove(key)
        self._room.give_back(tenant, found.size)
        return found.size


def _home(tenant: str) -> str:
    return f"tenants/{checked(tenant)}"


def manifest_key(tenant: str, sha256: str) -> str:
    return f"{_home(tenant)}/manifests/{checked(sha256)}"


def part_key(tenant: str, sha256: str) -> str:
    return f"{_home(tenant)}/parts/{checked(sha256)}"


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
