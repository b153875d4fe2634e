"""Reading which checkpoints of a job are kept."""

from ares.api.jobs import CheckpointList, CheckpointView
from ares.control.state.checkpoint_cleanup import checkpoints_of
from ares.control.state.view import View
from ares.model.access import Principal
from ares.model.checkpoint import CheckpointRecord
from ares.model.state import JobState
from ares.ports.store import Store


class CheckpointReader:
    """Another tenant's job and one that does not exist are the same answer: None."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view

    async def list(self, who: Principal, job: str) -> CheckpointList | None:
        await self._view.catch_up()
        entry = self._view.entries.get(job)
        if entry is None or entry.state.tenant != who.tenant:
            return None
        records = await checkpoints_of(self._store, who.tenant, job)
        return CheckpointList(job=job, checkpoints=tuple(_shown(record, entry.state) for record in reversed(records)))


def _shown(record: CheckpointRecord, state: JobState) -> CheckpointView:
    pointer, newest = record.pointer, state.checkpoint
    return CheckpointView(
        number=pointer.seq, fence=pointer.fence, step=pointer.step, bytes=pointer.size, ranks=len(record.parts),
        manifest=pointer.manifest, taken_at=pointer.taken_at, stall_s=pointer.stall_s, upload_s=pointer.upload_s,
        metrics=record.metrics, newest=newest is not None and newest.id == pointer.id,
        damaged=pointer.id in state.damaged, origin=record.origin,
    )  # fmt: skip
