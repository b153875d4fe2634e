"""CPU time of everything in this PID namespace, dead children included. Standard library only."""

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        # utime, stime, cutime, cstime; the name before them may hold spaces.
        total += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return total / _TICKS_PER_S
