"""Control groups, version 2 or 1: one per slot, below the agent's own group, so that outer limits hold."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

_REMOVE_TRIES: Final = 100
_REMOVE_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Layout:
    """File names of one version. Keys are what the warden's `Limits` asks for."""

    version: Literal["cgroup-v2", "cgroup-v1"]
    join: str
    # (kind, controller, file)
    files: tuple[tuple[str, str, str], ...]
    cpu_weight: Callable[[int], int]


V1: Final = Layout(
    version="cgroup-v1",
    # Writing 0 to `tasks` moves the caller alone and, unlike `cgroup.procs`, takes no global lock.
    join="tasks",
    files=(
        ("memory", "memory", "memory.limit_in_bytes"),
        ("memory", "memory", "memory.memsw.limit_in_bytes"),
        ("oom", "memory", "memory.oom_control"),
        ("usage", "memory", "memory.usage_in_bytes"),
        ("reclaim", "memory", "memory.force_empty"),
        ("pids", "pids", "pids.max"),
        ("crowd", "pids", "pids.events"),
        ("cpu", "cpu", "cpu.shares"),
        ("quota", "cpu", "cpu.cfs_quota_us"),
    ),
    cpu_weight=lambda milli: min(262_144, max(2, milli * 1024 // 1000)),
)
V2: Final = Layout(
    version="cgroup-v2",
    join="cgroup.procs",
    files=(
        ("memory", "memory", "memory.max"),
        ("oom", "memory", "memory.events"),
        ("usage", "memory", "memory.current"),
        ("reclaim", "memory", "memory.reclaim"),
        ("pids", "pids", "pids.max"),
        ("crowd", "pids", "pids.events"),
        ("cpu", "cpu", "cpu.weight"),
        ("quota", "cpu", "cpu.max"),
    ),
    cpu_weight=lambda milli: min(10_000, max(1, milli // 10)),
)
CONTROLLERS: Final = ("memory", "pids", "cpu")
# The group of slots whose attempt has a CPU limit: the slot itself must not be limited.
_BESIDE: Final = "slot-holders"


class Cgroups:
    """The agent's groups. `bases` maps each usable controller to the folder slots are made in."""

    def __init__(self, layout: Layout, bases: dict[str, Path]) -> None:
        self.layout = layout
        self._bases = bases

    def slot(self, index: int) -> dict[str, tuple[str, ...]]:
        """Makes a slot's groups. Returns the files to join them and set their limits by."""
        folders = {controller: base / f"slot-{index}" for controller, base in self._bases.items()}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        paths: dict[str, tuple[str, ...]] = {
            "join": tuple(f"{f}/{self.layout.join}" for f in dict.fromkeys(folders.values()))
        }
        if (cpu := self._bases.get("cpu")) is not None:
            (cpu / _BESIDE).mkdir(exist_ok=True)
            paths["leave"] = (f"{cpu / _BESIDE}/{self.layout.join}",)
        for kind, controller, name in self.layout.files:
            file = folders.get(controller, Path("/nonexistent")) / name
            if file.exists():
                paths[kind] = (*paths.get(kind, ()), str(file))
        return paths

    def folders(self) -> tuple[str, ...]:
        """The groups to remove, with the slots' groups in them, when the agent has ended."""
        return tuple(str(base) for base in dict.fromkeys(self._bases.values()))

    def remove_leftovers(self) -> None:
        """Ends the processes that an earlier agent left in these groups, and makes the groups anew."""
        for base in dict.fromkeys(self._bases.values()):
            for folder in (*base.glob("slot-*"), base):
                _kill_members(folder)
                if folder != base:
                    _remove(folder)


def discover(name: str, proc: Path = Path("/proc/self")) -> Cgroups | None:
    """The agent's groups under the given name, or None when this machine lets us make none."""
    mounts = _mounts(proc)
    memberships = _memberships(proc)
    return _discover_v2(name, mounts, memberships) or _discover_v1(name, mounts, memberships)


def _mounts(proc: Path) -> dict[str, tuple[str, Path]]:
    """(root, mount point) per v1 controller; the unified hierarchy under ""."""
    found: dict[str, tuple[str, Path]] = {}
    for line in (proc / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        root, point = left.split(" ")[3:5]
        if kind == "cgroup2":
            found.setdefault("", (root, Path(point)))
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, (root, Path(point)))
    return found


def _memberships(proc: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _own_folder(controller: str, mounts: dict[str, tuple[str, Path]], memberships: dict[str, str]) -> Path | None:
    if controller not in mounts or controller not in memberships:
        return None
    root, point = mounts[controller]
    folder = point / os.path.relpath(memberships[controller], root)
    # In a container the path may be the host's: the mount's own top is then the group we are in.
    return folder if folder.is_dir() else point


def _discover_v1(name: str, mounts: dict[str, tuple[str, Path]], memberships: dict[str, str]) -> Cgroups | None:
    bases: dict[str, Path] = {}
    for controller in CONTROLLERS:
        own = _own_folder(controller, mounts, memberships)
        if own is not None:
            with contextlib.suppress(OSError):
                (own / name).mkdir(exist_ok=True)
                bases[controller] = own / name
    return Cgroups(V1, bases) if "memory" in bases else None


def _discover_v2(name: str, mounts: dict[str, tuple[str, Path]], memberships: dict[str, str]) -> Cgroups | None:
    own = _own_folder("", mounts, memberships)
    if own is None:
        return None
    with contextlib.suppress(OSError):
        offered = set((own / "cgroup.controllers").read_text().split()) & set(CONTROLLERS)
        if "memory" in offered and _delegate(own, name, offered):
            return Cgroups(V2, dict.fromkeys(sorted(offered), own / name))
    return None


def _delegate(own: Path, name: str, controllers: set[str]) -> bool:
    """Hands the controllers down. A group with processes cannot, so the agent moves into a leaf first."""
    base, leaf = own / name, own / f"{name}-agent"
    wanted = " ".join(f"+{controller}" for controller in sorted(controllers))
    base.mkdir(exist_ok=True)
    try:
        (own / "cgroup.subtree_control").write_text(wanted)
    except OSError:
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
        try:
            (own / "cgroup.subtree_control").write_text(wanted)
        except OSError:
            (own / "cgroup.procs").write_text(str(os.getpid()))
            _remove(leaf)
            _remove(base)
            return False
    (base / "cgroup.subtree_control").write_text(wanted)
    return True


def _kill_members(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _remove(folder: Path) -> None:
    for _ in range(_REMOVE_TRIES):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            # The kernel frees the group a moment after its last process was collected.
            time.sleep(_REMOVE_PAUSE_S)
        else:
            return
