"""A new job that goes on from another's checkpoint: it gets the files for itself, before it exists."""

from ares.control.state.checkpoint_cleanup import checkpoints_of
from ares.control.state.view import View
from ares.control.submit.draft import Draft
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.base import CheckpointRef
from ares.model.checkpoint import CheckpointId, CheckpointRecord, RestoreFrom
from ares.ports.blobs import Blobs
from ares.ports.store import Store


class Restores:
    """What a job gets of another stays its own: whatever becomes of the other, it can begin."""

    def __init__(self, store: Store, view: View, blobs: Blobs) -> None:
        self._store = store
        self._view = view
        self._blobs = blobs

    async def find(self, tenant: str, wish: RestoreFrom) -> CheckpointRecord | Refusal:
        """The checkpoint that is meant, of a job of the tenant."""
        entry = self._view.entries.get(wish.job)
        if entry is None or entry.state.tenant != tenant:
            await self._view.catch_up()
            entry = self._view.entries.get(wish.job)
        if entry is None or entry.state.tenant != tenant:
            return _missing(f"restoreFrom names job {wish.job!r}, which is not there")
        known = await checkpoints_of(self._store, tenant, wish.job)
        whole = [record for record in known if record.pointer.id not in entry.state.damaged]
        if wish.seq is not None:
            whole = [record for record in whole if record.pointer.seq == wish.seq]
        if whole:
            return whole[-1]
        kept = ", ".join(str(record.pointer.seq) for record in known) or "none"
        which = "no checkpoint" if wish.seq is None else f"no checkpoint {wish.seq}"
        return _missing(f"job {wish.job} has {which} that is whole; kept: {kept}")

    async def adopt(self, draft: Draft | Refusal) -> Draft | Refusal:
        """Gives the files to the new job, before it is written."""
        if isinstance(draft, Refusal) or draft.restores is None or draft.checked.restores is None:
            return draft
        tenant, before = draft.checked.who.tenant, draft.checked.restores
        source = _ref(tenant, before.job, before.pointer.id)
        try:
            await self._blobs.adopt(source, _ref(tenant, draft.job, draft.restores.pointer.id))
        except FileNotFoundError:
            return _missing(f"checkpoint {source.seq} of job {source.job} was removed just now")
        except OSError as error:
            message = f"the files of the checkpoint cannot be taken over: {error.strerror or error}"
            return Refusal(code="store-unavailable", message=message)
        # A record goes before its files do: while it is there, none of them was missed.
        if await self._store.get(keys.checkpoint(tenant, before.job, before.pointer.id)) is None:
            return _missing(f"checkpoint {source.seq} of job {source.job} was removed just now")
        return draft


def _ref(tenant: str, job: str, checkpoint: CheckpointId) -> CheckpointRef:
    return CheckpointRef(job=job, tenant=tenant, fence=checkpoint.fence, seq=checkpoint.seq)


def _missing(message: str) -> Refusal:
    return Refusal(code="checkpoint-missing", message=message, fix="`ares checkpoints JOB` lists those that are kept")
