"""Removes files that no result points to: of attempts that were not committed, once their job has ended."""

import asyncio

import msgspec
import structlog

from ares.control.state.checkpoint_cleanup import CheckpointCleanup
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.model.job import JobSpec
from ares.model.state import TERMINAL, Fence, JobState, Result
from ares.ports.blobs import Blobs
from ares.ports.clock import Clock, happens
from ares.ports.store import Store, StoreError

log = structlog.get_logger()

_LOOK_EVERY_S = 600.0
# Younger files may belong to a job that this replica has not seen yet.
_GRACE_S = 3600.0


class Leftovers:
    """Each replica cleans up after jobs whose files came through it, and after crashes of any replica."""

    def __init__(self, store: Store, view: View, blobs: Blobs, clock: Clock, checkpoints: CheckpointCleanup) -> None:
        self._store = store
        self._checkpoints = checkpoints
        self._view = view
        self._blobs = blobs
        self._clock = clock
        self._open: set[tuple[str, str]] = set()
        self._ended: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()
        view.subscribe(self._on_delta)

    def note(self, tenant: str, job: str) -> None:
        """Files of this job are being stored."""
        self._open.add((tenant, job))

    def _on_delta(self, delta: Delta) -> None:
        if not self._open:
            return
        for _, entry in delta.states:
            job = (entry.state.tenant, entry.state.id)
            if job in self._open and entry.state.phase in TERMINAL:
                self._open.discard(job)
                self._ended.add(job)
                self._wake.set()

    async def run(self) -> None:
        look_at = self._clock.monotonic() + _LOOK_EVERY_S
        while True:
            await happens(self._wake, self._clock, look_at - self._clock.monotonic())
            self._wake.clear()
            ended, self._ended = self._ended, set()
            try:
                for job in ended:
                    await self.settle(*job)
                if self._clock.monotonic() >= look_at:
                    look_at = self._clock.monotonic() + _LOOK_EVERY_S
                    await self.sweep()
            except (OSError, StoreError) as error:
                # They are found again by their age.
                log.warning("leftovers.delayed", error=str(error))

    async def sweep(self) -> None:
        """Removes files that a crash of this or another replica left."""
        for job in await self._blobs.unsettled(_GRACE_S):
            await self.settle(*job)

    async def settle(self, tenant: str, job: str) -> None:
        """Removes all files of an ended job but those that its result points to, and the checkpoints that it leaves."""
        entry = self._view.entries.get(job)
        if entry is None or (entry.state.phase in TERMINAL and entry.state.checkpoint is None):
            await self._blobs.keep_only(tenant, job, await self._committed(tenant, job))
        elif entry.state.phase in TERMINAL:
            kept = await self._checkpoints.ended(entry.state, await self._spec(entry.state))
            await self._blobs.keep_only(tenant, job, await self._committed(tenant, job), kept)

    async def _spec(self, state: JobState) -> JobSpec | None:
        known = self._view.spec(state)
        if known is not None:
            return known
        kv = await self._store.get(keys.job(state.tenant, state.array or state.id))
        return None if kv is None else self._view.decode_spec(kv.value)

    async def _committed(self, tenant: str, job: str) -> Fence | None:
        kv = await self._store.get(keys.result(tenant, job))
        result = None if kv is None else msgspec.json.decode(kv.value, type=Result)
        return result.fence if result is not None and result.outputs else None
