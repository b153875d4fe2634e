"""Sends traces of jobs that have ended to a collector: all that went wrong, and some of the others.

The replica that wrote a job's end sends its trace. What waits is in memory: a collector that is away for long, or the
death of the replica, costs traces of the collector's, and nothing of Ares: they are told by ledgers.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import structlog

from ares.api.telemetry.traces import JobTrace
from ares.control.queries.traces import Traces
from ares.control.telemetry.looks import guarded
from ares.core.trace.forms import otlp
from ares.core.trace.tail import TailReason, TailRules, worth_telling
from ares.model.state import JobState
from ares.ports.clock import Clock
from ares.ports.store import StoreError
from ares.ports.telemetry import Collector, NotTaken, Telemetry

log = structlog.get_logger()

WAITING_MAX: Final = 10_000
_BATCH_JOBS: Final = 100
_BATCH_SPANS: Final = 5000
# Jobs end in waves: a batch waits for company, and the last words of the job are in the ledger by then.
_EVERY_S: Final = 1.0
_AGAIN_S: Final = (1.0, 2.0, 5.0, 15.0, 60.0)


class TraceExport:
    """`ended` is to be told of jobs that have just ended; `run` sends."""

    def __init__(
        self, traces: Traces, collector: Collector, rules: TailRules, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._traces = traces
        self._collector = collector
        self._rules = rules
        self._clock = clock
        self._telemetry = telemetry
        self._waiting: deque[tuple[JobState, TailReason]] = deque()
        # In a row.
        self._failures = 0

    def ended(self, states: Sequence[JobState]) -> None:
        for state in states:
            reason = worth_telling(state, self._rules)
            if reason is None:
                continue
            if len(self._waiting) >= WAITING_MAX:
                # The newest are kept: they are what is looked for.
                self._waiting.popleft()
                self._telemetry.count("ares_traces_dropped_total", 1)
            self._waiting.append((state, reason))

    async def run(self) -> None:
        while True:
            pause_s = _AGAIN_S[min(self._failures, len(_AGAIN_S)) - 1] if self._failures else _EVERY_S
            await self._clock.sleep(pause_s)
            await guarded("traces", self._flush, self._telemetry)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._send()
            self._failures = 0
        except (NotTaken, StoreError) as error:
            self._failures += 1
            self._telemetry.count("ares_exports_failed_total", 1, "traces")
            log.warning("traces.unsent", why=str(error), waiting=len(self._waiting))

    async def _send(self) -> None:
        taken: list[tuple[JobState, TailReason]] = []
        traces: list[JobTrace] = []
        while self._waiting and len(traces) < _BATCH_JOBS and sum(len(t.spans) for t in traces) < _BATCH_SPANS:
            taken.append(self._waiting.popleft())
            try:
                traces.append(await self._traces.whole(taken[-1][0]))
            except StoreError:
                self._waiting.extendleft(reversed(taken))
                raise
        try:
            await self._collector.take(otlp(*traces))
        except NotTaken as refused:
            if refused.final:
                self._telemetry.count("ares_traces_dropped_total", len(taken))
            else:
                self._waiting.extendleft(reversed(taken))
            raise
        for _, reason in taken:
            self._telemetry.count("ares_traces_exported_total", 1, reason)
