"""What a command takes over from the slot that starts it: its CPUs, where its memory comes from, its place among
those to end when memory is short. The slot takes them on for the moment of the start only."""

import contextlib
import os
from collections.abc import Generator
from typing import Final

from ares.adapters.executors.warden import kernel

# NUMA node, its CPUs, and whether nothing else will do.
Pin = tuple[int, tuple[int, ...], bool]

_NEVER: Final = -1000
_FIRST: Final = 1000
# Enough to go before a slot of a few MiB, and well before the next class of service does.
_SOONER: Final = 100
_NUMA_NODES: Final = "/sys/devices/system/node"


class Inherited:
    def __init__(self, spared: bool) -> None:
        """`spared`: the slot is not to be ended for memory, since the job in its cgroup is."""
        self._cpus = os.sched_getaffinity(0)
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)
        self._oom_fd = -1
        self._oom_before = self._oom_own = self._oom_now = 0
        with contextlib.suppress(OSError):
            self._oom_fd = os.open("/proc/self/oom_score_adj", os.O_RDWR)
            self._oom_before = self._oom_own = int(os.pread(self._oom_fd, 16, 0))
            if spared:
                os.pwrite(self._oom_fd, str(_NEVER).encode(), 0)
                self._oom_own = _NEVER
            self._oom_now = self._oom_own

    @property
    def spared(self) -> bool:
        return self._oom_own == _NEVER

    @contextlib.contextmanager
    def taken_on(self, oom_score_adj: int, boxed: bool, pin: Pin | None, log: int) -> Generator[None, None, None]:
        """Raises ValueError when a pin that is required cannot be had."""
        # Where a slot cannot be spared: what fills files in memory looks smaller than the slot that holds it.
        sooner = _SOONER if boxed and not self.spared else 0
        self._score(min(_FIRST, self._oom_before + oom_score_adj + sooner))
        try:
            if pin is not None:
                _pin(*pin, log)
            yield
        finally:
            self._score(self._oom_own)
            if pin is not None:
                self._unpin()

    def _score(self, value: int) -> None:
        if value != self._oom_now:
            with contextlib.suppress(OSError):
                os.pwrite(self._oom_fd, str(value).encode(), 0)
                self._oom_now = value

    def kept(self) -> bool:
        """Sets anew what an attempt of the slot's own user may have changed. False when it cannot be."""
        try:
            if os.sched_getaffinity(0) != self._cpus:
                os.sched_setaffinity(0, self._cpus)
            if os.getpriority(os.PRIO_PROCESS, 0) != self._nice:
                os.setpriority(os.PRIO_PROCESS, 0, self._nice)
        except OSError:
            return False
        return True

    def _unpin(self) -> None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, self._cpus)
        with contextlib.suppress(OSError):
            kernel.memory_policy(kernel.MPOL_DEFAULT)


def _pin(node: int, cpus: tuple[int, ...], required: bool, log: int) -> None:
    try:
        if not cpus:
            raise OSError(0, "it has no CPUs that the agent knows of")
        os.sched_setaffinity(0, cpus)
        # A kernel without NUMA has one memory, which everything comes from.
        if os.path.isdir(_NUMA_NODES):
            kernel.memory_policy(kernel.MPOL_BIND if required else kernel.MPOL_PREFERRED, node)
    except OSError as error:
        what = f"cannot keep its CPUs and memory on NUMA node {node}: {error.strerror}"
        if required:
            raise ValueError(
                f"{what}; allow the agent to (CAP_SYS_NICE in a container), or ask for it as preferred"
            ) from None
        os.write(log, f"[ares: {what}; it runs wherever there is room]\n".encode())
