"""CPU time and memory of running attempts, from one walk over /proc when it is asked for."""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from ares.model.job_session import AttemptUse
from ares.model.link import AttemptRef

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class _Process(NamedTuple):
    parent: int
    cpu_s: float
    memory_bytes: int


def measured(pids: Mapping[tuple[AttemptRef, int], int], at: float) -> tuple[AttemptUse, ...]:
    """`pids` are the main processes. What their slots hold beside them counts too: orphans, and sessions."""
    processes = _processes()
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found = list[AttemptUse]()
    for (ref, rank), main in pids.items():
        if main not in processes:
            continue
        slot = processes[main].parent
        mine = _below(children, slot)
        found.append(
            AttemptUse(
                ref=ref,
                rank=rank,
                # The slot has collected the time of those that ended.
                cpu_s=round(sum(processes[pid].cpu_s for pid in (slot, *mine) if pid in processes), 2),
                memory_bytes=sum(processes[pid].memory_bytes for pid in mine),
                processes=len(mine),
                at=at,
            )
        )
    return tuple(found)


def _below(children: Mapping[int, list[int]], root: int) -> list[int]:
    found, ahead = list[int](), [root]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def _processes() -> dict[int, _Process]:
    found = dict[int, _Process]()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        # User and system time, of itself and of children that it has collected.
        cpu = sum(int(field) for field in fields[11:15]) * _TICK_S
        found[int(entry)] = _Process(int(fields[1]), cpu, int(fields[21]) * _PAGE_BYTES)
    return found
