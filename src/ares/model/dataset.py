"""Datasets: files that a tenant publishes under a name, and that jobs read."""

from typing import Annotated, Final

from msgspec import Meta

from ares.model.base import Instant, Number, Record, Sha256

DatasetName = Annotated[
    str, Meta(min_length=1, max_length=128, pattern=r"^[a-z0-9]([a-z0-9._-]{0,126}[a-z0-9])?$(?!\n)")
]
DATASETS_PER_TENANT_MAX: Final = 10_000
VERSIONS_MAX: Final = 1000


class DatasetVersion(Record, frozen=True):
    """One state of its files, named by the SHA-256 of their manifest."""

    sha256: Sha256
    files: Number = 0
    bytes: Number = 0
    at: Instant = 0.0
    by: str = ""


class DatasetRecord(Record, frozen=True):
    """A dataset at rest: its versions, the newest last. Their files lie beside those of projects."""

    tenant: str
    name: DatasetName
    versions: Annotated[tuple[DatasetVersion, ...], Meta(max_length=VERSIONS_MAX)] = ()
    created_at: Instant = 0.0
    created_by: str = ""
    # The id of that user's record.
    created_id: str = ""

    @property
    def bytes(self) -> int:
        return sum(version.bytes for version in self.versions)

    def version(self, sha256: str) -> DatasetVersion | None:
        return next((version for version in self.versions if version.sha256 == sha256), None)
