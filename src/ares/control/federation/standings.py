"""How far jobs have come in this cluster, as the global plane is told."""

import asyncio

import msgspec
from msgspec.structs import replace

from ares.control.federation.bounds import size_of
from ares.control.state.view import View
from ares.core import keys
from ares.core.lifecycle.ledger import nodes_of
from ares.model.cluster_link import (
    DATA_BYTES_MAX,
    ENTRIES_MAX,
    REASON_MAX,
    TAIL_BYTES_MAX,
    LedgerLine,
    LocalJob,
    OwnedEnd,
    OwnedStanding,
    SpentThere,
)
from ares.model.state import TERMINAL, JobState, LedgerEvent, RequestRecord, Result, Spent
from ares.model.uplink import OfferedJob
from ares.ports.logs import Logs
from ares.ports.store import Store

_NODES_MAX = 1000
# What one report says of a job, beyond which the rest follows, or stays in the cluster.
_ENTRIES_BYTES_MAX = 256 * 1024
_RESULT_BYTES_MAX = 512 * 1024


class Standings:
    def __init__(self, store: Store, view: View, logs: Logs) -> None:
        self._store = store
        self._view = view
        self._logs = logs

    async def of(self, state: JobState, epoch: int, since: int) -> OwnedStanding:
        """With the ledger after `since`. Of many entries only the first: the rest follows when these are noted."""
        events = await self._events(state, since)
        whole = not events or events[-1].seq >= state.seq
        result = await self._result(state) if whole and state.phase in TERMINAL else None
        tail = await asyncio.to_thread(self._tail, state) if whole and state.phase in TERMINAL else b""
        return OwnedStanding(
            job=state.id, epoch=epoch, fence=state.fence, seq=state.seq if whole else events[-1].seq, since=since,
            phase=state.phase if whole else events[-1].phase, entries=tuple(_entry(event) for event in events),
            attempt=state.attempt, restarts=state.restarts, preemptions=state.preemptions,
            reason=state.reason[:REASON_MAX], exit=state.exit, bound_at=state.bound_at, started_at=state.started_at,
            ended_at=state.ended_at if whole else None, gpu_s=state.gpu_s, cpu_s=state.cpu_s,
            spent=tuple(map(_spent, state.spent[:1000])),
            output_bytes=state.output_bytes, lingering=state.lingering,
            nodes=tuple(nodes_of(state.placements))[:_NODES_MAX], ended=result, tail=tail,
        )  # fmt: skip

    async def _events(self, state: JobState, since: int) -> list[LedgerEvent]:
        prefix = keys.job_events(state.tenant, state.id)
        after = keys.event(state.tenant, state.id, since) if since else ""
        page = await self._store.range(prefix, after=after, limit=ENTRIES_MAX)
        found = [msgspec.json.decode(kv.value, type=LedgerEvent) for kv in page.kvs]
        # The ledger may be ahead of the state that the view has.
        told, room = list[LedgerEvent](), _ENTRIES_BYTES_MAX
        for event in found:
            room -= min(DATA_BYTES_MAX, size_of(event.data) or 0) + len(event.reason[:REASON_MAX])
            if event.seq > state.seq or (told and room < 0):
                break
            told.append(event)
        return told

    async def _result(self, state: JobState) -> OwnedEnd | None:
        kv = await self._store.get(keys.result(state.tenant, state.id))
        if kv is None:
            return None
        found = msgspec.json.decode(kv.value, type=Result)
        ended = OwnedEnd(
            exit=found.exit, committed_at=found.committed_at, value=found.value, outputs=found.outputs[:10_000]
        )
        if (size_of(ended) or 0) <= _RESULT_BYTES_MAX:
            return ended
        # What is greater stays in the cluster, where it can be read: a list of files before the job's own value.
        ended = replace(ended, outputs=())
        return ended if (size_of(ended) or 0) <= _RESULT_BYTES_MAX else replace(ended, value=None)

    def _tail(self, state: JobState) -> bytes:
        """The end of what its first rank wrote."""
        try:
            size = self._logs.size(state.tenant, state.id, state.attempt, 0)
            begin = max(0, size - TAIL_BYTES_MAX)
            return self._logs.read(state.tenant, state.id, state.attempt, 0, begin, size - begin)
        except OSError:
            return b""

    async def local(self, state: JobState, epoch: int = 0) -> LocalJob | None:
        """A job with all that the global plane needs to know of it."""
        kv = await self._store.get(keys.job(state.tenant, state.array or state.id))
        if kv is None:
            return None
        request = await self._request(state)
        return LocalJob(
            offer=OfferedJob(
                job=state.id, tenant=state.tenant, name=state.name, spec=kv.value, fence=state.fence,
                submitted_by=state.submitted_by[:256], submitter_id=state.submitter_id, trace=state.trace,
                submitted_at=state.submitted_at, cost_estimate=state.cost_estimate, estimated_s=state.estimated_s,
            ),
            standing=await self.of(state, epoch, 0), request_id=state.request_id if request else None, request=request,
        )  # fmt: skip

    async def _request(self, state: JobState) -> RequestRecord | None:
        if state.request_id is None or len(state.request_id) > 200:
            return None
        kv = await self._store.get(keys.request(state.tenant, state.request_id))
        return None if kv is None else msgspec.json.decode(kv.value, type=RequestRecord)


def _spent(used: Spent) -> SpentThere:
    return SpentThere(
        pool=used.pool, gpu_model=used.gpu_model, gpu_s=max(0.0, used.gpu_s), cpu_s=max(0.0, used.cpu_s),
        energy_j=max(0.0, used.energy_j), cost=max(0.0, used.cost), fate=used.fate,
    )  # fmt: skip


def _entry(event: LedgerEvent) -> LedgerLine:
    data = event.data if (size_of(event.data) or 0) <= DATA_BYTES_MAX else {"truncated": True}
    return LedgerLine(
        seq=event.seq, kind=event.kind, phase=event.phase, at=event.at, attempt=event.attempt, fence=event.fence,
        by=event.by[:256], reason=event.reason[:REASON_MAX], data=data,
    )  # fmt: skip
