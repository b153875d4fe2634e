"""Which request is served next: a bounded number at a time, waiting ones in a queue per tenant, tenants in turn."""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

Full = Literal["tenant", "server"]

# One tenant may have this part of all places while other tenants are present: 1 in `SHARE`.
SHARE = 4
# How long a tenant counts as present.
_THERE_S = 1.0


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
