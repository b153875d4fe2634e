"""The way of a job as a trace, read from its ledger and the decision that gave it its place."""

import asyncio
import contextlib
from typing import Final

import msgspec

from ares.api.telemetry.traces import JobTrace, TraceSpan
from ares.control.scheduler.decisions import Decisions
from ares.control.state.view import View
from ares.core import keys
from ares.core.trace.spans import DecisionFacts, job_trace
from ares.model.access import Principal
from ares.model.state import JobState, LedgerEvent
from ares.model.telemetry.program_span import ProgramSpan
from ares.ports.clock import Clock
from ares.ports.logs import Logs
from ares.ports.store import Store

# Of all ranks and attempts of a job.
_READ_BYTES_MAX: Final = 4 << 20
_decode = msgspec.json.Decoder(tuple[ProgramSpan, ...]).decode


def _shown(span: ProgramSpan, attempt: int, rank: int) -> TraceSpan:
    return TraceSpan(
        name="program", label=span.name, span_id=span.span_id, parent_id=span.parent_id, began_at=span.began_at,
        ended_at=span.ended_at, attempt=attempt, rank=rank, status=span.status, message=span.message,
        attributes=span.attributes,
    )  # fmt: skip


class Traces:
    """Reads wait until the view holds everything acknowledged before the call."""

    def __init__(self, store: Store, view: View, decisions: Decisions, logs: Logs, clock: Clock, cluster: str) -> None:
        self._store = store
        self._logs = logs
        self._view = view
        self._decisions = decisions
        self._clock = clock
        self._cluster = cluster

    async def of(self, who: Principal, job_id: str) -> JobTrace | None:
        """None where the tenant has no such job."""
        await self._view.catch_up()
        entry = self._view.entries.get(job_id)
        return None if entry is None or entry.state.tenant != who.tenant else await self.whole(entry.state)

    async def whole(self, state: JobState) -> JobTrace:
        page = await self._store.range(keys.job_events(state.tenant, state.id))
        events = [msgspec.json.decode(kv.value, type=LedgerEvent) for kv in page.kvs]
        retried = None if state.retry_of is None else self._view.entries.get(state.retry_of)
        return job_trace(
            state, events, self._clock.wall(), await self._decision(state, events), self._cluster,
            None if retried is None or retried.state.tenant != state.tenant else retried.state,
            await asyncio.to_thread(self._recorded, state),
        )  # fmt: skip

    def _recorded(self, state: JobState) -> list[TraceSpan]:
        """By the job's program. Lines that cannot be read are left out: a full disk may have cut one off."""
        found: list[TraceSpan] = []
        with contextlib.suppress(OSError):
            for attempt, rank, data in self._logs.spans(state.tenant, state.id, _READ_BYTES_MAX):
                for line in data.splitlines():
                    with contextlib.suppress(msgspec.DecodeError):
                        found += [_shown(span, attempt, rank) for span in _decode(line)]
        return found

    async def _decision(self, state: JobState, events: list[LedgerEvent]) -> DecisionFacts | None:
        """Of the newest attempt. Decisions lie on the disk of the replica that led then: another one has none."""
        if not any(event.kind == "bound" for event in events):
            return None
        found = await self._decisions.find(state.id)
        if found is None or found.job != state.id:
            return None
        facts: dict[str, str | int | float] = {
            "profile": found.profile_version, "nodes_passing": found.considered.passing,
        }  # fmt: skip
        return DecisionFacts(found.id, found.at, facts)
