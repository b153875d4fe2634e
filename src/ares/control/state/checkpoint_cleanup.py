"""Removes checkpoints that are not to be kept: records first, in a transaction of their own after the pointer's, then
the files."""

import asyncio

import msgspec
import structlog

from ares.control.state.view import View
from ares.core import keys
from ares.core.checkpoint import retained
from ares.core.lifecycle.ranks import size_limits
from ares.model.base import CheckpointRef
from ares.model.checkpoint import CheckpointId, CheckpointKeep, CheckpointRecord
from ares.model.job import JobSpec
from ares.model.state import BOUND, TERMINAL, JobState
from ares.ports.blobs import Blobs
from ares.ports.clock import Clock
from ares.ports.store import TXN_OPS_MAX, Compare, Delete, Store, StoreError

log = structlog.get_logger()

_AGAIN_S = 5.0
_decode = msgspec.json.Decoder(CheckpointRecord).decode


def _may_restore(state: JobState, spec: JobSpec | None) -> bool:
    """Whether ranks may still go on from what was there before the attempt: those of an elastic gang as it grows."""
    least, most = (1, 1) if spec is None else size_limits(spec)
    return state.phase == "STAGING" or (state.phase in BOUND and least < most)


async def checkpoints_of(store: Store, tenant: str, job: str) -> list[CheckpointRecord]:
    """All that are kept of a job, the oldest first."""
    page = await store.range(keys.job_checkpoints(tenant, job))
    return [_decode(kv.value) for kv in page.kvs]


class CheckpointCleanup:
    """Each replica tidies up after checkpoints that were committed through it. What a crash leaves is found with the
    job's next checkpoint, or at its end."""

    def __init__(self, store: Store, view: View, blobs: Blobs, clock: Clock) -> None:
        self._store = store
        self._view = view
        self._blobs = blobs
        self._clock = clock
        self._saved: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()

    def saved(self, tenant: str, job: str) -> None:
        """The job has a newer checkpoint."""
        self._saved.add((tenant, job))
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            jobs, self._saved = self._saved, set()
            left = set[tuple[str, str]]()
            for job in jobs:
                try:
                    await self.trim(*job)
                except (OSError, StoreError) as error:
                    # Those of other jobs do not wait for it.
                    log.warning("checkpoints.left", job=job[1], error=str(error))
                    left.add(job)
            if left:
                self._saved |= left
                await self._clock.sleep(_AGAIN_S)
                self._wake.set()

    async def trim(self, tenant: str, job: str) -> None:
        """Removes what is not to be kept of a job that lives. What may still become its newest stays."""
        entry = self._view.entries.get(job)
        if entry is None or entry.state.phase in TERMINAL or entry.state.checkpoint is None:
            # Its end removes the rest.
            return
        state, newest = entry.state, entry.state.checkpoint.id
        kept = await self._kept(entry.mod_revision, state, self._view.spec(state), live=True)
        for there in await self._blobs.checkpoints(tenant, job):
            if there < newest and there not in kept:
                await self._blobs.remove(CheckpointRef(job=job, tenant=tenant, fence=there.fence, seq=there.seq))

    async def ended(self, state: JobState, spec: JobSpec | None) -> frozenset[CheckpointId]:
        """Of a job that has ended: the checkpoints that it leaves. The records of others are gone by then."""
        if state.checkpoint is None:
            return frozenset()
        entry = self._view.entries.get(state.id)
        return await self._kept(None if entry is None else entry.mod_revision, state, spec, live=False)

    async def _kept(
        self, revision: int | None, state: JobState, spec: JobSpec | None, *, live: bool
    ) -> frozenset[CheckpointId]:
        """`revision`: the state's. None: the job is not there any more."""
        records = await checkpoints_of(self._store, state.tenant, state.id)
        policy = None if spec is None else spec.checkpoint
        keep = CheckpointKeep() if policy is None else policy.keep
        restoring = state.fence if _may_restore(state, spec) else None
        kept = retained(records, keep, live=live, restoring=restoring)
        drop = [record.pointer.id for record in records if record.pointer.id not in kept]
        key = keys.state(state.tenant, state.id)
        for begin in range(0, len(drop), TXN_OPS_MAX):
            gone = [
                Delete(keys.checkpoint(state.tenant, state.id, known)) for known in drop[begin : begin + TXN_OPS_MAX]
            ]
            compares = [] if revision is None else [Compare(key, "mod_revision", revision)]
            written = await self._store.txn(compares, gone)
            if not getattr(written, "succeeded", False):
                # The job went on meanwhile, or it is not known: nothing of it is removed now.
                return frozenset(record.pointer.id for record in records)
        return kept
