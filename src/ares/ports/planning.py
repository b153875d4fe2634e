"""Where plans are made, apart from the serving process, so that serving never waits; and where decisions are kept."""

from collections.abc import Callable
from typing import Protocol

# The planner's side: one answer for each frame.
Handler = Callable[[bytes], bytes]


class PlannerLost(Exception):
    """There was no answer, and the planner that was asked is gone: its successor knows nothing."""

    def __init__(self, why: str, plugin: str = "", late: bool = False) -> None:
        super().__init__(why)
        # "kind name" of the plugin whose code it was in, if any.
        self.plugin = plugin
        # The planner was still at work when its time was over.
        self.late = late


class Planning(Protocol):
    @property
    def life(self) -> int:
        """Grows with each new planner: the caller must tell it everything anew."""
        ...

    async def open(self) -> None:
        """Returns when there is a planner that can be asked, starting one if need be. Raises PlannerLost."""
        ...

    async def ask(self, frame: bytes, within_s: float) -> bytes:
        """Asks one question at a time. Ends the planner and raises PlannerLost when there is no answer in time."""
        ...

    async def close(self) -> None: ...


# ---- where decisions are kept


class DecisionLog(Protocol):
    def append(self, decision: str, job: str, make: Callable[[], bytes]) -> None:
        """Returns at once and never fails; `make` gives the bytes when they are written. May be dropped."""
        ...

    async def find(self, name: str) -> bytes | None:
        """The newest record of a decision or of a job."""
        ...
