"""`ports.devices.Devices` for this machine."""

import os
import re
from pathlib import Path
from typing import Final

from ares.adapters.devices import smi
from ares.adapters.devices.presets import mock_machine
from ares.core.topology.cards import canonical_bus
from ares.model.node import NumaNode
from ares.ports.devices import Accelerators

# cgroup v1 says "no limit" by a number close to the largest.
_NO_LIMIT_BYTES: Final = 1 << 60


class SystemDevices:
    """`mock_gpu`: "" for real devices only, "auto" for mock ones where there are none, else see `presets`.
    `nccl_topology` is the text of a topology file of NCCL or RCCL for this machine, empty when there is none.
    `sys` and `proc` are where the kernel's own files are mounted."""

    def __init__(
        self, mock_gpu: str = "", nccl_topology: str = "", *, sys: Path = Path("/sys"), proc: Path = Path("/proc")
    ) -> None:
        self._auto = mock_gpu.strip().lower() == "auto"
        self._mock = None if self._auto else mock_machine(mock_gpu)
        self._nccl_topology = nccl_topology
        self._sys = sys
        self._proc = proc

    def cpus(self) -> int:
        return len(os.sched_getaffinity(0))

    def memory_mib(self) -> int:
        total = self._meminfo(self._proc / "meminfo") or 1
        return min([total, *self._cgroup_limits_mib()])

    def numa(self) -> tuple[NumaNode, ...]:
        allowed = os.sched_getaffinity(0)
        nodes = list[NumaNode]()
        for folder in (self._sys / "devices/system/node").glob("node[0-9]*"):
            try:
                cpus = parse_cpu_list((folder / "cpulist").read_text())
            except (OSError, ValueError):
                continue
            usable = tuple(cpu for cpu in cpus if cpu in allowed)
            index = int(folder.name.removeprefix("node"))
            nodes.append(NumaNode(index=index, cpus=usable, memory_mib=self._meminfo(folder / "meminfo")))
        return tuple(sorted(nodes, key=lambda node: node.index))

    def accelerators(self) -> Accelerators:
        if self._mock is not None:
            return self._mock
        for probe in (smi.nvidia, smi.amd):
            found = probe(self._numa_of_pci, self._nccl_topology)
            if found.gpus:
                return found
        return mock_machine("true") or Accelerators() if self._auto else Accelerators()

    def _numa_of_pci(self, address: str) -> int | None:
        name = canonical_bus(address)
        if not name:
            return None
        try:
            node = int((self._sys / "bus/pci/devices" / name / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        # The kernel says -1 where the board does not tell.
        return node if node >= 0 else None

    @staticmethod
    def _meminfo(path: Path) -> int:
        try:
            match = re.search(r"MemTotal:\s+(\d+) kB", path.read_text())
        except OSError:
            return 0
        return int(match.group(1)) // 1024 if match else 0

    def _cgroup_limits_mib(self) -> list[int]:
        """Limits of the group this process is in and of all above it."""
        limits = list[int]()
        for folder in self._cgroup_folders():
            for name in ("memory.max", "memory.limit_in_bytes"):
                try:
                    text = (folder / name).read_text().strip()
                except OSError:
                    continue
                if text.isdigit() and int(text) < _NO_LIMIT_BYTES:
                    limits.append(max(1, int(text) >> 20))
        return limits

    def _cgroup_folders(self) -> list[Path]:
        try:
            lines = (self._proc / "self/cgroup").read_text().splitlines()
        except OSError:
            return []
        folders = list[Path]()
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top = self._sys / "fs/cgroup" / ("memory" if controllers else "")
            own = top / path.lstrip("/")
            # In a container the path may be the host's; the top is then our own group.
            folders += [top, *(p for p in (own, *own.parents) if p.is_relative_to(top) and p != top)]
        return folders


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """ "0-3,8,10-11" as numbers."""
    cpus = list[int]()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)
