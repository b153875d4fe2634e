"""Nodes that did not take a pod there was room for: each gets nothing for a while, twice as long each time."""

from typing import Final

FIRST_S: Final = 5.0
MOST_S: Final = 300.0


class Refusals:
    """By the name of the node. Times are of one clock that never goes back."""

    def __init__(self) -> None:
        # Until when, and for how long that was.
        self._until: dict[str, tuple[float, float]] = {}
        self._said = set[str]()

    def add(self, node: str, now: float) -> float:
        """For how long it gets nothing."""
        until, last_s = self._until.get(node, (0.0, 0.0))
        # One that took pods for long since has begun anew.
        for_s = FIRST_S if not last_s or now > until + MOST_S else min(MOST_S, last_s * 2)
        self._until[node] = (now + for_s, for_s)
        return for_s

    def said(self, node: str, now: float) -> bool:
        """Whether it refuses now. It is remembered that this was said."""
        refuses = self._until.get(node, (0.0, 0.0))[0] > now
        if refuses:
            self._said.add(node)
        return refuses

    def over(self, now: float) -> set[str]:
        """Nodes that were said to refuse, and do so no longer: each once, however late it is asked."""
        found = {node for node in self._said if self._until[node][0] <= now}
        self._said -= found
        return found
