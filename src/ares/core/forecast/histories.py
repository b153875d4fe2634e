"""The latest run times of each kind of job, kept for as many kinds as there is room for."""

from collections.abc import Mapping, Sequence

from ares.core.forecast.spread import KEPT, RecentValues

# The kind that was not seen for longest is forgotten first.
KINDS_MAX = 50_000
# Kinds with news that are remembered until the next look at waiting jobs.
_NEWS_MAX = 50_000


class RunHistories:
    """By key. Jobs alike often end together: what they took is added at once, when something is next asked."""

    __slots__ = ("_added", "_keys", "_news", "_values")

    def __init__(self, data: Mapping[str, Sequence[float]]) -> None:
        self._added = {key: RecentValues(values) for key, values in data.items()}
        # Keys that something was added to since it was last asked.
        self._news: set[str] = set()
        # The latest values, all of the same keys, that are in no history yet.
        self._keys: tuple[str, ...] = ()
        self._values: list[float] = []

    def add(self, keys: tuple[str, ...], value: float) -> None:
        if keys != self._keys or len(self._values) >= KEPT:
            self._settle()
            self._keys = keys
        self._values.append(value)

    @property
    def known(self) -> dict[str, RecentValues]:
        """All that was added; the key that was seen last is at the end."""
        if self._values:
            self._settle()
        return self._added

    def news(self) -> frozenset[str]:
        self._settle()
        found, self._news = frozenset(self._news), set()
        return found

    def _settle(self) -> None:
        keys, values, self._values = self._keys, self._values, []
        if not values:
            return
        if len(self._news) < _NEWS_MAX:
            self._news.update(keys)
        for key in keys:
            recent = self._added.pop(key, None)
            if recent is None:
                recent = RecentValues()
            recent.add(*values)
            self._added[key] = recent
            while len(self._added) > KINDS_MAX:
                del self._added[next(iter(self._added))]
