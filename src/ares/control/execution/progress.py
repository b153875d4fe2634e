"""Progress of running jobs: only the newest matters, so it is written at most once a second."""

import msgspec
import structlog

from ares.control.state.view import View
from ares.core import keys
from ares.model.link import Progress
from ares.model.state import BOUND, ProgressRecord
from ares.ports.clock import Clock
from ares.ports.store import Compare, Put, Store, StoreError

log = structlog.get_logger()

_EVERY_S = 1.0


class ProgressBoard:
    """Collects notes and writes the latest of each job, guarded by the attempt still being current."""

    def __init__(self, store: Store, view: View, clock: Clock) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._latest: dict[str, Progress] = {}

    def note(self, progress: Progress) -> None:
        """Takes the progress of a job. In a gang the first rank counts."""
        entry = self._view.entries.get(progress.ref.job)
        if entry is not None and entry.state.placements and entry.state.placements[0].rank == progress.rank:
            self._latest[progress.ref.job] = progress

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            latest, self._latest = self._latest, {}
            for progress in latest.values():
                try:
                    await self._write(progress)
                except StoreError as error:
                    log.warning("progress.dropped", job=progress.ref.job, error=str(error))

    async def _write(self, progress: Progress) -> None:
        entry = self._view.entries.get(progress.ref.job)
        if entry is None or entry.state.phase not in BOUND or entry.state.fence != progress.ref.fence:
            return
        record = ProgressRecord(
            job=progress.ref.job,
            fence=progress.ref.fence,
            fraction=progress.fraction,
            message=progress.message,
            at=self._clock.wall(),
        )
        tenant, job = entry.state.tenant, entry.state.id
        await self._store.txn(
            [Compare(keys.state(tenant, job), "mod_revision", entry.mod_revision)],
            [Put(keys.progress(tenant, job), msgspec.json.encode(record))],
        )
