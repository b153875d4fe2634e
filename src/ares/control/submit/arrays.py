"""Creates the tasks of an array once the array itself is durable."""

from collections.abc import Sequence

import msgspec
import structlog

from ares.control.state.commit import few_at_once
from ares.control.state.view import View
from ares.control.submit.draft import begin_ops
from ares.core import keys
from ares.core.admit.arrays import indices
from ares.core.lifecycle.graph import begin
from ares.core.lifecycle.inputs import Context, Stepped
from ares.model.job import JobSpec
from ares.model.state import ArrayRecord
from ares.ports.clock import Clock
from ares.ports.store import TXN_OPS_MAX, Committed, Compare, Put, Store, StoreError, StoreUnavailable, Unknown

log = structlog.get_logger()

_OPS_PER_TASK = 2
_LOOK_EVERY_S = 2.0
# Leave the submitter time to do it itself.
_PATIENCE_S = 5.0
_TRIES = 10


class Expanding:
    """Any replica may do it, several at once."""

    def __init__(self, store: Store, view: View, epoch: int) -> None:
        self._store = store
        self._view = view
        self._epoch = epoch
        self._encode = msgspec.json.Encoder().encode

    async def expand(self, array: ArrayRecord) -> None:
        """Creates the tasks that do not exist yet, then marks the array as whole. Safe to repeat."""
        # The header may change meanwhile: a person throttles the array. What is written goes by what it says then.
        for _ in range(_TRIES):
            if await self._expanded(array):
                return
        raise StoreUnavailable(f"array {array.id} changed {_TRIES} times while its tasks were written")

    async def _expanded(self, array: ArrayRecord) -> bool:
        """Whether all its tasks are there; not when its header changed meanwhile."""
        wanted = indices(array.indices)
        assert isinstance(wanted, tuple), f"array {array.id} was admitted with bad indices {array.indices!r}"
        header = await self._store.get(keys.array(array.tenant, array.id))
        kv = await self._store.get(keys.job(array.tenant, array.id))
        if header is None or kv is None or msgspec.json.decode(header.value, type=ArrayRecord).expanded:
            # Another replica made it whole; its tasks may even be forgotten again.
            return True
        # A late replica must not bring back tasks that were forgotten.
        unexpanded = Compare(header.key, "mod_revision", header.mod_revision)
        spec = self._view.decode_spec(kv.value)
        step = TXN_OPS_MAX // _OPS_PER_TASK
        chunks = [wanted[start : start + step] for start in range(0, len(wanted), step)]
        await few_at_once(lambda chunk: self._expand_chunk(array, unexpanded, spec, chunk), chunks)
        # As it is in the store: it may have been throttled since it was submitted.
        kept = msgspec.json.decode(header.value, type=ArrayRecord)
        done = msgspec.structs.replace(kept, expanded=True)
        written = await self._store.txn([unexpanded], [Put(header.key, self._encode(done))])
        if isinstance(written, Unknown):
            raise StoreUnavailable(f"array {array.id} is not confirmed to be whole: {written.why}")
        return written.succeeded

    async def _expand_chunk(self, array: ArrayRecord, unexpanded: Compare, spec: JobSpec, chunk: Sequence[int]) -> None:
        begun = [self._begin_task(array, spec, index) for index in chunk]
        absent = [Compare(keys.state(array.tenant, b.state.id), "mod_revision", 0) for b in begun]
        written = await self._store.txn([unexpanded, *absent], [op for b in begun for op in begin_ops(b, self._encode)])
        if isinstance(written, Committed) and written.succeeded:
            return
        if len(chunk) > 1:
            for index in chunk:
                await self._expand_chunk(array, unexpanded, spec, [index])
        elif isinstance(written, Unknown):
            # Only a task that is known to exist may be counted when the array is called whole.
            raise StoreUnavailable(f"array {array.id}: task {chunk[0]} is not confirmed: {written.why}")

    def _begin_task(self, array: ArrayRecord, spec: JobSpec, index: int) -> Stepped:
        return begin(
            id=f"{array.id}_{index}",
            tenant=array.tenant,
            spec=spec,
            name=array.name,
            submitted_by=array.submitted_by,
            submitter_id=array.submitter_id,
            trace=array.trace,
            context=Context(now=array.submitted_at, jitter=0.0, epoch=self._epoch),
            array=array.id,
            index=index,
            cost_estimate=array.cost_estimate,
            estimated_s=array.estimated_s,
            flow=array.flow,
        )


class Arrays:
    """Finishes arrays whose submitter died between acknowledging them and creating their tasks. Leader only."""

    def __init__(self, view: View, expanding: Expanding, clock: Clock) -> None:
        self._view = view
        self._expanding = expanding
        self._clock = clock

    async def run(self) -> None:
        first_seen: dict[str, float] = {}
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            now = self._clock.monotonic()
            waiting = [array for array in self._view.arrays.values() if not array.expanded]
            first_seen = {array.id: first_seen.get(array.id, now) for array in waiting}
            for array in waiting:
                if now - first_seen[array.id] < _PATIENCE_S:
                    continue
                try:
                    await self._expanding.expand(array)
                except StoreError as error:
                    log.warning("array.delayed", array=array.id, error=str(error))
