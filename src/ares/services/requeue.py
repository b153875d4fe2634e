"""Sends jobs back to the queue when their backoff is over. Leader only; timers are monotonic."""

import asyncio
import heapq

import structlog

from ares.core.run.inputs import RetryDue
from ares.model.state import JobState
from ares.ports.clock import Clock
from ares.ports.store import StoreError
from ares.services.transitions import Change, Transitions
from ares.services.view import Delta, View
from ares.services.waiting import happens

log = structlog.get_logger()

_STORE_PAUSE_S = 0.5


class Requeue:
    """A new leader starts every backoff anew: late is safe, early is not."""

    def __init__(self, view: View, transitions: Transitions, clock: Clock) -> None:
        self._view = view
        self._transitions = transitions
        self._clock = clock
        self._due: list[tuple[float, str, int]] = []
        self._changed = asyncio.Event()
        self._leading = False
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        for _, entry in delta.states if self._leading else ():
            self._arm(entry.state)

    def _arm(self, state: JobState) -> None:
        # While anything of the last attempt may run, no backoff runs: it begins with the last rank's release.
        if state.phase != "RETRYING" or state.lingering:
            return
        heapq.heappush(self._due, (self._clock.monotonic() + state.retry_delay_s, state.id, state.seq))
        self._changed.set()

    async def run(self) -> None:
        self._leading = True
        try:
            await self._run()
        finally:
            self._leading = False
            self._due.clear()

    async def _run(self) -> None:
        for entry in self._view.entries.values():
            self._arm(entry.state)
        while True:
            await self._sleep()
            ready = self._take_due()
            try:
                await self._transitions.apply([Change(s.id, s.tenant, (RetryDue(seq=s.seq),)) for s in ready])
            except StoreError as error:
                log.warning("requeue.delayed", count=len(ready), error=str(error))
                await self._clock.sleep(_STORE_PAUSE_S)
                for state in ready:
                    self._arm(state)

    async def _sleep(self) -> None:
        self._changed.clear()
        if not self._due:
            await self._changed.wait()
            return
        wait_s = self._due[0][0] - self._clock.monotonic()
        if wait_s > 0:
            await happens(self._changed, self._clock, wait_s)

    def _take_due(self) -> list[JobState]:
        now = self._clock.monotonic()
        ready: list[JobState] = []
        while self._due and self._due[0][0] <= now:
            _, job, seq = heapq.heappop(self._due)
            entry = self._view.entries.get(job)
            if entry is not None and entry.state.phase == "RETRYING" and entry.state.seq == seq:
                ready.append(entry.state)
        return ready
