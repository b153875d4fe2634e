"""Checkpoints for attempts: an agent reads those of a job that runs on its node, and of no other."""

from collections.abc import AsyncIterator

import msgspec

from ares.control.state.checkpoint_cleanup import checkpoints_of
from ares.control.state.view import View
from ares.core.lifecycle.ranks import place_of
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.base import CheckpointRef
from ares.model.checkpoint import CheckpointAsk, CheckpointPart, CheckpointRecord, RestorableCheckpoint
from ares.model.link import FetchPiece, FetchRequest
from ares.model.state import BOUND, JobState
from ares.ports.blobs import Blobs, SignedReads
from ares.ports.store import Store
from ares.ports.telemetry import Telemetry

_PIECE_BYTES = 1 << 20
# Some three MiB: an agent takes four.
_PARTS_LISTED_MAX = 20_000
_encode = msgspec.json.Encoder().encode
_NOT_GRANTED = Refusal(code="forbidden", message="no attempt on this node has this checkpoint", reason="not_granted")


class Restoring:
    """One for all agents of a replica."""

    def __init__(
        self, store: Store, view: View, blobs: Blobs, telemetry: Telemetry, signed: SignedReads | None = None
    ) -> None:
        self._signed = signed
        self._store = store
        self._view = view
        self._blobs = blobs
        self._telemetry = telemetry

    async def fetch(
        self, who: Principal, asked: FetchRequest, ask: CheckpointAsk
    ) -> AsyncIterator[FetchPiece] | Refusal:
        """What an attempt may go on from, the newest first, or bytes of one file."""
        state = self._granted(who, asked)
        if state is None:
            # The grant may have come to another replica a moment ago.
            await self._view.catch_up()
            state = self._granted(who, asked)
        if state is None:
            return _NOT_GRANTED
        if ask.checkpoint is None or ask.sha256 is None:
            records = await checkpoints_of(self._store, state.tenant, state.id)
            spec = self._view.spec(state)
            alone = spec is None or spec.checkpoint is None or not spec.checkpoint.all_ranks
            return _listed(_restorable(records, state, asked.rank if alone else None), ask)
        ref = CheckpointRef(job=state.id, tenant=state.tenant, fence=ask.checkpoint.fence, seq=ask.checkpoint.seq)
        if asked.direct and self._signed is not None and ask.length:
            return _address(self._signed.blob(ref, ask.sha256), ask)
        return self._bytes(ref, ask.sha256, ask.offset, ask.length)

    def _granted(self, who: Principal, asked: FetchRequest) -> JobState | None:
        """The job, if the attempt is its current one and has this rank on the caller's node."""
        entry = self._view.entries.get(asked.ref.job)
        if entry is None:
            return None
        state = entry.state
        place = place_of(state.placements, asked.rank)
        granted = state.phase in BOUND and state.fence == asked.ref.fence and state.tenant == asked.ref.tenant
        return state if granted and place is not None and place.node == who.node else None

    async def _bytes(self, ref: CheckpointRef, sha256: str, offset: int, length: int) -> AsyncIterator[FetchPiece]:
        """Raises OSError where it cannot be read now: that is no damage, and the agent asks again."""
        end = offset + length
        while offset < end:
            try:
                data = await self._blobs.read(ref, sha256, offset, min(_PIECE_BYTES, end - offset))
            except FileNotFoundError:
                yield FetchPiece(sha256=sha256, data=b"", trouble="it is not kept any more")
                return
            if not data:
                return
            self._telemetry.count("ares_restored_bytes_total", len(data))
            yield FetchPiece(sha256=sha256, data=data)
            offset += len(data)


def _restorable(records: list[CheckpointRecord], state: JobState, rank: int | None) -> list[RestorableCheckpoint]:
    """Without those that are known to be damaged. All ranks of a gang go on from the same. `rank`: whose part is wanted
    where there is one for each; None: all of them."""
    found, listed = list[RestorableCheckpoint](), 0
    for record in reversed(records):
        if record.pointer.id in state.damaged or record.pointer.fence >= state.fence:
            continue
        parts = _parts(record, len(state.placements), rank)
        listed += len(parts)
        if found and listed > _PARTS_LISTED_MAX:
            break
        found.append(RestorableCheckpoint(pointer=record.pointer, parts=parts, ranks=len(record.parts)))
    return found


def _parts(record: CheckpointRecord, ranks: int, rank: int | None) -> tuple[CheckpointPart, ...]:
    if rank is None or len(record.parts) != ranks:
        return record.parts
    own = tuple(part for part in record.parts if part.rank == rank)
    return own or record.parts


async def _address(url: str, ask: CheckpointAsk) -> AsyncIterator[FetchPiece]:
    """One that is not there is asked for again, and then told to be missing."""
    yield FetchPiece(sha256=ask.sha256 or "", data=b"", url=url, offset=ask.offset, size=ask.length)


async def _listed(found: list[RestorableCheckpoint], ask: CheckpointAsk) -> AsyncIterator[FetchPiece]:
    """After a connection that broke only the rest is asked for."""
    yield FetchPiece(sha256="", data=_encode(found)[ask.offset : ask.offset + ask.length])
