"""Limits of one caller: rates, requests at a time, and bytes of bodies.

They are decided from a few numbers in memory, before a body is read: refusing must cost less than serving.
"""

import asyncio
import ipaddress
from collections import Counter
from typing import Any, Literal, get_args

from litestar.types import Scope

from ares.core.limits import Buckets, FairTurns, Full, ServerLimits
from ares.edge.rest.http.pacing import Pacer
from ares.edge.rest.http.problems import Problem, retry_after
from ares.model.access import Principal
from ares.ports.clock import Clock
from ares.ports.telemetry import Telemetry

# Bodies up to this size are not counted: connections bound them well enough.
_SMALL_BYTES = 64 * 1024
# A client that is refused for lack of room tries again after this.
_ROOM_AGAIN_S = 1.0

Kind = Literal["read", "write", "public"]


class Meter:
    """Every limit of one app on what callers ask of it."""

    def __init__(self, limits: ServerLimits, clock: Clock, telemetry: Telemetry) -> None:
        self._limits = limits
        self._clock = clock
        self._telemetry = telemetry
        self._tenants = Buckets[str](limits.tenant_requests_per_s, limits.tenant_requests_burst)
        # A user's name is unique in its tenant only.
        self._principals = Buckets[tuple[str, str]](limits.principal_requests_per_s, limits.principal_requests_burst)
        self._jobs = Buckets[str](limits.jobs_per_s, limits.jobs_burst)
        self._anonymous = Buckets[str](limits.anonymous_per_s, limits.anonymous_burst)
        self._failures = Buckets[str](limits.failures_per_s, limits.failures_burst)
        self._refusals = Buckets[str](limits.refusals_per_s, limits.refusals_burst)
        # Separate lanes: a store that does not answer stops writes, but not reads from memory.
        self._lanes = {kind: Lane(limits, clock, telemetry) for kind in get_args(Kind)}
        self.pacer = Pacer(limits, telemetry)
        self._bytes: Counter[str] = Counter()

    # ---- rates

    def lane(self, kind: Kind) -> "Lane":
        return self._lanes[kind]

    def admit(self, who: Principal, kind: Kind) -> None:
        """One request of a caller that is known."""
        now = self._clock.monotonic()
        tenant = payer(who)
        if wait_s := self._tenants.take(tenant, now):
            raise self._over("rate", f"the tenant {tenant}", "requests", self._tenants, wait_s)
        if wait_s := self._principals.take((tenant, who.subject), now):
            raise self._over("rate", "this credential", "requests", self._principals, wait_s)
        self._lanes[kind].check(tenant)

    def submit(self, who: Principal, jobs: int) -> None:
        tenant = payer(who)
        if wait_s := self._jobs.take(tenant, self._clock.monotonic(), jobs):
            raise self._over("rate", f"the tenant {tenant}", "submitted jobs", self._jobs, wait_s)

    def anonymous(self, scope: Scope) -> None:
        """One request without a credential."""
        if wait_s := self._anonymous.take(address(scope), self._clock.monotonic()):
            raise self._over("throttle", "your address", "requests without a credential", self._anonymous, wait_s)

    def failed(self, scope: Scope) -> None:
        """One request with a credential that is not valid."""
        if wait_s := self._failures.take(address(scope), self._clock.monotonic()):
            raise self._over("throttle", "your address", "wrong credentials", self._failures, wait_s)

    def guesses(self, scope: Scope) -> bool:
        """Whether its address has used up its wrong credentials. A valid one is still accepted: guesses from an address
        must not lock out other callers there."""
        return self._failures.empty(address(scope), self._clock.monotonic())

    async def hold(self, key: str) -> None:
        """Delays refusals. The first ones are answered at once; a client that goes on waits for each."""
        if self._refusals.take(key, self._clock.monotonic()):
            await self._clock.sleep(self._limits.refusal_hold_s)

    def _over(self, reason: str, whose: str, what: str, bucket: Buckets[Any], wait_s: float) -> Problem:
        self._telemetry.count("ares_limited_total", 1, reason)
        return Problem(
            "rate-limited",
            detail=f"{whose} is over {bucket.per_s:,.0f} {what}/s (a burst of {bucket.burst:,.0f} is allowed)",
            headers={
                **retry_after(wait_s),
                "ratelimit-limit": f"{bucket.burst:.0f}",
                "ratelimit-remaining": "0",
                "ratelimit-reset": str(max(1, round(wait_s))),
            },
            reason=reason,
        )

    # ---- bytes of bodies

    @property
    def receiving(self) -> int:
        """Bytes that are kept for bodies."""
        return self._bytes.total()

    def keep(self, who: Principal, size: int) -> int:
        """Keeps room for a body until it is served. Returns what `free` has to give back."""
        if size <= _SMALL_BYTES:
            return 0
        tenant, total = payer(who), self.receiving
        if self._bytes[tenant] + size > self._limits.tenant_body_mib_max << 20:
            raise self._heavy("rate-limited", self._bytes[tenant])
        if total + size > self._limits.body_mib_max << 20:
            raise self._heavy("overloaded", total)
        self._bytes[tenant] += size
        return size

    def free(self, who: Principal, kept: int) -> None:
        tenant = payer(who)
        self._bytes[tenant] -= kept
        if not self._bytes[tenant]:
            del self._bytes[tenant]

    def _heavy(self, code: str, held: int) -> Problem:
        self._telemetry.count("ares_limited_total", 1, "bytes")
        detail = f"bodies of {held >> 20:,} MiB are being received already"
        # Its body is not wanted now, and may be long.
        headers = {**retry_after(_ROOM_AGAIN_S), "connection": "close"}
        return Problem(code, detail=detail, headers=headers, reason="queue_full")


class Lane:
    """Requests of one kind: a bounded number is served at a time, the tenants in turn."""

    def __init__(self, limits: ServerLimits, clock: Clock, telemetry: Telemetry) -> None:
        self._limits = limits
        self._clock = clock
        self._telemetry = telemetry
        self._turns: FairTurns[asyncio.Future[None]] = FairTurns(
            limits.served_at_once, limits.waiting_max, limits.waiting_per_tenant_max
        )

    @property
    def waiting(self) -> int:
        return self._turns.waiting

    async def begin(self, who: Principal) -> None:
        """Takes a place among the requests in service, after a wait if needed. `end` gives it back."""
        tenant = payer(who)
        if not self._turns.enter(tenant, self._clock.monotonic()):
            await self._wait(tenant)

    def end(self, who: Principal) -> None:
        """The place goes to the next that still waits for it."""
        self._pass_on(payer(who))

    def _pass_on(self, tenant: str) -> None:
        gone = [tenant]
        while gone:
            for other, following in self._turns.leave(gone.pop(), self._clock.monotonic()):
                if following.done():
                    gone.append(other)
                else:
                    following.set_result(None)

    def check(self, tenant: str) -> None:
        """Raises Problem when too many requests wait already."""
        if (full := self._turns.full(tenant)) is not None:
            raise self._crowded(full)

    async def _wait(self, tenant: str) -> None:
        self.check(tenant)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.wait(tenant, place)
        try:
            async with asyncio.timeout(self._limits.waiting_s):
                await place
        except BaseException as error:
            if place.cancelled():
                self._turns.forget(tenant, place)
            else:
                # The turn came in the same moment: it goes to the next one.
                self._pass_on(tenant)
            if isinstance(error, TimeoutError):
                raise self._crowded("server") from None
            raise

    def _crowded(self, full: Full) -> Problem:
        self._telemetry.count("ares_limited_total", 1, "queue_full")
        if full == "tenant":
            detail = f"{self._limits.waiting_per_tenant_max:,} requests of the tenant wait already"
            return Problem("rate-limited", detail=detail, headers=retry_after(_ROOM_AGAIN_S), reason="queue_full")
        detail = f"{self._turns.waiting:,} requests wait, {self._turns.served} are served"
        return Problem("overloaded", detail=detail, headers=retry_after(_ROOM_AGAIN_S), reason="queue_full")


def lane_of(method: str) -> Kind:
    return "read" if method == "GET" else "write"


def payer(who: Principal) -> str:
    """The tenant whose share a request takes: the caller's own, also while it acts in another."""
    return who.home or who.tenant


def address(scope: Scope) -> str:
    """The address of the client; for IPv6 its network, since one client has all of it."""
    client = scope["client"]
    host = client[0] if client else ""
    if ":" not in host:
        return host
    try:
        found = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(found.ipv4_mapped or ipaddress.IPv6Network((found, 64), strict=False))
