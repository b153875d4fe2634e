"""What this process uses, by the operating system, under the names that every Prometheus client gives it."""

import os
import resource
from typing import Final

from ares.ports.telemetry import Telemetry

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class ProcessUse:
    """The CPU time is a counter: only what came since the last look is added."""

    def __init__(self) -> None:
        self._cpu_s = 0.0

    def measure(self, telemetry: Telemetry) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = used.ru_utime + used.ru_stime
        telemetry.count("process_cpu_seconds_total", max(0.0, cpu_s - self._cpu_s))
        self._cpu_s = max(self._cpu_s, cpu_s)
        try:
            with open("/proc/self/statm", "rb") as file:
                telemetry.gauge("process_resident_memory_bytes", int(file.read().split()[1]) * _PAGE_BYTES)
            telemetry.gauge("process_open_fds", len(os.listdir("/proc/self/fd")))
        except OSError:
            # Not every system has /proc.
            return
