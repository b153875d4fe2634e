"""A memory of bounded size."""

from typing import Generic, TypeVar

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
