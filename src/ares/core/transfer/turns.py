"""Whose bytes go next over a node's link: deficit round robin between tenants, each within its rate.

Time comes in by the caller, from a clock that never jumps: by the wall clock, setting it would stop a tenant, or let it
take an hour's bytes at once.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

CHUNK_BYTES: Final = 256 << 10
# The rest of the link is for what does not pass here: renewals, logs, jobs themselves.
LINK_SHARE: Final = 0.9
# A tenant may be ahead of its rate by what it moves in this time.
BURST_S: Final = 0.2
# Of work that must be done before a job gives up its place: it goes first, still within the tenant's rate.
URGENT_WEIGHT: Final = 4
# To wait less is not worth the way.
_WAIT_MIN_S: Final = 0.001

T = TypeVar("T")


class RateBucket:
    """Bytes that may be moved now, and more with time. A piece that is larger than the burst needs a full bucket, and
    the next one waits for all of it."""

    __slots__ = ("_at", "_level", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate = max(rate, 1.0)
        self._level, self._at = rate * BURST_S, now

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._level = min(self.rate * BURST_S, self._level + (now - self._at) * self.rate)
            self._at = now

    def short_s(self, size: int, now: float) -> float:
        """In how many seconds a piece of that size may go; 0 when now."""
        self._fill(now)
        # Rounding must not refuse what is there.
        short = min(size, self.rate * BURST_S) - self._level - 1.0
        return max(0.0, short / self.rate)

    def spend(self, size: int) -> None:
        self._level -= size

    def change(self, rate: float, now: float) -> None:
        """From now on at another rate. What was there or owed stays, up to the new burst."""
        self._fill(now)
        self.rate = rate = max(rate, 1.0)
        self._level = min(self._level, rate * BURST_S)


class PieceGrant(NamedTuple, Generic[T]):
    """The piece that goes now. `last`: all that was asked for is granted with it."""

    tenant: str
    size: int
    asker: T
    last: bool


class TurnWait(NamedTuple):
    """No piece may go for so long."""

    seconds: float


class _Wish(Generic[T]):
    __slots__ = ("asker", "left")

    def __init__(self, asker: T, left: int) -> None:
        self.asker = asker
        self.left = left


class _TenantFlow(Generic[T]):
    __slots__ = ("deficit", "urgent", "usual")

    def __init__(self) -> None:
        self.deficit = 0
        self.urgent: deque[_Wish[T]] = deque()
        self.usual: deque[_Wish[T]] = deque()

    @property
    def queue(self) -> deque[_Wish[T]]:
        return self.urgent or self.usual


class TransferTurns(Generic[T]):
    """The state that `pick` goes by. `link_rate`: bytes per second that all tenants share, 0 for no such limit."""

    def __init__(self, link_rate: float, now: float) -> None:
        self._link = RateBucket(link_rate * LINK_SHARE, now) if link_rate else None
        # Of tenants with a rate of their own.
        self._buckets: dict[str, RateBucket] = {}
        self._weights: dict[str, int] = {}
        # Tenants with bytes that wait, in the order of their turns.
        self._flows: dict[str, _TenantFlow[T]] = {}
        self._order: deque[str] = deque()

    def limited(self, tenant: str) -> bool:
        return self._link is not None or tenant in self._buckets

    def rate(self, tenant: str) -> float:
        """The tenant's own; 0 for none."""
        bucket = self._buckets.get(tenant)
        return 0.0 if bucket is None else bucket.rate

    def set_rate(self, tenant: str, rate: float | None, now: float, weight: int = 1) -> None:
        """The tenant's rate in bytes per second, None for none, and its part of what is left of the link."""
        known = self._buckets.get(tenant)
        if rate is None:
            self._buckets.pop(tenant, None)
        elif known is None:
            self._buckets[tenant] = RateBucket(rate, now)
        elif known.rate != rate:
            known.change(rate, now)
        if weight == 1:
            self._weights.pop(tenant, None)
        else:
            self._weights[tenant] = weight

    def ask(self, tenant: str, size: int, asker: T, *, urgent: bool = False) -> None:
        """Queues a wish. `pick` grants it piece by piece."""
        flow = self._flows.get(tenant)
        if flow is None:
            flow = self._flows[tenant] = _TenantFlow()
            self._order.append(tenant)
        (flow.urgent if urgent else flow.usual).append(_Wish(asker, size))

    def forget(self, tenant: str, asker: T) -> None:
        """The rest of a wish is not wanted any more."""
        flow = self._flows.get(tenant)
        if flow is None:
            return
        for wishes in (flow.urgent, flow.usual):
            for wish in [wish for wish in wishes if wish.asker is asker]:
                wishes.remove(wish)
        if not flow.queue:
            self._drop(tenant)

    def waiting(self) -> Iterator[tuple[str, T, int]]:
        """Bytes that wait: whose, by whom they were asked for, and how many."""
        for tenant, flow in self._flows.items():
            for wish in (*flow.urgent, *flow.usual):
                yield tenant, wish.asker, wish.left

    def pick(self, now: float) -> PieceGrant[T] | TurnWait | None:
        """The next piece, or how long none may go; None when none is asked for."""
        soonest = None
        for tenant in self._order:
            flow = self._flows[tenant]
            size = min(CHUNK_BYTES, flow.queue[0].left)
            bucket = self._buckets.get(tenant)
            short_s = 0.0 if bucket is None else bucket.short_s(size, now)
            if short_s > 0.0:
                # What a tenant may not use now is for the others. It keeps its place: it would lose some of its rate
                # if it had to wait for a whole round as well.
                soonest = short_s if soonest is None else min(soonest, short_s)
                continue
            if self._link is not None and (short_s := self._link.short_s(size, now)) > 0.0:
                return TurnWait(max(_WAIT_MIN_S, short_s))
            return self._grant(tenant, flow, size, bucket)
        return None if soonest is None else TurnWait(max(_WAIT_MIN_S, soonest))

    def _grant(self, tenant: str, flow: _TenantFlow[T], size: int, bucket: RateBucket | None) -> PieceGrant[T]:
        if flow.deficit < size:
            # Once is enough: no piece is larger than a chunk, and no weight smaller than 1.
            flow.deficit += CHUNK_BYTES * self._weights.get(tenant, 1) * (URGENT_WEIGHT if flow.urgent else 1)
        flow.deficit -= size
        for spent in (bucket, self._link):
            if spent is not None:
                spent.spend(size)
        wish = flow.queue[0]
        wish.left -= size
        if last := wish.left == 0:
            flow.queue.popleft()
        if not flow.queue:
            self._drop(tenant)
        elif flow.deficit < min(CHUNK_BYTES, flow.queue[0].left):
            self._order.remove(tenant)
            self._order.append(tenant)
        return PieceGrant(tenant, size, wish.asker, last)

    def _drop(self, tenant: str) -> None:
        del self._flows[tenant]
        self._order.remove(tenant)
