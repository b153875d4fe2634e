"""Workflows whose submission broke off."""

import contextlib

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.flow.flow_index import FlowIndex
from ares.control.state.view import View
from ares.core import keys
from ares.model.state import FlowRecord
from ares.ports.clock import Clock
from ares.ports.store import Committed, Compare, Put, Store, StoreError

log = structlog.get_logger()

_LOOK_EVERY_S = 5.0
# So long the submitter may take to come back with the same request.
PATIENCE_S = 120.0


class AbandonedFlows:
    """Gives up workflows whose submission broke off. Leader only; its jobs are skipped by the releases."""

    def __init__(self, store: Store, view: View, index: FlowIndex, clock: Clock) -> None:
        self._store = store
        self._view = view
        self._index = index
        self._clock = clock

    async def run(self) -> None:
        # With the number of its jobs then: a submission that gets on is not given up, however long it takes.
        since: dict[str, tuple[float, int]] = {}
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            now, flows = self._clock.monotonic(), self._view.kept.flows
            # The record with its own revision: while one is written, others change.
            waiting = [(f, flows.revisions[f.id]) for f in flows.values() if not f.whole and not f.abandoned]
            since = {flow.id: self._progress(flow.id, since.get(flow.id), now) for flow, _ in waiting}
            for flow, revision in waiting:
                if now - since[flow.id][0] >= PATIENCE_S:
                    await self._give_up(flow, revision)

    def _progress(self, flow: str, known: tuple[float, int] | None, now: float) -> tuple[float, int]:
        size = self._index.size(flow)
        return known if known is not None and size <= known[1] else (now, size)

    async def _give_up(self, flow: FlowRecord, revision: int) -> None:
        key = keys.flow(flow.tenant, flow.id)
        given_up = msgspec.json.encode(replace(flow, abandoned=True, asked={}))
        with contextlib.suppress(StoreError):
            written = await self._store.txn([Compare(key, "mod_revision", revision)], [Put(key, given_up)])
            if isinstance(written, Committed) and written.succeeded:
                log.warning("flow.abandoned", flow=flow.id, jobs=flow.jobs)
