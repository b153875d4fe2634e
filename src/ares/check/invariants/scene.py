"""What is known beside the store: the bounds, running processes, stopped components, and faults."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from ares.check.invariants.history import (
    Event,
    Fault,
    Frozen,
    Healed,
    ProcessEnded,
    ProcessStarted,
    Restored,
    Settings,
    Woken,
)
from ares.check.invariants.records import Fence, fence_of

# Faults of these components stop the control plane. With any other fault it can go on.
_CONTROL = ("store", "replica ")


class Rank(NamedTuple):
    """One rank of one attempt."""

    job: str
    fence: Fence
    rank: int

    def __str__(self) -> str:
        return f"rank {self.rank} of attempt {self.fence}" if self.rank else f"attempt {self.fence}"


class Scene:
    """Follows every event that is not a commit."""

    def __init__(self) -> None:
        self.settings = Settings(t=0.0)
        # By job: its processes that run now, each with its node.
        self.alive: defaultdict[str, dict[Rank, str]] = defaultdict(dict)
        self.started: set[Rank] = set()
        # How processes ended.
        self.endings: dict[Rank, str] = {}
        self.frozen: set[str] = set()
        # When each stopped component went on.
        self.woken: dict[str, float] = {}
        # Present faults of the control plane, and when one last began or ended.
        self.broken: set[tuple[str, str]] = set()
        self.disturbed_at = float("-inf")
        # Whether there was any fault at all.
        self.faulty = False
        self.healed_at: float | None = None
        self._takers: dict[type, Callable[[Any], None]] = {
            Settings: self._settings,
            ProcessStarted: self._started,
            ProcessEnded: self._ended,
            Fault: self._fault,
            Frozen: self._frozen,
            Woken: self._woken,
            Healed: self._healed,
            Restored: self._restored,
        }

    def take(self, event: Event) -> None:
        taker = self._takers.get(type(event))
        if taker is not None:
            taker(event)

    def _settings(self, event: Settings) -> None:
        self.settings = event

    def _started(self, event: ProcessStarted) -> None:
        rank = Rank(event.job, fence_of(event.fence), event.rank)
        self.started.add(rank)
        self.alive[event.job][rank] = event.node

    def _ended(self, event: ProcessEnded) -> None:
        rank = Rank(event.job, fence_of(event.fence), event.rank)
        self.alive[event.job].pop(rank, None)
        self.endings[rank] = event.how

    def _fault(self, event: Fault) -> None:
        self.faulty = True
        if not event.who.startswith(_CONTROL):
            return
        self.disturbed_at = event.t
        (self.broken.discard if event.over else self.broken.add)((event.kind, event.who))

    def _frozen(self, event: Frozen) -> None:
        self.faulty = True
        self.frozen.add(event.who)
        if event.who.startswith(_CONTROL):
            self.disturbed_at = event.t
            self.broken.add(("frozen", event.who))

    def _woken(self, event: Woken) -> None:
        # With its agent goes on a machine that was stopped as a whole.
        for who in (event.who, event.who.replace("agent ", "node ", 1)):
            if who in self.frozen:
                self.frozen.remove(who)
                self.woken[who] = event.t
        if event.who.startswith(_CONTROL):
            self.disturbed_at = event.t
            self.broken.discard(("frozen", event.who))

    def _healed(self, event: Healed) -> None:
        self.healed_at = event.t
        if self.broken:
            self.disturbed_at = event.t
        self.broken.clear()

    def _restored(self, event: Restored) -> None:
        self.faulty = True
        self.disturbed_at = event.t

    # ---- stopped processes: they cannot end themselves

    def is_frozen(self, rank: Rank, node: str) -> bool:
        return bool(self.frozen) and not self.frozen.isdisjoint(_names(rank, node))

    def woken_at(self, rank: Rank, node: str) -> float:
        """When the process last went on after a stop."""
        if not self.woken:
            return float("-inf")
        return max(self.woken.get(name, float("-inf")) for name in _names(rank, node))


def _names(rank: Rank, node: str) -> tuple[str, str]:
    return f"job {rank.job} {rank.fence}", f"node {node}"
