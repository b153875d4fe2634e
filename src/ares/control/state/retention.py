"""Deletes jobs long after they ended: records, ledger, result, request id, log and outputs together.

Leader only. A request id is forgotten with its job, so it protects from doubles for the job's life
plus the time kept.
"""

from collections.abc import Callable, Sequence

import msgspec
import structlog

from ares.control.state.view import StateEntry, View
from ares.core import keys
from ares.core.books.draft import book_day
from ares.core.quota.counts import rolled_up
from ares.core.quota.measures import month_of
from ares.model.quota import SpentRecord
from ares.model.state import TERMINAL, ArrayRecord, FlowRecord, JobState
from ares.ports.blobs import Blobs
from ares.ports.clock import Clock
from ares.ports.logs import Logs
from ares.ports.store import TXN_OPS_MAX, Compare, Delete, Op, Put, Store, StoreError

log = structlog.get_logger()

_LOOK_EVERY_S = 600.0
_BATCH = 1000


class Retention:
    """`keep_s` counts from the end of a job, by a clock that never runs ahead: a wrong clock would delete all jobs."""

    def __init__(
        self,
        store: Store,
        view: View,
        logs: Logs,
        blobs: Blobs,
        clock: Clock,
        keep_s: float,
        awaited: Callable[[str], bool],
        members: Callable[[str], Sequence[str]],
    ) -> None:
        # The jobs of a workflow that are kept.
        self._members = members
        # Whether a waiting job goes by this job or array: it is kept until that is decided.
        self._awaited = awaited
        self._store = store
        self._view = view
        self._logs = logs
        self._blobs = blobs
        self._clock = clock
        self._keep_s = keep_s

    async def run(self) -> None:
        while True:
            try:
                while await self.sweep():
                    continue
            except StoreError as error:
                log.warning("retention.delayed", error=str(error))
            await self._clock.sleep(_LOOK_EVERY_S)

    async def sweep(self) -> int:
        """Deletes some of the old jobs; returns how many."""
        before, closing = self._clock.wall() - self._keep_s, self._view.kept.closings.get(keys.BOOKS_CLOSING)
        old = [
            entry
            for entry in self._view.entries.values()
            if _ended_before(entry.state, before)
            and not self._is_awaited(entry.state)
            # A job is kept until a closed book counts it.
            and (closing is None or book_day(entry.state) <= closing.day)
        ][:_BATCH]
        for entry in old:
            await self._forget(entry)
        for array in list(self._view.arrays.values()):
            if array.expanded and array.submitted_at < before and not self._view.by_array.get(array.id):
                await self._forget_array(array)
        for flow in list(self._view.kept.flows.values()):
            if (flow.whole or flow.abandoned) and flow.submitted_at < before and not self._members(flow.id):
                await self._forget_flow(flow)
        await self._forget_months()
        # Otherwise the next look would find the same jobs again.
        await self._view.catch_up()
        if old:
            log.info("retention.swept", jobs=len(old))
        return len(old)

    def _is_awaited(self, state: JobState) -> bool:
        return self._awaited(state.id) or (state.array is not None and self._awaited(state.array))

    async def _forget(self, entry: StateEntry) -> None:
        state = entry.state
        own: list[Op] = [
            Delete(keys.state(state.tenant, state.id)),
            Delete(keys.job(state.tenant, state.id)),
            Delete(keys.job_events(state.tenant, state.id), prefix=True),
            Delete(keys.result(state.tenant, state.id)),
            Delete(keys.retry(state.tenant, state.id)),
            Delete(keys.job_checkpoints(state.tenant, state.id), prefix=True),
            Delete(keys.sealing(state.tenant, state.id)),
            # Another replica may have written it just before the job ended.
            Delete(keys.progress(state.tenant, state.id)),
        ]
        if state.request_id is not None:
            own.append(Delete(keys.request(state.tenant, state.request_id)))
        compares = [Compare(keys.state(state.tenant, state.id), "mod_revision", entry.mod_revision)]
        month = month_of(self._clock.wall())
        if month_of(state.ended_at or 0.0) == month:
            compare, put = await self._rolled_up(state, month)
            compares.append(compare)
            own.append(put)
        await self._store.txn(compares, own)
        try:
            self._logs.delete(state.tenant, state.id)
            await self._blobs.keep_only(state.tenant, state.id, None)
        except OSError as error:
            # Only logged: an error would end this loop, and with it the leadership.
            log.warning("retention.files_left", job=state.id, error=str(error))

    async def _rolled_up(self, state: JobState, month: str) -> tuple[Compare, Put]:
        """The usage record of the month: the job's use still counts for its tenant's quota."""
        key = keys.spent(state.tenant, month)
        kv = await self._store.get(key)
        before = SpentRecord(tenant=state.tenant, month=month)
        if kv is not None:
            before = msgspec.json.decode(kv.value, type=SpentRecord)
        compare = Compare(key, "mod_revision", 0 if kv is None else kv.mod_revision)
        return compare, Put(key, msgspec.json.encode(rolled_up(before, (state,))))

    async def _forget_months(self) -> None:
        """Deletes usage records of past months."""
        kept, month = self._view.kept, month_of(self._clock.wall())
        old = [
            Delete(keys.spent(record.tenant, record.month)) for record in kept.spent.values() if record.month < month
        ]
        old += [
            Delete(keys.meter(record.tenant, record.month, record.replica))
            for record in kept.meters.values()
            if record.month < month
        ]
        for start in range(0, len(old), TXN_OPS_MAX):
            await self._store.txn([], old[start : start + TXN_OPS_MAX])

    async def _forget_array(self, array: ArrayRecord) -> None:
        own: list[Op] = [Delete(keys.array(array.tenant, array.id)), Delete(keys.job(array.tenant, array.id))]
        if array.request_id is not None:
            own.append(Delete(keys.request(array.tenant, array.request_id)))
        await self._store.txn([], own)

    async def _forget_flow(self, flow: FlowRecord) -> None:
        own: list[Op] = [Delete(keys.flow(flow.tenant, flow.id))]
        if flow.request_id is not None:
            own.append(Delete(keys.request(flow.tenant, flow.request_id)))
        await self._store.txn([], own)


def _ended_before(state: JobState, moment: float) -> bool:
    ended = state.ended_at
    return state.phase in TERMINAL and not state.lingering and ended is not None and ended < moment
