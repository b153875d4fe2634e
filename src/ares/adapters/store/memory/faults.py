"""Faults that tests inject into transactions."""

from collections import deque
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class StoreFault:
    """`delay_s` passes before the transaction is carried out, and for `late` after the answer."""

    kind: Literal["refused", "delayed", "request_lost", "reply_lost", "late"]
    delay_s: float = 0.0


class Faults:
    """The faults of the next transactions, in order. A simulation overrides `take`."""

    def __init__(self) -> None:
        self._next: deque[StoreFault | None] = deque()
        # A lease ends after this part of its time: below 1 early, above 1 late.
        self.lease_stretch = 1.0

    def next(self, *faults: StoreFault | None) -> None:
        """None stands for a transaction without a fault."""
        self._next.extend(faults)

    def take(self) -> StoreFault | None:
        return self._next.popleft() if self._next else None
