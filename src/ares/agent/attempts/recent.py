"""A memory of bounded size, and what an agent remembers of the commands it was given."""

from typing import Final, Generic, TypeVar

from ares.model.base import AttemptRef, Fence
from ares.model.link import Start

K = TypeVar("K")
V = TypeVar("V")


class RecentSet(Generic[K, V]):
    """Keeps the newest `limit` entries."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def put(self, key: K, value: V) -> None:
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]


# Attempts remembered after their end, so that a command that is repeated late does no harm.
_REMEMBERED: Final = 100_000


class CommandMemory:
    """Which attempts ended here, which were told to stop, and the newest of each job."""

    def __init__(self) -> None:
        self._over: RecentSet[tuple[AttemptRef, int], None] = RecentSet(_REMEMBERED)
        # By attempt and rank. A rank of None stands for every rank.
        self._stopped: RecentSet[tuple[AttemptRef, int | None], None] = RecentSet(_REMEMBERED)
        self._newest: RecentSet[str, Fence] = RecentSet(_REMEMBERED)

    def started(self, ref: AttemptRef) -> None:
        self._newest.put(ref.job, ref.fence)

    def stopped(self, ref: AttemptRef, rank: int | None) -> None:
        self._stopped.put((ref, rank), None)

    def ended(self, ref: AttemptRef, rank: int) -> None:
        self._over.put((ref, rank), None)

    def objection(self, start: Start, *, heard: bool) -> str:
        """Why a Start must not be carried out, or nothing. `heard`: its end was acknowledged just now."""
        key = (start.ref, start.placement.rank)
        if heard or key in self._over:
            # The control plane acknowledged its end and asks for it again: it was restored from an older snapshot.
            return "it ended here before, and its report is lost"
        newest = self._newest.get(start.ref.job)
        stopped = key in self._stopped or (start.ref, None) in self._stopped
        older = newest is not None and start.ref.fence < newest
        return "a newer command for this job came first" if stopped or older else ""
