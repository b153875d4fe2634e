"""Uploads of output files: stored as they come, read back and sealed, then committed by name.

Only the current attempt of a job may upload files, and only through the agent of its rank. If this replica does not
know yet that an attempt was revoked, its bytes end under the fence of that attempt, where no result points to: the
transaction that commits the list decides.
"""

from collections.abc import Sequence

import structlog
from msgspec.structs import replace

from ares.control.execution.reports import Report
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession
from ares.control.state.blob_cleanup import Leftovers
from ares.core.lifecycle.outputs import list_flaw
from ares.model.base import CheckpointRef
from ares.model.link import Exited, Fenced, OutputAck, OutputChunk
from ares.model.state import OutputFile
from ares.ports.blobs import Blobs
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

OUTPUT_BYTES_MAX = 100 << 30
# An agent has two MiB under way at most; one that does not wait is cut off.
_QUEUED_BYTES_MAX = 16 * 1024 * 1024
_NOT_CURRENT = "the attempt is no longer the current one"


class Uploads:
    """One for all sessions of a replica. `bytes_max` is for one rank of an attempt."""

    def __init__(
        self,
        *,
        rights: Rights,
        blobs: Blobs,
        leftovers: Leftovers,
        telemetry: Telemetry,
        bytes_max: int = OUTPUT_BYTES_MAX,
    ) -> None:
        self._rights = rights
        self._blobs = blobs
        self._leftovers = leftovers
        self._telemetry = telemetry
        self.bytes_max = bytes_max

    def take(self, session: AgentSession, chunk: OutputChunk) -> None:
        """Queues a piece; `run` stores it."""
        if not self._may_come(session, chunk):
            self._refuse(session, chunk)
        elif session.chunk_bytes + len(chunk.data) > _QUEUED_BYTES_MAX:
            session.close(f"more than {_QUEUED_BYTES_MAX:,} bytes of outputs came without waiting")
        else:
            session.chunks.append(chunk)
            session.chunk_bytes += len(chunk.data)
            session.chunk_ready.set()

    async def run(self, session: AgentSession) -> None:
        """One of the session's loops: stores pieces in the order they came."""
        while True:
            await session.chunk_ready.wait()
            session.chunk_ready.clear()
            while session.chunks:
                chunk = session.chunks.popleft()
                if self._may_come(session, chunk):
                    session.send(await self._keep(chunk))
                else:
                    self._refuse(session, chunk)
                session.chunk_bytes -= len(chunk.data)

    def _may_come(self, session: AgentSession, chunk: OutputChunk) -> bool:
        key = (chunk.ref, chunk.rank)
        return self._rights.may_upload(session, key) if chunk.seq is None else self._rights.may_save(session, key)

    def _refuse(self, session: AgentSession, chunk: OutputChunk) -> None:
        log.warning("upload.refused", job=chunk.ref.job, fence=str(chunk.ref.fence), node=session.node)
        self._telemetry.count("ares_uploads_refused_total", 1)
        self._rights.note(session, "writeOutput", chunk.ref, chunk.rank)
        session.send(_ack(chunk, 0, refused=_NOT_CURRENT))

    async def _keep(self, chunk: OutputChunk) -> OutputAck:
        end = chunk.offset + len(chunk.data)
        if not 0 <= chunk.offset <= end <= chunk.size <= self.bytes_max:
            return _ack(chunk, 0, trouble=f"bytes {chunk.offset:,} to {end:,} of {chunk.size:,} cannot be kept")
        self._leftovers.note(chunk.ref.tenant, chunk.ref.job)
        ref = chunk.ref
        if chunk.seq is not None:
            ref = CheckpointRef(job=ref.job, tenant=ref.tenant, fence=ref.fence, seq=chunk.seq)
        try:
            kept = await self._blobs.append(ref, chunk.sha256, chunk.offset, chunk.data)
            self._telemetry.count("ares_output_bytes_total", len(chunk.data))
            if kept < end:
                # A piece before this one is missing, or only a part of this one could be stored.
                return _ack(chunk, kept, trouble=f"{kept:,} bytes are kept, {end:,} were sent")
            if kept < chunk.size:
                return _ack(chunk, kept)
            found = await self._blobs.seal(ref, chunk.sha256, chunk.size)
        except (OSError, ValueError) as error:
            log.error("output.not_kept", job=chunk.ref.job, sha256=chunk.sha256, error=str(error))
            return _ack(chunk, 0, trouble=f"the control plane cannot keep it: {_why(error)}")
        if found is None:
            return _ack(chunk, chunk.size, sealed=True)
        trouble = (
            f"{found.size:,} bytes with the SHA-256 {found.sha256} were kept, "
            f"{chunk.size:,} with {chunk.sha256} were announced"
        )
        log.warning("output.mismatch", job=chunk.ref.job, fence=str(chunk.ref.fence), trouble=trouble)
        return _ack(chunk, 0, trouble=trouble)

    # ---- before the list is committed

    async def checked(self, session: AgentSession, reports: Sequence[Report]) -> list[Report]:
        """The reports that may be committed. One whose files are not all sealed waits until they have been sent again;
        when no agent may send them any more, it only says that the attempt is over."""
        ready = list[Report]()
        for report in reports:
            said = report.message
            if not isinstance(said, Exited) or not said.outputs or said.exit.failure is not None:
                ready.append(report)
            elif flaw := list_flaw(said.outputs, self.bytes_max):
                ended = replace(said.exit, failure="exit", message=f"its outputs cannot be kept: {flaw}")
                ready.append(replace(report, message=replace(said, exit=ended, outputs=())))
            elif not (missing := await self._missing(said)):
                ready.append(report)
            elif self._rights.may_upload(session, (report.ref, report.rank)):
                session.ending.discard((report.ref, report.rank))
                for ack in missing:
                    session.send(ack)
            else:
                ready.append(_over(report))
        return ready

    async def _missing(self, report: Exited) -> list[OutputAck]:
        ref, rank = report.ref, report.rank
        try:
            files: Sequence[OutputFile] = await self._blobs.unsealed(ref, report.outputs)
            trouble = "it was not kept"
        except (OSError, ValueError) as error:
            files, trouble = report.outputs[:1], f"the control plane cannot look for it: {_why(error)}"
        return [OutputAck(ref=ref, rank=rank, sha256=file.sha256, offset=0, trouble=trouble) for file in files]


def _ack(chunk: OutputChunk, offset: int, *, sealed: bool = False, trouble: str = "", refused: str = "") -> OutputAck:
    return OutputAck(
        ref=chunk.ref, rank=chunk.rank, sha256=chunk.sha256, offset=offset, seq=chunk.seq,
        sealed=sealed, trouble=trouble, refused=refused,
    )  # fmt: skip


def _over(report: Report) -> Report:
    reason = "its outputs were not all kept when it lost its place"
    over = Fenced(number=report.number or 0, ref=report.ref, rank=report.rank, reason=reason)
    return replace(report, message=over)


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
