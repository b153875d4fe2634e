"""Datasets of tenants: published under a name, version by version, listed, read and removed.

Their files are kept as those of projects are: parts by their digest, which are sent once, and manifests. What makes a
manifest a version of a dataset is the record, written last, in a transaction that also judges the tenant's quota.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterator

import msgspec
import structlog
from msgspec.structs import replace

from ares.api.projects import (
    PARTS_ANSWER_BYTES,
    DatasetVersionView,
    DatasetView,
    PublishedDataset,
    RemovedDataset,
)
from ares.control.governance.quota_usage import Counting
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.records import Records, unchanged
from ares.control.state.tables import Tables
from ares.control.state.view import View
from ares.control.submit.projects import Projects
from ares.core import keys
from ares.core.access.table import reaches
from ares.core.dataset import DatasetRef, name_flaw
from ares.core.project import ManifestFlaw, parts_of, read_manifest
from ares.core.quota.counts import TENANT
from ares.core.quota.judge import OverQuota, judge
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.dataset import DATASETS_PER_TENANT_MAX, VERSIONS_MAX, DatasetRecord, DatasetVersion
from ares.model.job import VERSION_MARK
from ares.model.quota import AdmissionRecord
from ares.ports.clock import Clock, Rng
from ares.ports.projects import ProjectFiles
from ares.ports.store import KV, Compare, Delete, Op, Put, Store

log = structlog.get_logger()

DATASET_BYTES_MAX = 1 << 40
_LENGTH_BYTES = 4
_JOBS_NAMED = 5
# Versions whose parts are remembered; each takes some 150 bytes per part.
_KNOWN_MAX = 4


class Datasets:
    """`files` is None where nothing can be kept."""

    def __init__(
        self,
        store: Store,
        view: View,
        files: ProjectFiles | None,
        projects: Projects,
        counting: Counting,
        clock: Clock,
        rng: Rng,
        bytes_max: int = DATASET_BYTES_MAX,
    ) -> None:
        self._store = store
        self._records = Records(store, view)
        self._view = view
        self._files = files
        self._projects = projects
        self._counting = counting
        self._clock = clock
        self._rng = rng
        self._bytes_max = bytes_max
        # Parts of versions that were downloaded last, by tenant and digest.
        self._known: OrderedDict[tuple[str, str], dict[str, int]] = OrderedDict()

    # ---- reading

    async def list(self, who: Principal) -> tuple[DatasetView, ...]:
        await self._view.catch_up()
        return tuple(shown(record) for record in sorted(self._of(who.tenant), key=lambda record: record.name))

    async def get(self, who: Principal, name: str) -> DatasetView | Refusal:
        found = await self._found(who.tenant, name)
        return found if isinstance(found, Refusal) else shown(found)

    async def manifest(self, who: Principal, name: str, version: str) -> bytes | Refusal:
        """Of a version, the newest one if none is named."""
        found = await self._found(who.tenant, name)
        if isinstance(found, Refusal):
            return found
        known = found.version(version) if version else found.versions[-1]
        if known is None or self._files is None:
            return no_version(found, version)
        try:
            return await self._files.manifest(who.tenant, known.sha256)
        except FileNotFoundError:
            return _lost(found.name)

    async def parts(self, who: Principal, name: str, version: str, wanted: tuple[str, ...]) -> bytes | Refusal:
        """The first of these parts, as many as one answer holds: each as its length in four bytes and its bytes."""
        sizes = await self._sizes(who, name, version)
        if isinstance(sizes, Refusal):
            return sizes
        assert self._files is not None, "the manifest was read"
        found, total = list[bytes](), 0
        for sha256 in wanted:
            if sha256 not in sizes:
                message = f"part {sha256} is not of version {version} of {name}"
                return Refusal(code="not-found", message=message, fix="ask for parts that its manifest names")
            total += sizes[sha256] + _LENGTH_BYTES
            if found and total > PARTS_ANSWER_BYTES:
                break
            try:
                data = await self._files.part(who.tenant, sha256)
            except FileNotFoundError:
                return _lost(name)
            found += (len(data).to_bytes(_LENGTH_BYTES), data)
        return b"".join(found)

    async def _sizes(self, who: Principal, name: str, version: str) -> dict[str, int] | Refusal:
        """Of all parts of a version. Its manifest is not read again for every request of a download."""
        found = await self._found(who.tenant, name)
        if isinstance(found, Refusal) or found.version(version) is None:
            return found if isinstance(found, Refusal) else no_version(found, version)
        sizes = self._known.pop((who.tenant, version), None)
        if sizes is None:
            raw = await self.manifest(who, name, version)
            if isinstance(raw, Refusal):
                return raw
            sizes = await asyncio.to_thread(_sizes, raw, self._bytes_max)
        self._known[who.tenant, version] = sizes
        if len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)
        return sizes

    def _of(self, tenant: str) -> Iterator[DatasetRecord]:
        return (record for record in self._view.kept.datasets.values() if record.tenant == tenant)

    async def _found(self, tenant: str, name: str) -> DatasetRecord | Refusal:
        record = self._view.kept.datasets.get(f"{tenant}/{name}")
        if record is None:
            await self._view.catch_up()
            record = self._view.kept.datasets.get(f"{tenant}/{name}")
        return no_dataset(name) if record is None else record

    # ---- publishing

    async def publish(self, who: Principal, name: str, raw: bytes) -> PublishedDataset | Refusal:
        """Makes a manifest the newest version, when all its parts are here; until then says which are not. A quota that
        has no room for it is said before any part is sent."""
        if why := "this control plane keeps no files" if self._files is None else name_flaw(name):
            return Refusal(code="dataset-invalid", message=why, fix="see docs/concepts/data.md")
        try:
            # In a thread: many files take longer than other requests may wait.
            version, parts = await asyncio.to_thread(_read, raw, self._bytes_max)
        except ManifestFlaw as flaw:
            return Refusal(code="dataset-invalid", message=str(flaw), fix="publish it with `ares data put`")
        await self._view.catch_up()
        known = self._view.kept.datasets.get(f"{who.tenant}/{name}")
        if (no := self._unfit(who, name, known, version)) is not None:
            return no
        offered = await self._projects.keep(who.tenant, version.sha256, raw, parts)
        if isinstance(offered, Refusal):
            return offered
        answer = PublishedDataset(
            name=name, ref=str(DatasetRef(name, version.sha256)), sha256=version.sha256, files=version.files,
            bytes=version.bytes, kept=not offered, missing=offered,
        )  # fmt: skip
        return answer if offered else await self._commit(who, name, version, answer)

    async def _commit(
        self, who: Principal, name: str, version: DatasetVersion, answer: PublishedDataset
    ) -> PublishedDataset | Refusal:
        key, by = keys.dataset(who.tenant, name), f"{self._rng.token(8).hex()}-data"
        version = replace(version, at=self._clock.wall(), by=who.subject)

        async def attempt() -> PublishedDataset | Refusal | None:
            await self._view.catch_up()
            kv = await self._store.get(key)
            old = None if kv is None else msgspec.json.decode(kv.value, type=DatasetRecord)
            if old is not None and old.versions[-1].sha256 == version.sha256:
                return answer
            if (no := self._unfit(who, name, old, version)) is not None:
                return no
            record = old or DatasetRecord(
                tenant=who.tenant, name=name, created_at=version.at, created_by=who.subject, created_id=who.user_id
            )
            # A version that is published again is the newest again.
            others = tuple(other for other in record.versions if other.sha256 != version.sha256)
            record = replace(record, versions=(*others, version))
            compares, ops = _counted(self._view.kept, who.tenant, by)
            put = Put(key, msgspec.json.encode(record))
            if not await self._records.ensure([unchanged(key, kv), *compares], [put, *ops]):
                return None
            log.info("dataset.published", tenant=who.tenant, dataset=name, version=version.sha256, by=who.subject)
            return answer

        return await self._records.settle(f"the dataset {name}", attempt)

    def _unfit(self, who: Principal, name: str, old: DatasetRecord | None, version: DatasetVersion) -> Refusal | None:
        """Why it may not be published, though nothing is wrong with it."""
        if old is not None and (no := _not_yours(who, old)) is not None:
            return no
        if old is None and sum(1 for _ in self._of(who.tenant)) >= DATASETS_PER_TENANT_MAX:
            message = f"the tenant has {DATASETS_PER_TENANT_MAX:,} datasets, the limit"
            return Refusal(code="datasets-full", message=message, fix="remove some: `ares data rm NAME`")
        if old is not None and old.version(version.sha256) is not None:
            return None
        if old is not None and len(old.versions) >= VERSIONS_MAX:
            message = f"{name} has {VERSIONS_MAX:,} versions, the limit"
            return Refusal(code="datasets-full", message=message, fix=f"remove some: `ares data rm {name}@VERSION`")
        quota = self._view.kept.quotas.get(who.tenant)
        if quota is None:
            return None
        used = self._counting.used(who.tenant)
        judged = judge(quota.quota, (TENANT,), used, {"storage": version.bytes})
        return replace(judged, fix=_FREE) if isinstance(judged, OverQuota) else None

    # ---- removing

    async def remove(self, who: Principal, name: str, version: str, *, force: bool) -> RemovedDataset | Refusal:
        """Removes a version, or all. Its files go when no job's record names them any more. With `force` also from
        under jobs that have not ended: those that have not staged it fail."""
        key = keys.dataset(who.tenant, name)

        async def attempt() -> RemovedDataset | Refusal | None:
            await self._view.catch_up()
            kv = await self._store.get(key)
            if kv is None:
                return no_dataset(name)
            old = msgspec.json.decode(kv.value, type=DatasetRecord)
            gone = tuple(known for known in old.versions if version in ("", known.sha256))
            if not gone:
                return no_version(old, version)
            if (no := _not_yours(who, old)) is not None:
                return no
            count, jobs = await self._used_by(who.tenant, name, gone)
            if count and not force:
                return _in_use(name, count, jobs)
            left = tuple(known for known in old.versions if known not in gone)
            if not await self._records.ensure([unchanged(key, kv)], [_left(key, kv, replace(old, versions=left))]):
                return None
            log.info("dataset.removed", tenant=who.tenant, dataset=name, versions=len(gone), by=who.subject)
            freed = sum(known.bytes for known in gone)
            return RemovedDataset(name=name, versions=len(gone), bytes=freed, jobs=count, named=jobs)

        return await self._records.settle(f"that the dataset {name} is removed", attempt)

    async def _used_by(self, tenant: str, name: str, gone: tuple[DatasetVersion, ...]) -> tuple[int, tuple[str, ...]]:
        """How many jobs that have not ended name these versions, and some of them."""
        marks = [str(DatasetRef(name, version.sha256)).encode() for version in gone]
        found, count = list[str](), 0
        for place, job in enumerate(sorted(self._view.live.get(tenant, ()))):
            if place % WORKED_ON == WORKED_ON - 1:
                await breathe()
            raw = self._view.specs.get(job.partition("_")[0], b"")
            given = self._view.entries[job].state.update
            later = b"" if given is None or not given.inputs else msgspec.json.encode(given)
            if (VERSION_MARK.encode() in raw or later) and any(mark in raw or mark in later for mark in marks):
                count += 1
                found += [job] if len(found) < _JOBS_NAMED else []
        return count, tuple(found)


# ---- what is said


def shown(record: DatasetRecord) -> DatasetView:
    return DatasetView(
        name=record.name, ref=str(DatasetRef(record.name)), bytes=record.bytes, created_at=record.created_at,
        created_by=record.created_by,
        versions=tuple(
            DatasetVersionView(
                sha256=version.sha256, ref=str(DatasetRef(record.name, version.sha256)), files=version.files,
                bytes=version.bytes, at=version.at, by=version.by,
            )
            for version in reversed(record.versions)
        ),
    )  # fmt: skip


def no_dataset(name: str) -> Refusal:
    fix = f"`ares data ls` lists those there are; publish it: `ares data put DIR {name}`"
    return Refusal(code="not-found", message=f"there is no dataset {name}", fix=fix)


def no_version(record: DatasetRecord, version: str) -> Refusal:
    message = f"dataset {record.name} has no version {version[:12]}; it has {len(record.versions):,} others"
    return Refusal(code="not-found", message=message, fix=f"`ares data show {record.name}` lists them")


_FREE = "remove versions that are not needed, `ares data rm NAME@VERSION`, or have the limit raised"


def _lost(name: str) -> Refusal:
    message = f"files of dataset {name} are not kept any more"
    return Refusal(code="not-found", message=message, fix=f"publish it again: `ares data put DIR {name}`")


def _not_yours(who: Principal, old: DatasetRecord) -> Refusal | None:
    if reaches(who, "datasets:admin", old.tenant, old.created_by, old.created_id):
        return None
    message = f"{old.name} was made by {old.created_by}, and your role changes only what you made"
    fix = "publish it under another name, or ask them or an administrator of the tenant"
    return Refusal(code="forbidden", message=message, fix=fix, reason="role")


def _in_use(name: str, count: int, jobs: tuple[str, ...]) -> Refusal:
    more = f" and {count - len(jobs):,} more" if count > len(jobs) else ""
    message = f"{count:,} job{'' if count == 1 else 's'} of it have not ended: {', '.join(jobs)}{more}"
    fix = f"wait until they end, or remove it all the same: `ares data rm --force {name}`; jobs that lack it then fail"
    return Refusal(code="dataset-in-use", message=message, fix=fix)


def _counted(kept: Tables, tenant: str, by: str) -> tuple[list[Compare], list[Op]]:
    """What holds as long as what the quota was judged by does: see `quota_gate`."""
    compares = [kept.quotas.unchanged(tenant)]
    if tenant not in kept.quotas:
        return compares, []
    compares.append(kept.admissions.unchanged(tenant))
    return compares, [Put(keys.admission(tenant), msgspec.json.encode(AdmissionRecord(by=by)))]


def _left(key: str, kv: KV, record: DatasetRecord) -> Op:
    return Put(kv.key, msgspec.json.encode(record)) if record.versions else Delete(key)


def _read(raw: bytes, bytes_max: int) -> tuple[DatasetVersion, dict[str, int]]:
    """The version that a manifest is, and its parts with their sizes. Raises ManifestFlaw."""
    manifest = read_manifest(raw, bytes_max)
    version = DatasetVersion(
        sha256=hashlib.sha256(raw).hexdigest(),
        files=sum(entry.kind == "file" for entry in manifest.entries),
        bytes=sum(entry.size for entry in manifest.entries),
    )
    return version, dict(parts_of(manifest))


def _sizes(raw: bytes, bytes_max: int) -> dict[str, int]:
    return dict(parts_of(read_manifest(raw, bytes_max)))
