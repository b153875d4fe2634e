"""A tenant's share of the server's time: measured step by step, waited for in a line of the tenant's own.

Turns bound how many requests of a tenant are served at a time, not how much each of them asks for. Here every step that
the event loop takes for a request is charged to its tenant; one that has had more than its share waits before its next
request and between the strides of a long one, while others are served."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from time import perf_counter
from types import coroutine
from typing import Any, TypeVar, cast

from ares.control.state.pacing import PACE
from ares.core.limits import ServerLimits, TimeShares
from ares.edge.rest.http.problems import Problem, retry_after
from ares.ports.telemetry import Telemetry

T = TypeVar("T")
# A write causes more work outside of its request: its transaction, the commit in the store's thread, the view, the
# scheduler's view and the audit log take as long as the request's own steps, and half as long again.
_WRITE_COSTS = 2.5
# A tenant beyond its share lets those pass that are within theirs, but never waits longer for them before a stride.
_YIELDS_S = 0.05
# The most that one step is charged. Long work goes in strides of a millisecond; a step that took longer than this was
# interrupted by other processes of a busy machine, which is not its tenant's use.
_STEP_MAX_S = 0.01


class Pacer:
    """The time of one server."""

    def __init__(self, limits: ServerLimits, telemetry: Telemetry) -> None:
        self._limits = limits
        self._telemetry = telemetry
        self._shares = TimeShares(limits.tenant_time_share, limits.tenant_time_burst_s)
        self.took = self._shares.took
        self._lines: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        # Requests in service of tenants that are within their share; set while there are none.
        self._light = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def serve(self, tenant: str, work: Coroutine[Any, Any, None], *, writes: bool = False) -> None:
        """Runs `work` and charges each of its steps."""
        self._shares.came(tenant, perf_counter())
        costs = _WRITE_COSTS if writes else 1.0
        PACE.set(PacedRequest(self, tenant, costs))
        await _stepped(work, self, tenant, costs)

    async def begin(self, tenant: str) -> bool:
        """Before a request is served. A tenant far over its share is refused with the time to try again. Returns
        whether the tenant is within its share, for `end`."""
        due_s = self._shares.wait_s(tenant, perf_counter())
        if not due_s and tenant not in self._lines:
            self._light += 1
            self._quiet.clear()
            return True
        if self._waiting.get(tenant, 0) >= self._limits.waiting_per_tenant_max:
            raise self._over(tenant, due_s)
        try:
            async with asyncio.timeout(self._limits.waiting_s):
                await self.wait(tenant)
        except TimeoutError:
            raise self._over(tenant, self._shares.wait_s(tenant, perf_counter())) from None
        return False

    def end(self, *, within_share: bool) -> None:
        """The request was served."""
        self._light -= within_share
        if not self._light:
            self._quiet.set()

    async def wait(self, tenant: str) -> None:
        """One of the tenant's after the other, each when its time has come."""
        line = self._lines.setdefault(tenant, asyncio.Lock())
        self._waiting[tenant] = self._waiting.get(tenant, 0) + 1
        try:
            async with line:
                while due_s := self._shares.wait_s(tenant, perf_counter()):
                    await asyncio.sleep(due_s)
                # A tenant with little work does not wait for these strides, only for the one that is being taken.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_YIELDS_S):
                        await self._quiet.wait()
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant], self._lines[tenant]

    @property
    def waiting(self) -> int:
        """Requests that wait for their tenant's time."""
        return sum(self._waiting.values())

    async def rest(self, tenant: str) -> None:
        if tenant in self._lines or self._shares.wait_s(tenant, perf_counter()):
            await self.wait(tenant)
        else:
            await asyncio.sleep(0)

    def _over(self, tenant: str, due_s: float) -> Problem:
        self._telemetry.count("ares_limited_total", 1, "time")
        share = f"{self._limits.tenant_time_share:.0%}"
        detail = f"the tenant {tenant} has had its share of the server's time ({share}) while others want theirs"
        return Problem("rate-limited", detail=detail, headers=retry_after(max(1.0, due_s)), reason="queue_full")


class PacedRequest:
    """One request's part in its tenant's share."""

    __slots__ = ("_costs", "_pacer", "_tenant")

    def __init__(self, pacer: Pacer, tenant: str, costs: float) -> None:
        self._pacer = pacer
        self._tenant = tenant
        self._costs = costs

    async def rest(self) -> None:
        await self._pacer.rest(self._tenant)

    async def charged(self, work: Coroutine[Any, Any, T]) -> T:
        return await _stepped(work, self._pacer, self._tenant, self._costs)


@coroutine
def _stepped(work: Coroutine[Any, Any, T], pacer: Pacer, tenant: str, costs: float) -> Generator[Any, Any, T]:
    """Awaits `work`, and charges its tenant for the time of each step. Waiting in between is free."""
    error: BaseException | None = None
    took = pacer.took
    while True:
        began = perf_counter()
        try:
            awaited = work.send(None) if error is None else work.throw(error)
        except StopIteration as done:
            return cast("T", done.value)
        finally:
            ended = perf_counter()
            step = ended - began
            took(tenant, costs * (step if step < _STEP_MAX_S else _STEP_MAX_S), ended)
        try:
            yield awaited
            error = None
        except BaseException as thrown:
            # Most likely a cancellation: it is passed on to the work.
            error = thrown


async def charged(work: Coroutine[Any, Any, T]) -> T:
    """For a task of its own within a request."""
    pace = PACE.get()
    return await (pace.charged(work) if isinstance(pace, PacedRequest) else work)
