"""A slot's own cgroup, reused from attempt to attempt, and its resource limits, which each attempt inherits."""

import contextlib
import os
import resource
from collections.abc import Mapping, Sequence
from typing import Final

# Memory for the slot itself in its cgroup: its own pages, and page tables of the job.
SLOT_OVERHEAD_MIB: Final = 16
# A cgroup that still holds this much after an attempt (files in memory) is not reused.
RESIDUE_MIB_MAX: Final = 64
# By file: the text for a CPU limit, in microseconds per period of 100 ms, and the text for none.
_QUOTA: Final = {"cpu.max": ("{} 100000", "max"), "cpu.cfs_quota_us": ("{}", "-1")}
_PERIOD_MILLI_US: Final = 100
_QUOTA_MIN_US: Final = 1000


class CgroupLimits:
    """The slot's own cgroup, given as file paths by the agent. Written only when a value changes."""

    def __init__(self, paths: Mapping[str, Sequence[str]]) -> None:
        # Open from the start: an attempt of the slot's own user may take the slot's right to open files.
        self._join = [os.open(path, os.O_WRONLY) for path in paths.get("join", ())]
        self._leave = [os.open(path, os.O_WRONLY) for path in paths.get("leave", ())]
        self._quota = [(os.open(path, os.O_WRONLY), *_QUOTA[os.path.basename(path)]) for path in paths.get("quota", ())]
        self._capped, self._away = bool(self._quota), False
        # The slot that had this group before may have ended in the middle of an attempt.
        self.uncap()
        _move(self._join)
        self._files = {kind: [os.open(p, os.O_RDWR) for p in paths.get(kind, ())] for kind in ("memory", "pids", "cpu")}
        self._reads = {
            kind: [os.open(p, os.O_RDONLY) for p in paths.get(kind, ())] for kind in ("oom", "usage", "crowd")
        }
        self._reclaim = list(paths.get("reclaim", ()))
        self._now: dict[str, str] = {}
        # What was last read of each file of events, and the count in it: most attempts change neither.
        self._counted: dict[int, tuple[bytes, int]] = {}
        self._kills, self._refused = self._count("oom", b"oom_kill "), self._count("crowd", b"max ")

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

    def step_aside(self, cpu_milli: int) -> None:
        """Moves the slot out of its group and sets the CPU limit, unless it is 0. The slot must be able to end a job
        that uses all CPU time of the group."""
        with contextlib.suppress(OSError):
            _move(self._leave)
            self._away = True
            if self._quota and cpu_milli:
                self._capped = True
                # The kernel refuses it where the agent's own group has less. That limit holds anyway.
                self._write_quota(str(max(_QUOTA_MIN_US, cpu_milli * _PERIOD_MILLI_US)))

    def uncap(self) -> None:
        """Removes the CPU limit: processes that are being killed need CPU time too."""
        if self._capped:
            self._write_quota("")
            self._capped = False

    def back(self) -> None:
        """Moves the slot back into its group, so that its next attempt starts there."""
        self.uncap()
        if self._away:
            _move(self._join)
            self._away = False

    def join(self) -> None:
        """Moves a child of the slot into the group. The child leaves all else as it is."""
        if self._away:
            _move(self._join)

    def _write_quota(self, microseconds: str) -> None:
        for fd, some, none in self._quota:
            os.pwrite(fd, (some.format(microseconds) if microseconds else none).encode(), 0)

    def limits_processes(self) -> bool:
        return bool(self._files["pids"])

    def holds_memory(self) -> bool:
        return bool(self._files["memory"])

    def _count(self, kind: str, name: bytes) -> int:
        """How often an event has happened in the group."""
        total = 0
        for fd in self._reads[kind]:
            text = os.pread(fd, 4096, 0)
            before = self._counted.get(fd)
            if before is None or before[0] != text:
                found = [int(line.split()[1]) for line in text.splitlines() if line.startswith(name)]
                before = self._counted[fd] = (text, sum(found))
            total += before[1]
        return total

    def killed_for_memory(self) -> bool:
        before, self._kills = self._kills, self._count("oom", b"oom_kill ")
        return self._kills > before

    def crowded(self) -> bool:
        """Whether the attempt reached its limit of processes."""
        before, self._refused = self._refused, self._count("crowd", b"max ")
        return self._refused > before

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


def _move(files: Sequence[int]) -> None:
    """Moves the calling process, and no other, into the groups of these files."""
    for fd in files:
        os.pwrite(fd, b"0", 0)


_ALL: Final = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


class Bounds:
    def __init__(self) -> None:
        self._own = {which: resource.getrlimit(which) for which in _ALL}

    def set(self, which: int, value: int, *, final: bool) -> None:
        """Sets a limit on the slot, which needs no more than its attempt. `final`: the attempt cannot raise it again.
        Raises ValueError when the slot cannot have that much any more."""
        # After each attempt they are as the slot set them: see `kept`. Another user's attempt cannot change them.
        _, hard = self._own[which]
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        wanted = (soft, soft if final else hard)
        if self._own[which] != wanted:
            resource.setrlimit(which, wanted)
            self._own[which] = wanted

    def kept(self) -> bool:
        """Undoes what an attempt of the slot's own user may have changed. False when that fails."""
        try:
            for which, wanted in self._own.items():
                if resource.getrlimit(which) != wanted:
                    resource.setrlimit(which, wanted)
        except (OSError, ValueError):
            return False
        return True
