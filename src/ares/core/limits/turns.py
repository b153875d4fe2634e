"""Who is served next: a bounded number at a time, those who wait in one queue per tenant, the tenants in turn."""

from collections import deque
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

Full = Literal["tenant", "server"]


class Turns(Generic[T]):
    """A tenant that floods lengthens its own queue only: in each round one of every tenant that waits is served."""

    def __init__(self, at_once: int, waiting_max: int, waiting_per_tenant_max: int) -> None:
        self._at_once = at_once
        self._waiting_max = waiting_max
        self._per_tenant_max = waiting_per_tenant_max
        # In the order of their turns: who is first is served next, and goes to the end with the rest of its queue.
        self._queues: dict[str, deque[T]] = {}
        self.served = 0
        self.waiting = 0

    def enter(self) -> bool:
        """A turn at once, when there is room. Nobody waits while there is."""
        if self.served < self._at_once:
            self.served += 1
            return True
        return False

    def full(self, tenant: str) -> Full | None:
        """Whose queue has no room for one more."""
        queue = self._queues.get(tenant)
        if queue is not None and len(queue) >= self._per_tenant_max:
            return "tenant"
        return "server" if self.waiting >= self._waiting_max else None

    def wait(self, tenant: str, who: T) -> None:
        self._queues.setdefault(tenant, deque()).append(who)
        self.waiting += 1

    def leave(self) -> T | None:
        """Ends a turn. Who is returned has it now."""
        if not self._queues:
            self.served -= 1
            return None
        tenant, queue = next(iter(self._queues.items()))
        del self._queues[tenant]
        following = queue.popleft()
        self.waiting -= 1
        if queue:
            self._queues[tenant] = queue
        return following

    def forget(self, tenant: str, who: T) -> None:
        """One that waited no longer does. It may have been passed over already."""
        queue = self._queues.get(tenant)
        if queue is None or who not in queue:
            return
        queue.remove(who)
        self.waiting -= 1
        if not queue:
            del self._queues[tenant]
