"""Matches starts that wait with idle slots: a start gets a slot of its own tenant, or a new one."""

from collections import Counter, deque
from collections.abc import Iterator

from ares.adapters.executors.process import SlotProcess, StartRequest
from ares.adapters.executors.terms import Cell


class Lobby:
    def __init__(self) -> None:
        # Tenants in the order of their turns.
        self._waiting: dict[Cell, deque[StartRequest]] = {}
        # The slot that became idle last is used first. None: slots that had no attempt yet.
        self._idle: dict[Cell | None, list[SlotProcess]] = {}
        self._slots: Counter[Cell] = Counter()

    # ---- starts

    def ask(self, asked: StartRequest, *, first: bool = False) -> None:
        line = self._waiting.setdefault(asked.cell, deque())
        line.appendleft(asked) if first else line.append(asked)

    def waiting(self) -> bool:
        return bool(self._waiting)

    def turned_away(self) -> Iterator[StartRequest]:
        while self._waiting:
            yield from self._waiting.pop(next(iter(self._waiting)))

    # ---- slots

    def rest(self, slot: SlotProcess) -> None:
        self._idle.setdefault(slot.cell, []).append(slot)

    def leave(self, slot: SlotProcess) -> None:
        """Removes a slot that ended, idle or not."""
        if slot.cell is not None:
            self._slots[slot.cell] -= 1
            if not self._slots[slot.cell]:
                del self._slots[slot.cell]
        if slot in (line := self._idle.get(slot.cell, [])):
            self._take(slot.cell, line.index(slot))

    def idle(self) -> list[SlotProcess]:
        """The longest unused first."""
        return sorted((slot for line in self._idle.values() for slot in line), key=lambda slot: slot.idle_since)

    def _take(self, cell: Cell | None, at: int = -1) -> SlotProcess:
        slot = self._idle[cell].pop(at)
        if not self._idle[cell]:
            del self._idle[cell]
        return slot

    # ---- starts and slots

    def match(self) -> tuple[SlotProcess, StartRequest] | None:
        """The next start and its slot, or None. Tenants take turns; a new slot goes to the tenant with the fewest."""
        cell = next((cell for cell in self._waiting if cell in self._idle), None)
        if cell is not None:
            slot = self._take(cell)
        elif self._waiting and None in self._idle:
            cell, slot = min(self._waiting, key=self._slots.__getitem__), self._take(None)
            self._slots[cell] += 1
        else:
            return None
        line = self._waiting.pop(cell)
        asked = line.popleft()
        if line:
            self._waiting[cell] = line
        return slot, asked

    def missing(self) -> int:
        """How many more slots the waiting starts could use at once."""
        if not self._waiting:
            return 0
        short = sum(max(0, len(line) - len(self._idle.get(cell, ()))) for cell, line in self._waiting.items())
        return max(0, short - len(self._idle.get(None, ())))

    def newcomer(self) -> bool:
        """Whether a tenant without any slot waits: no slot of its own will become idle for it."""
        return any(cell not in self._slots for cell in self._waiting)
