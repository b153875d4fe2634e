"""How much each tenant and client may have: rates, shares of a server's time, and turns."""

from collections import Counter, deque
from collections.abc import Hashable, Sequence
from typing import Annotated, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

# ---- how much of a server each client may have; what is over it is refused with a time to come again

_PerSecond = Annotated[float, Meta(gt=0.0, le=10_000_000.0)]
_Burst = Annotated[float, Meta(ge=1.0, le=100_000_000.0)]
_Count = Annotated[int, Meta(ge=1, le=10_000_000)]
_Seconds = Annotated[float, Meta(gt=0.0, le=3600.0)]


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Per replica. The defaults are wide: they stop floods, not work."""

    # Requests of one tenant, and of one user or token.
    tenant_requests_per_s: _PerSecond = 4000.0
    tenant_requests_burst: _Burst = 8000.0
    principal_requests_per_s: _PerSecond = 2000.0
    principal_requests_burst: _Burst = 4000.0
    # Jobs that one tenant submits, each job of a batch counted.
    jobs_per_s: _PerSecond = 10_000.0
    jobs_burst: _Burst = 50_000.0
    # Requests of one address without a credential, and requests with a wrong one.
    anonymous_per_s: _PerSecond = 200.0
    anonymous_burst: _Burst = 1000.0
    failures_per_s: _PerSecond = 20.0
    failures_burst: _Burst = 100.0
    # Refusals that one tenant or address gets at once; each beyond is held back for `refusal_hold_s`, so a flood ebbs.
    refusals_per_s: _PerSecond = 50.0
    refusals_burst: _Burst = 200.0
    refusal_hold_s: _Seconds = 1.0
    # Requests served at a time; the others wait, each tenant in a queue of its own, and are served in turn.
    served_at_once: _Count = 32
    waiting_max: _Count = 4000
    waiting_per_tenant_max: _Count = 500
    # A request that got no turn for this long is refused.
    waiting_s: _Seconds = 1.5
    # Event, log and output streams that one tenant has open.
    streams_per_tenant_max: _Count = 400
    # The part of a server's time that one tenant may have while others are present, and how far ahead it may be.
    tenant_time_share: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.25
    tenant_time_burst_s: _Seconds = 0.1
    # Bytes of large bodies that are being received.
    body_mib_max: _Count = 256
    tenant_body_mib_max: _Count = 64
    # Open connections, in all and of one address.
    connections_max: _Count = 10_000
    connections_per_address_max: _Count = 2000
    # The time for the head of a request, and the number and bytes of its headers.
    head_s: _Seconds = 10.0
    headers_max: _Count = 100
    head_kib_max: _Count = 64


DEFAULT_LIMITS: Final = ServerLimits()

# ---- rates


K = TypeVar("K", bound=Hashable)

# Below this many keys nothing is swept.
_SWEEP_MIN = 1024


class Buckets(Generic[K]):
    """A bucket per key. Full buckets are not kept: memory is bounded by what was taken lately."""

    __slots__ = ("_burst_s", "_each_s", "_full_at", "_sweep_at", "burst", "per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s = per_s
        self.burst = burst
        self._each_s = 1.0 / per_s
        self._burst_s = burst / per_s
        # When each bucket will be full again.
        self._full_at: dict[K, float] = {}
        self._sweep_at = _SWEEP_MIN

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: K, now: float, cost: float = 1.0) -> float:
        """Takes `cost` and returns 0, or takes nothing and returns in how many seconds there will be enough.
        A cost larger than a bucket is met by a full bucket."""
        full_at = self._full_at.get(key, now)
        after = (full_at if full_at > now else now) + min(cost, self.burst) * self._each_s
        # Rounding must not refuse the last of a burst.
        short_s = after - now - self._burst_s
        if short_s > 1e-9:
            return short_s
        self._full_at[key] = after
        if len(self._full_at) > self._sweep_at:
            self._sweep(now)
        return 0.0

    def left(self, key: K, now: float) -> float:
        """How much could be taken now."""
        return max(0.0, self.burst - max(0.0, self._full_at.get(key, now) - now) * self.per_s)

    def empty(self, key: K, now: float) -> bool:
        """Whether not even one token could be taken."""
        return self._full_at.get(key, now) - now + self._each_s - self._burst_s > 1e-9

    def _sweep(self, now: float) -> None:
        self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        # Twice the number of keys left: each key is swept a bounded number of times, however many there are.
        self._sweep_at = max(_SWEEP_MIN, 2 * len(self._full_at))


# ---- shares of time


# How long a tenant counts as present.
_THERE_S = 1.0
# No debt lasts longer: what a tenant took while no other was present is forgiven.
_OWED_S = 2.0


class TimeShares:
    """Each tenant has a share of the time, and may be ahead of it by a burst. A lone tenant may have all of it."""

    __slots__ = ("_burst_s", "_even_at", "_last", "_other", "_share", "_sweep_at")

    def __init__(self, share: float, burst_s: float) -> None:
        self._share = share
        self._burst_s = burst_s / share
        # When each tenant will have had no more than its share.
        self._even_at: dict[str, float] = {}
        self._sweep_at = _SWEEP_MIN
        # The latest two tenants that came, and when.
        self._last = self._other = ("", float("-inf"))

    def __len__(self) -> int:
        return len(self._even_at)

    def came(self, tenant: str, now: float) -> None:
        if tenant != self._last[0]:
            self._other = self._last
        self._last = (tenant, now)

    def took(self, tenant: str, seconds: float, now: float) -> None:
        """The server worked for the tenant so long."""
        even_at = self._even_at.get(tenant, now)
        even_at = (even_at if even_at > now else now) + seconds / self._share
        latest = now + self._burst_s + _OWED_S
        self._even_at[tenant] = even_at if even_at < latest else latest
        if len(self._even_at) > self._sweep_at:
            self._even_at = {name: at for name, at in self._even_at.items() if at > now}
            self._sweep_at = max(_SWEEP_MIN, 2 * len(self._even_at))

    def wait_s(self, tenant: str, now: float) -> float:
        """How long the tenant has to leave the server to others; 0 when there are none."""
        ahead_s = self._even_at.get(tenant, now) - now - self._burst_s
        if ahead_s <= 0.0:
            return 0.0
        other = self._other if self._last[0] == tenant else self._last
        return 0.0 if now - other[1] >= _THERE_S else ahead_s


# ---- turns


T = TypeVar("T")

Full = Literal["tenant", "server"]

# One tenant may have this part of all places while other tenants are present: 1 in `SHARE`.
SHARE = 4


class FairTurns(Generic[T]):
    """A tenant that floods lengthens its own queue only: each round serves one request of every tenant that waits.
    Alone it may have all places; beside others a part of them, so that a tenant that comes finds some free."""

    def __init__(self, at_once: int, waiting_max: int, waiting_per_tenant_max: int) -> None:
        self._at_once = at_once
        self._share = max(1, at_once // SHARE)
        self._waiting_max = waiting_max
        self._per_tenant_max = waiting_per_tenant_max
        # In the order of their turns: the first tenant is served next, and goes to the end with the rest of its queue.
        self._queues: dict[str, deque[T]] = {}
        self._held: Counter[str] = Counter()
        # The tenant that came last, and when a tenant last came after another.
        self._last = ""
        self._shared_at = float("-inf")
        self.served = 0
        self.waiting = 0

    def enter(self, tenant: str, now: float) -> bool:
        """A turn at once, when there is room and no request of the tenant waits."""
        if tenant != self._last:
            self._shared_at = now if self._last else self._shared_at
            self._last = tenant
        if tenant in self._queues or not self._may(tenant, now):
            return False
        self._begin(tenant)
        return True

    def full(self, tenant: str) -> Full | None:
        """Which queue has no room for one more: the tenant's, or the server's."""
        queue = self._queues.get(tenant)
        if queue is not None and len(queue) >= self._per_tenant_max:
            return "tenant"
        return "server" if self.waiting >= self._waiting_max else None

    def wait(self, tenant: str, who: T) -> None:
        self._queues.setdefault(tenant, deque()).append(who)
        self.waiting += 1

    def leave(self, tenant: str, now: float) -> Sequence[tuple[str, T]]:
        """Ends a turn. The requests returned have one now."""
        self.served -= 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        following: list[tuple[str, T]] = []
        while self._queues and (found := self._next(now)) is not None:
            following.append(found)
        return following

    def forget(self, tenant: str, who: T) -> None:
        """A request no longer waits. It may have been passed over already."""
        queue = self._queues.get(tenant)
        if queue is None or who not in queue:
            return
        queue.remove(who)
        self.waiting -= 1
        if not queue:
            del self._queues[tenant]

    def _may(self, tenant: str, now: float) -> bool:
        most = self._share if now - self._shared_at < _THERE_S else self._at_once
        return self.served < self._at_once and self._held[tenant] < most

    def _begin(self, tenant: str) -> None:
        self.served += 1
        self._held[tenant] += 1

    def _next(self, now: float) -> tuple[str, T] | None:
        # Only tenants with a whole share are passed by: these are few.
        tenant = next((name for name in self._queues if self._may(name, now)), None)
        if tenant is None:
            return None
        queue = self._queues.pop(tenant)
        who = queue.popleft()
        self.waiting -= 1
        if queue:
            self._queues[tenant] = queue
        self._begin(tenant)
        return tenant, who
