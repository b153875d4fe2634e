"""Settings that a command inherits from its slot: CPUs, NUMA node of its memory, and OOM score. The slot has them
only for the moment of the start."""

import contextlib
import os
from collections.abc import Generator
from typing import Final

from ares.adapters.executors.warden import kernel

# NUMA node, its CPUs, and whether the pin is required.
Pin = tuple[int, tuple[int, ...], bool]

_NEVER: Final = -1000
_FIRST: Final = 1000
# Enough for the job to be killed before its slot of a few MiB. Far less than the step to the next QoS class.
_SOONER: Final = 100
_NUMA_NODES: Final = "/sys/devices/system/node"


class Inherited:
    def __init__(self, spared: bool) -> None:
        """`spared`: the OOM killer leaves the slot alone, and kills the job in its cgroup."""
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

    def renew(self) -> None:
        """In a child of the slot, which has the slot's settings and an OOM score of its own."""
        with contextlib.suppress(OSError):
            os.close(self._oom_fd)
            self._oom_fd = os.open("/proc/self/oom_score_adj", os.O_RDWR)

    @contextlib.contextmanager
    def taken_on(self, oom_score_adj: int, boxed: bool, pin: Pin | None, log: int) -> Generator[None, None, None]:
        """Has the settings during the block. Raises ValueError when a required pin is not possible."""
        # For a slot that cannot be spared: a job that fills a tmpfs looks smaller than its slot to the OOM killer.
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
        """Undoes what an attempt of the slot's own user may have changed. False when that fails."""
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
        # A kernel without NUMA has one memory: nothing to set.
        if os.path.isdir(_NUMA_NODES):
            kernel.memory_policy(kernel.MPOL_BIND if required else kernel.MPOL_PREFERRED, node)
    except OSError as error:
        what = f"cannot keep its CPUs and memory on NUMA node {node}: {error.strerror}"
        if required:
            raise ValueError(
                f"{what}; allow the agent to (CAP_SYS_NICE in a container), or ask for it as preferred"
            ) from None
        os.write(log, f"[ares: {what}; it runs wherever there is room]\n".encode())
