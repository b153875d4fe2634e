"""Sends jobs back to the queue when their backoff is over. Leader only; timers are monotonic.

A tenant has a limit of retries per minute: jobs that fail again and again cost all tenants. Beyond it a circuit
breaker delays all retries of the tenant, and raises an alert."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable

import structlog

from ares.control.execution.transitions import JobChange, Transitions
from ares.control.governance.alerts import Alerts
from ares.control.state.view import Delta, View
from ares.core.lifecycle.inputs import RetryDue
from ares.core.lifecycle.retry import Breaker, ask, closed
from ares.model.state import JobState
from ares.ports.clock import Clock, happens
from ares.ports.store import StoreError

log = structlog.get_logger()

_STORE_PAUSE_S = 0.5
RETRIES_PER_MINUTE = 600
STORM = "retry-storm"


# What becomes of a job that ran out of memory before it is repeated, and what its ledger says to that.
Grow = Callable[[JobState], Awaitable[tuple[JobState, str]]]


async def _as_it_is(state: JobState) -> tuple[JobState, str]:
    return state, ""


class Requeue:
    """A new leader starts every backoff anew: late is safe, early is not."""

    def __init__(
        self,
        view: View,
        transitions: Transitions,
        clock: Clock,
        alerts: Alerts,
        per_minute: int = RETRIES_PER_MINUTE,
        grow: Grow | None = None,
    ) -> None:
        self._grow = grow or _as_it_is
        self._view = view
        self._transitions = transitions
        self._clock = clock
        self._alerts = alerts
        self._per_minute = per_minute
        # By tenant, and the tenants whose breaker tripped without an alert yet.
        self._breakers: dict[str, Breaker] = {}
        self._tripped: list[str] = []
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
            self._breakers.clear()

    async def _run(self) -> None:
        for entry in self._view.entries.values():
            self._arm(entry.state)
        while True:
            await self._sleep()
            ready = self._take_due()
            await self._tell()
            try:
                await self._transitions.apply([await self._change(state) for state in ready])
            except StoreError as error:
                log.warning("requeue.delayed", count=len(ready), error=str(error))
                await self._clock.sleep(_STORE_PAUSE_S)
                for state in ready:
                    self._arm(state)

    async def _change(self, state: JobState) -> JobChange:
        note = ""
        if state.exit is not None and state.exit.failure == "oom":
            state, note = await self._grow(state)
        return JobChange(state.id, state.tenant, (RetryDue(seq=state.seq, note=note),))

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
            if entry is None or entry.state.phase != "RETRYING" or entry.state.seq != seq:
                continue
            wait_s = self._pause_s(entry.state, now)
            if wait_s:
                heapq.heappush(self._due, (now + wait_s, job, seq))
            else:
                ready.append(entry.state)
        return ready

    # ---- storms

    def _pause_s(self, state: JobState, now: float) -> float:
        """How long its tenant's retries pause. What was lost with a node is not its tenant's doing."""
        if state.exit is not None and state.exit.failure == "node-lost":
            return 0.0
        before = self._breakers.get(state.tenant) or closed(now, self._per_minute)
        after, goes = ask(before, now, self._per_minute)
        self._breakers[state.tenant] = after
        if goes:
            return 0.0
        if after is not before:
            self._tripped.append(state.tenant)
        return after.open_until - now

    async def _tell(self) -> None:
        tripped, self._tripped = self._tripped, []
        for tenant in tripped:
            pause_s = self._breakers[tenant].open_until - self._clock.monotonic()
            text = (
                f"jobs of tenant {tenant} fail and are retried more than {self._per_minute} times a minute: its "
                f"retries pause for {pause_s:.0f} s; see why they fail (`ares jobs --phase RETRYING`) or cancel them"
            )
            numbers = {
                "perMinute": self._per_minute,
                "pauseS": round(pause_s, 1),
                "until": self._clock.wall() + pause_s,
            }
            await self._alerts.raise_(STORM, tenant, f"tenants/{tenant}", text, numbers)
