"""Projects that clients ship: which parts of files are still to be sent, and whether a job's project is here.

All of it is the tenant's own: what another tenant has sent is neither used nor told.
"""

import asyncio
import errno
import hashlib
from collections.abc import Iterator, Mapping

import structlog
from msgspec.structs import replace

from ares.api.projects import PART_BYTES, PartsKept, ProjectAnswer
from ares.core.project import ManifestFlaw, parts_of, read_manifest
from ares.core.refusal import Refusal
from ares.model.job import JobSpec, projects_of
from ares.ports.projects import ProjectFiles
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

PROJECT_BYTES_MAX = 20 << 30
# Of one request.
_PARTS_MAX = 4096
_LENGTH_BYTES = 4
_NOT_HERE = Refusal(
    code="project-unknown",
    message="this control plane keeps no projects",
    fix="submit without a project, and start in a directory of the machine: --chdir DIR",
)


class Projects:
    """`files` is None where nothing can be kept."""

    def __init__(self, files: ProjectFiles | None, telemetry: Telemetry, bytes_max: int = PROJECT_BYTES_MAX) -> None:
        self._files = files
        self._telemetry = telemetry
        self._bytes_max = bytes_max

    async def offer(self, tenant: str, raw: bytes) -> ProjectAnswer | Refusal:
        """Keeps a manifest when all its parts are here, and says which are not."""
        if self._files is None:
            return _NOT_HERE
        try:
            # In a thread: many files take longer than other requests may wait.
            answer, parts = await asyncio.to_thread(_read, raw, self._bytes_max)
        except ManifestFlaw as flaw:
            fix = "leave it out by a line in .aresignore, or ship another directory with --workdir"
            return Refusal(code="project-invalid", message=str(flaw), fix=fix)
        missing = await self.keep(tenant, answer.sha256, raw, parts)
        return missing if isinstance(missing, Refusal) else replace(answer, kept=not missing, missing=missing)

    async def keep(self, tenant: str, sha256: str, raw: bytes, parts: Mapping[str, int]) -> tuple[str, ...] | Refusal:
        """Keeps a manifest when all its parts are here; the digests of those that are not."""
        if self._files is None:
            return _NOT_HERE
        try:
            return await self._files.commit(tenant, sha256, raw, parts)
        except OSError as error:
            return _no_room(error)

    async def take(self, tenant: str, raw: bytes) -> PartsKept | Refusal:
        """Keeps parts: each as its length in four bytes, the highest first, and its bytes."""
        if self._files is None:
            return _NOT_HERE
        try:
            parts = list(_split(raw))
        except ValueError as error:
            return Refusal(code="project-invalid", message=str(error), fix="send each part with its length before it")
        try:
            kept = await self._files.keep(tenant, parts)
        except OSError as error:
            return _no_room(error)
        self._telemetry.count("ares_project_bytes_total", len(raw))
        return PartsKept(kept=kept)

    async def unknown(self, tenant: str, spec: JobSpec) -> Refusal | None:
        """Why the job cannot have a project it names. From now on its projects count as used."""
        for project in projects_of(spec):
            try:
                if self._files is not None and await self._files.touch(tenant, project):
                    continue
            except OSError as error:
                return _no_room(error)
            message, fix = f"the tenant has no project {project}", "ship it first: `ares submit` does"
            return Refusal(code="project-unknown", message=message, fix=fix, path="$.spec")
        return None


def _read(raw: bytes, bytes_max: int) -> tuple[ProjectAnswer, dict[str, int]]:
    """What is answered when all of it is kept, and its parts with their sizes. Raises ManifestFlaw."""
    manifest = read_manifest(raw, bytes_max)
    answer = ProjectAnswer(
        sha256=hashlib.sha256(raw).hexdigest(),
        files=sum(entry.kind == "file" for entry in manifest.entries),
        bytes=sum(entry.size for entry in manifest.entries),
        kept=True,
    )
    return answer, dict(parts_of(manifest))


def _split(raw: bytes) -> Iterator[memoryview]:
    whole, at, count = memoryview(raw), 0, 0
    while at < len(whole):
        size, count = int.from_bytes(whole[at : at + _LENGTH_BYTES]), count + 1
        at += _LENGTH_BYTES
        if not 0 < size <= PART_BYTES or at + size > len(whole):
            raise ValueError(f"part {count} is said to have {size:,} bytes; 1 to {PART_BYTES:,} are taken, all at once")
        if count > _PARTS_MAX:
            raise ValueError(f"there are more than {_PARTS_MAX:,} parts")
        yield whole[at : at + size]
        at += size


def _no_room(error: OSError) -> Refusal:
    log.warning("project.not_kept", error=str(error))
    why = error.strerror or str(error)
    if error.errno == errno.EDQUOT:
        fix = "send less (projects: lines in .aresignore), or remove datasets; old jobs' projects go with their records"
        return Refusal(code="project-too-much", message=f"it cannot be kept: {why}", fix=fix)
    message = f"the control plane cannot keep it now: {why}"
    return Refusal(code="store-full", message=message, fix="have the operator free some space there", retry_after_s=5.0)
