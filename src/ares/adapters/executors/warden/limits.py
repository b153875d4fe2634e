"""A slot's own cgroup, reused from attempt to attempt."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

# What a slot itself may use of its cgroup: its own pages, and page tables of the job.
SLOT_OVERHEAD_MIB: Final = 16
# A cgroup that still holds this much after an attempt (files in memory) is not reused.
RESIDUE_MIB_MAX: Final = 64


class Limits:
    """The slot's own cgroup, given as file paths by the agent. Written only when a value changes."""

    def __init__(self, paths: Mapping[str, Sequence[str]]) -> None:
        for path in paths.get("join", ()):
            with open(path, "w") as file:
                file.write("0")
        self._files = {kind: [os.open(p, os.O_RDWR) for p in paths.get(kind, ())] for kind in ("memory", "pids", "cpu")}
        self._reads = {kind: [os.open(p, os.O_RDONLY) for p in paths.get(kind, ())] for kind in ("oom", "usage")}
        self._reclaim = list(paths.get("reclaim", ()))
        self._now: dict[str, str] = {}
        self._kills = self._oom_kills()

    def apply(self, kind: str, value: str) -> None:
        if self._now.get(kind) == value or not self._files[kind]:
            return
        try:
            self._write(self._files[kind], value)
        except OSError:
            # Memory with and without swap: which may go first depends on the direction.
            self._write(self._files[kind][::-1], value)
        self._now[kind] = value

    @staticmethod
    def _write(files: Sequence[int], value: str) -> None:
        for fd in files:
            os.pwrite(fd, value.encode(), 0)

    def limits_processes(self) -> bool:
        return bool(self._files["pids"])

    def holds_memory(self) -> bool:
        return bool(self._files["memory"])

    def _oom_kills(self) -> int:
        for fd in self._reads["oom"]:
            for line in os.pread(fd, 4096, 0).splitlines():
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
        return 0

    def killed_for_memory(self) -> bool:
        before, self._kills = self._kills, self._oom_kills()
        return self._kills > before

    def spoiled(self) -> bool:
        """Whether the cgroup keeps memory of an attempt that is gone, such as files in /dev/shm."""
        return self._usage_mib() > RESIDUE_MIB_MAX and self._usage_mib_reclaimed() > RESIDUE_MIB_MAX

    def _usage_mib(self) -> int:
        return max((int(os.pread(fd, 64, 0)) >> 20 for fd in self._reads["usage"]), default=0)

    def _usage_mib_reclaimed(self) -> int:
        for path in self._reclaim:
            try:
                with open(path, "w") as file:
                    file.write(str(self._usage_mib() << 20))
            except OSError:
                pass  # Not all of it could be had back; the usage tells.
        return self._usage_mib()
