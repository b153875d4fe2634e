"""Datasets of simulated tenants: where their files are kept, who publishes them, and what a process finds of them."""

import asyncio
import errno
import hashlib
import os
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from ares.api.projects import ProjectEntry, PublishedDataset
from ares.control.replica import Replica
from ares.core.project import write_manifest
from ares.model.access import Principal
from ares.model.job import DataInput, JobSpec
from ares.sim.world.clocks import Chance
from ares.sim.world.loop import SimLoop

NAME: Final = "rows"
_FILES: Final = ("a", "b", "c")
_FILE_BYTES: Final = 300_000
_TRIES: Final = 40

Call = Callable[[Callable[[Replica], Coroutine[Any, Any, Any]]], Coroutine[Any, Any, Any]]


class SimFiles:
    """`ports.projects.ProjectFiles`, one for all replicas. What is kept stays; reading it may fail, or lie."""

    def __init__(self, loop: SimLoop, chance: Chance) -> None:
        self._loop = loop
        self._chance = chance
        self._parts: dict[tuple[str, str], bytes] = {}
        self._manifests: dict[tuple[str, str], bytes] = {}
        # Share of reads that something happens to.
        self.rate = 0.0
        # How many reads from now on give other bytes, whatever the rate; and how long a read takes.
        self.lies = 0
        self.slow_s = 0.0

    async def keep(self, tenant: str, parts: Sequence[memoryview]) -> tuple[str, ...]:
        return tuple(self.put(tenant, bytes(part)) for part in parts)

    def put(self, tenant: str, part: bytes) -> str:
        sha256 = hashlib.sha256(part).hexdigest()
        self._parts[tenant, sha256] = part
        return sha256

    async def commit(self, tenant: str, sha256: str, manifest: bytes, parts: Mapping[str, int]) -> tuple[str, ...]:
        if lacking := tuple(part for part in parts if (tenant, part) not in self._parts):
            return lacking
        self._manifests[tenant, sha256] = manifest
        return ()

    async def touch(self, tenant: str, sha256: str) -> bool:
        return (tenant, sha256) in self._manifests

    async def manifest(self, tenant: str, sha256: str) -> bytes:
        if (found := self._manifests.get((tenant, sha256))) is None:
            raise FileNotFoundError(sha256)
        return found

    async def part(self, tenant: str, sha256: str) -> bytes:
        if (found := self._parts.get((tenant, sha256))) is None:
            raise FileNotFoundError(sha256)
        if self.slow_s:
            await asyncio.sleep(self.slow_s)
        if self.lies:
            self.lies -= 1
            return _other(found)
        return await self._harmed(found, sha256) if self.rate and self._chance(self.rate) else found

    async def _harmed(self, data: bytes, sha256: str) -> bytes:
        match self._chance.pick(("slow", "broken", "gone", "wrong")):
            case "slow":
                await asyncio.sleep(self._chance.between(0.2, 3.0))
            case "broken":
                raise OSError(errno.EIO, "input/output error")
            case "gone":
                raise FileNotFoundError(sha256)
            case _:
                return _other(data)
        return data

    async def tenants(self) -> tuple[str, ...]:
        return tuple(sorted({tenant for tenant, _ in self._manifests}))

    async def unused(self, age_s: float) -> tuple[tuple[str, str], ...]:
        return ()

    async def forget(self, tenant: str, manifests: Collection[str], age_s: float) -> int:
        return 0


def _other(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


class SimulatedData:
    """A tenant's dataset: published in versions, and read by some of its jobs."""

    def __init__(self, files: SimFiles, who: Principal, chance: Chance) -> None:
        self._files = files
        self._who = who
        self._chance = chance
        self._versions = 0

    @property
    def due(self) -> bool:
        return not self._versions or self._chance(0.2)

    async def publish(self, call: Call) -> None:
        """The next version. One that cannot be published is given up: jobs are given the one before, or refused."""
        self._versions += 1
        tenant = self._who.tenant
        entries = list[ProjectEntry]()
        for name in _FILES:
            # What the versions of a file have in common is sent once.
            version = self._versions if name != "a" else 1
            data = f"{tenant} {name} {version};".encode() * (_FILE_BYTES // 10)
            entries.append(ProjectEntry(name, "file", 0o644, len(data), (self._files.put(tenant, data),)))
        raw = write_manifest(tuple(entries))
        for _ in range(_TRIES):
            answer = await call(lambda replica: replica.datasets.publish(self._who, NAME, raw))
            if isinstance(answer, PublishedDataset) and answer.kept:
                return
            await asyncio.sleep(0.5)

    def given(self, spec: JobSpec) -> JobSpec:
        """The job, which may read the newest version."""
        if not self._chance(0.6):
            return spec
        mode = self._chance.pick(("cache", "cache", "copy"))
        return replace(spec, inputs=(DataInput(name="data", from_=f"ares://datasets/{NAME}", mode=mode),))


def found(folder: str) -> dict[str, str]:
    """The digest of the manifest of what is really in each input, by its name."""
    return {name: _digest(Path(folder) / name) for name in sorted(os.listdir(folder))} if folder else {}


def _digest(place: Path) -> str:
    entries = list[ProjectEntry]()
    for path in sorted(place.iterdir()):
        data = path.read_bytes()
        entries.append(ProjectEntry(path.name, "file", 0o644, len(data), (hashlib.sha256(data).hexdigest(),)))
    return hashlib.sha256(write_manifest(tuple(entries))).hexdigest()
