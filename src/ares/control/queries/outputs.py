"""Reading what jobs handed over: the files of the committed result, and no others."""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from ares.api.jobs import OutputList
from ares.control.state.view import View
from ares.core import keys
from ares.model.access import Principal
from ares.model.link import AttemptRef
from ares.model.state import TERMINAL, OutputFile, Result
from ares.ports.blobs import Blobs
from ares.ports.store import Store


class OpenOutput(msgspec.Struct, frozen=True, gc=False):
    """One file; `read` takes an offset and a limit."""

    file: OutputFile
    read: Callable[[int, int], Awaitable[bytes]]


class OutputReader:
    """Another tenant's job and one that does not exist are the same answer: None."""

    def __init__(self, store: Store, view: View, blobs: Blobs) -> None:
        self._store = store
        self._view = view
        self._blobs = blobs

    async def list(self, who: Principal, job: str) -> OutputList | None:
        await self._view.catch_up()
        entry = self._view.entries.get(job)
        if entry is None or entry.state.tenant != who.tenant:
            return None
        kv = await self._store.get(keys.result(who.tenant, job)) if entry.state.phase in TERMINAL else None
        if kv is None:
            return OutputList(job=job)
        result = msgspec.json.decode(kv.value, type=Result)
        return OutputList(
            job=job, committed=True, attempt=result.attempt, fence=result.fence, files=result.outputs
        )  # fmt: skip

    async def open(self, who: Principal, job: str, path: str) -> OpenOutput | None:
        """None also when the committed list does not have the path."""
        found = await self.list(who, job)
        file = next((file for file in found.files if file.path == path), None) if found is not None else None
        if found is None or file is None or found.fence is None:
            return None
        ref = AttemptRef(job=job, tenant=who.tenant, fence=found.fence)
        return OpenOutput(file, partial(self._blobs.read, ref, file.sha256))
