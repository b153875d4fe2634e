"""Files for attempts: an agent reads the project of a job that runs on its node, and of no other."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator

import msgspec

from ares.api.projects import PART_BYTES, ProjectManifest
from ares.control.execution.peers import PeerAddresses
from ares.control.execution.restoring import Restoring
from ares.control.governance.secrets import Secrets
from ares.control.state.view import View
from ares.core.dataset import parse_ref
from ares.core.lifecycle.ranks import place_of
from ares.core.project import PartPlace, places_of
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import JobSpec, projects_of, staged_of
from ares.model.link import FetchPiece, FetchRequest
from ares.model.state import BOUND
from ares.ports.blobs import SignedReads
from ares.ports.clock import Clock
from ares.ports.projects import ProjectFiles
from ares.ports.telemetry import Telemetry

_decode = msgspec.json.Decoder(ProjectManifest).decode
# Projects whose parts are remembered; each takes some 300 bytes per part.
_KNOWN_MAX = 32
_NOT_GRANTED = Refusal(code="forbidden", message="no attempt on this node has this project", reason="not_granted")


class Staging:
    """`files` is None where nothing is kept."""

    def __init__(
        self,
        view: View,
        files: ProjectFiles | None,
        telemetry: Telemetry,
        restoring: Restoring | None = None,
        signed: SignedReads | None = None,
        secrets: Secrets | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._signed = signed
        # Without a way to seal what nodes ask of each other they ask only here.
        self._peers = PeerAddresses(view, secrets, clock) if secrets is not None and clock is not None else None
        self._restoring = restoring
        self._view = view
        self._files = files
        self._telemetry = telemetry
        self._known: OrderedDict[tuple[str, str], dict[str, PartPlace]] = OrderedDict()

    async def fetch(self, who: Principal, asked: FetchRequest) -> AsyncIterator[FetchPiece] | Refusal:
        """The manifest of an attempt's project, or parts of it, in the order they are asked for; or of a checkpoint."""
        if asked.checkpoint is not None:
            if self._restoring is None:
                return _NOT_GRANTED
            return await self._restoring.fetch(who, asked, asked.checkpoint)
        tenant, project = asked.ref.tenant, self._project(who, asked)
        if project is None or self._files is None:
            # The grant may have come to another replica a moment ago.
            await self._view.catch_up()
            project = self._project(who, asked)
        if project is None or self._files is None:
            return _NOT_GRANTED
        if (gone := self._removed(asked, project)) is not None:
            return gone
        try:
            if not asked.parts:
                return _whole(project, await self._files.manifest(tenant, project))
            places = await self._parts(self._files, tenant, project)
            if not set(asked.parts) <= places.keys():
                return _NOT_GRANTED
        except FileNotFoundError:
            return _lost(project)
        if asked.peers and self._peers is not None and who.node is not None:
            pieces = self._peers.pieces(who.node, tenant, project, places, asked.parts)
            if pieces is not None:
                return _each(pieces)
        if asked.direct and self._signed is not None:
            return _addresses(self._signed, tenant, asked.parts)
        return self._pieces(self._files, tenant, asked.parts)

    def _project(self, who: Principal, asked: FetchRequest) -> str | None:
        """The project that is asked for, if the attempt names it, is the current one and has this rank on the caller's
        node."""
        entry = self._view.entries.get(asked.ref.job)
        if entry is None:
            return None
        state, spec = entry.state, self._view.spec(entry.state)
        place = place_of(state.placements, asked.rank)
        granted = state.phase in BOUND and state.fence == asked.ref.fence and state.tenant == asked.ref.tenant
        if spec is None or place is None or not granted or place.node != who.node:
            return None
        if asked.project is None:
            return spec.project
        return asked.project if asked.project in projects_of(spec) else None

    def _removed(self, asked: FetchRequest, project: str) -> Refusal | None:
        """Why the job cannot have a dataset that it was given: it was removed since."""
        spec = self._view.spec(self._view.entries[asked.ref.job].state)
        if spec is None or not spec.inputs or project not in staged_of(spec).values():
            return None
        tenant, refs = asked.ref.tenant, _refs_to(spec, project)
        for name in refs:
            record = self._view.kept.datasets.get(f"{tenant}/{name}")
            if record is not None and record.version(project) is not None:
                return None
        message = f"dataset {refs[0]}@sha256:{project[:12]} was removed after the job was submitted"
        fix = f"publish it again, `ares data put DIR {refs[0]}`, and submit the job again"
        return Refusal(code="not-found", message=message, fix=fix)

    async def _parts(self, files: ProjectFiles, tenant: str, project: str) -> dict[str, PartPlace]:
        """The first place of each part."""
        known = self._known.pop((tenant, project), None)
        if known is None:
            known = await asyncio.to_thread(_named, await files.manifest(tenant, project))
        self._known[tenant, project] = known
        if len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)
        return known

    async def _pieces(self, files: ProjectFiles, tenant: str, parts: tuple[str, ...]) -> AsyncIterator[FetchPiece]:
        for sha256 in parts:
            try:
                data = await files.part(tenant, sha256)
            except FileNotFoundError:
                yield FetchPiece(sha256=sha256, data=b"", trouble="it is not kept any more")
                return
            self._telemetry.count("ares_staged_bytes_total", len(data))
            yield FetchPiece(sha256=sha256, data=data)


def _refs_to(spec: JobSpec, project: str) -> list[str]:
    """Names of the datasets of which the job is given this version."""
    refs = (parse_ref(given.from_) for given in spec.inputs if given.from_ is not None)
    return [ref.name for ref in refs if ref.sha256 == project]


def _named(manifest: bytes) -> dict[str, PartPlace]:
    return {part: places[0] for part, places in places_of(_decode(manifest)).items()}


async def _each(pieces: Iterator[FetchPiece]) -> AsyncIterator[FetchPiece]:
    for piece in pieces:
        yield piece


async def _addresses(signed: SignedReads, tenant: str, parts: tuple[str, ...]) -> AsyncIterator[FetchPiece]:
    """One that is not there is asked for again, and then told to be missing."""
    for sha256 in parts:
        yield FetchPiece(sha256=sha256, data=b"", url=signed.part(tenant, sha256), size=PART_BYTES)


async def _whole(project: str, data: bytes) -> AsyncIterator[FetchPiece]:
    assert await asyncio.to_thread(_digest, data) == project, "a manifest is kept under its digest"
    yield FetchPiece(sha256=project, data=data)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _lost(project: str) -> Refusal:
    message = f"the files of project {project} are not kept any more"
    return Refusal(code="not-found", message=message, fix="submit the job again: its files are shipped again then")
