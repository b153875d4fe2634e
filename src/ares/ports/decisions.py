"""Where the scheduler's decisions are kept, for `ares replay`. Some may be lost; the scheduler never waits."""

from collections.abc import Callable
from typing import Protocol


class DecisionLog(Protocol):
    def append(self, decision: str, job: str, make: Callable[[], bytes]) -> None:
        """Returns at once and never fails; `make` gives the bytes when they are written. May be dropped."""
        ...

    async def find(self, name: str) -> bytes | None:
        """The newest record of a decision or of a job."""
        ...
