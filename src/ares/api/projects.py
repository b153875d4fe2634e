"""Files that clients send, as a manifest of paths and parts by their SHA-256: projects, which jobs start with, and
datasets, which they read."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ares.model.base import Record, Sha256, Shown

# A file is kept in parts of this size; only its last part may be smaller.
PART_BYTES = 8 * 1024 * 1024
# Files, directories and links of one project.
ENTRIES_MAX = 50_000
FileKind = Literal["file", "dir", "link"]


class ProjectEntry(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """One path below the project's directory. Arrays rather than objects: a project has thousands of them."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    kind: FileKind
    # Permission bits: reading, writing and executing for owner, group and others, and nothing else.
    mode: Annotated[int, Meta(ge=0, le=0o777)] = 0o644
    size: Annotated[int, Meta(ge=0, le=2**53)] = 0
    # Digests of a file's parts, in order.
    parts: Annotated[tuple[Sha256, ...], Meta(max_length=1_000_000)] = ()
    # Where a symbolic link leads.
    link: Annotated[str, Meta(max_length=4096)] = ""


class ProjectManifest(Record, frozen=True, forbid_unknown_fields=True):
    """A project is named by the SHA-256 of this in JSON, byte for byte as its sender wrote it."""

    entries: Annotated[tuple[ProjectEntry, ...], Meta(max_length=ENTRIES_MAX)] = ()


class ProjectAnswer(Shown, frozen=True):
    """What became of a manifest. It is kept, and may be named by jobs, once nothing is missing."""

    sha256: str
    files: int
    bytes: int
    kept: bool
    # Digests of the parts to send before the same manifest is sent again.
    missing: tuple[str, ...] = ()


class PartsKept(Shown, frozen=True):
    """Digests of the parts that were sent, in their order, as the server computed them."""

    kept: tuple[str, ...]


# ---- datasets


# Parts that are asked for at once. The answer has as many of them as fit into it.
PARTS_ASKED_MAX = 2048
PARTS_ANSWER_BYTES = 16 * 1024 * 1024


class DatasetVersionView(Shown, frozen=True):
    """One version. `ref` names it for good."""

    sha256: str
    ref: str
    files: int
    bytes: int
    at: float
    by: str


class DatasetView(Shown, frozen=True):
    """A dataset with its versions, the newest first."""

    name: str
    ref: str
    bytes: int
    created_at: float
    created_by: str
    versions: tuple[DatasetVersionView, ...]


class DatasetList(Shown, frozen=True):
    datasets: tuple[DatasetView, ...]


class PublishedDataset(Shown, frozen=True):
    """What became of a manifest. It is the newest version of its dataset once nothing is missing."""

    name: str
    ref: str
    sha256: str
    files: int
    bytes: int
    kept: bool
    # Digests of the parts to send before the same manifest is sent again.
    missing: tuple[str, ...] = ()


class RemovedDataset(Shown, frozen=True):
    """What was removed, and which jobs that have not ended lack it now; some of them are named."""

    name: str
    versions: int
    bytes: int
    jobs: int = 0
    named: tuple[str, ...] = ()


class PartsBody(Record, frozen=True):
    """Parts of one version, to be sent one after the other."""

    version: Sha256
    parts: Annotated[tuple[Sha256, ...], Meta(max_length=PARTS_ASKED_MAX)]
