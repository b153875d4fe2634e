"""Ends processes an earlier incarnation of the agent left, and no others: pids are reused."""

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ares.adapters.executors.warden import kernel

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_WAIT_TRIES = 500
_WAIT_PAUSE_S = 0.01


class LeftoverRecord(msgspec.Struct, frozen=True):
    """Processes of one incarnation: pid and start time in clock ticks since boot."""

    boot_id: str
    processes: tuple[tuple[int, int], ...]


def started_at(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name, in parentheses, may hold any character.
    return int(text.rpartition(b")")[2].split()[19])


class Roll:
    """Records the live processes. The start time of each is read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[int, int] = {}
        self._boot_id = ""

    def write(self, pids: Iterable[int], new: int) -> None:
        """`new` of them has just started, and may have the pid of one that ended."""
        self._boot_id = self._boot_id or _BOOT_ID.read_text().strip()
        self._known.pop(new, None)
        starts = ((pid, self._known.get(pid) or started_at(pid)) for pid in pids)
        self._known = {pid: start for pid, start in starts if start is not None}
        draft = self.path.with_suffix(".new")
        draft.write_bytes(
            msgspec.json.encode(LeftoverRecord(boot_id=self._boot_id, processes=tuple(self._known.items())))
        )
        draft.replace(self.path)


def end(path: Path) -> tuple[int, ...]:
    """Kills each recorded process that is still the same one, with its descendants. Returns the pids killed."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=LeftoverRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return ()
    if record.boot_id != _BOOT_ID.read_text().strip():
        return ()
    roots = [pid for pid, start in record.processes if started_at(pid) == start]
    victims = {pid: started_at(pid) for root in roots for pid in (root, *kernel.descendants(root))}
    for pid in victims:
        kernel.kill(pid)
    for _ in range(_WAIT_TRIES):
        if not any(_lives(pid, start) for pid, start in victims.items()):
            break
        time.sleep(_WAIT_PAUSE_S)
    return tuple(victims)


def _lives(pid: int, start: int | None) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] not in (b"Z", b"X") and int(fields[19]) == start
