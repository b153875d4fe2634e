"""`ports.devices.Devices` for this machine: what the kernel tells, and GPUs by the tools of their vendors."""

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

from ares.adapters.devices.presets import mock_machine
from ares.core.topology import parse_nvidia, parse_rocm
from ares.core.topology.cards import Card, Matrix, Slice, canonical_bus, mig_kind
from ares.core.topology.links import UNKNOWN, joins
from ares.core.topology.parse_nccl import parse_nccl
from ares.model.job_session import GpuReading
from ares.model.node import NICS_MAX, Gpu, Nic, NumaNode
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

    def gpu_use(self) -> dict[int, GpuReading]:
        return {} if self._mock is not None else parse_nvidia.parse_use(_output(_USE, _USE_TIMEOUT_S))

    def accelerators(self) -> Accelerators:
        if self._mock is not None:
            return self._mock
        for probe in (nvidia, amd):
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


# ---- the GPUs, by the tools of their vendors


_QUERY: Final = (
    "nvidia-smi",
    "--query-gpu=index,uuid,name,memory.total,pci.bus_id,mig.mode.current",
    "--format=csv,nounits",
)
_USE: Final = (
    "nvidia-smi",
    "--query-gpu=index,utilization.gpu,memory.used,power.draw,temperature.gpu",
    "--format=csv,noheader,nounits",
)
# A person waits for it.
_USE_TIMEOUT_S: Final = 2.0
# Slow, but old drivers refuse a query with a field they do not know.
_QUERY_XML: Final = ("nvidia-smi", "-q", "-x")
_LIST: Final = ("nvidia-smi", "-L")
_TOPO: Final = ("nvidia-smi", "topo", "-m")
_ROCM: Final = (
    "rocm-smi", "--json", "--showuniqueid", "--showproductname", "--showmeminfo", "vram", "--showbus", "--showtopo",
)  # fmt: skip
_ROCM_TOPO: Final = ("rocm-smi", "--showtopo")
_PROBE_TIMEOUT_S: Final = 20.0

# The NUMA node of a PCI address as the kernel says, None when it does not.
NumaOf = Callable[[str], int | None]


def nvidia(numa_of: NumaOf, nccl_topology: str = "") -> Accelerators:
    cards = parse_nvidia.parse_query(_output(_QUERY)) or parse_nvidia.parse_query_xml(_output(_QUERY_XML))
    if not cards:
        return Accelerators()
    slices = parse_nvidia.parse_list(_output(_LIST))
    matrix = parse_nvidia.parse_topo(_output(_TOPO))
    return _assemble("nvidia", cards, slices, (_by_index(parse_nccl(nccl_topology), cards), matrix), numa_of)


def amd(numa_of: NumaOf, nccl_topology: str = "") -> Accelerators:
    said = _output(_ROCM)
    cards = parse_rocm.parse_json(said)
    if not cards:
        return Accelerators()
    matrix = parse_rocm.parse_json_links(said)
    # Some releases leave the links out of their JSON.
    if len(cards) > 1 and not matrix.gpus:
        matrix = parse_rocm.parse_topo(_output(_ROCM_TOPO))
    return _assemble("amd", cards, (), (_by_index(parse_nccl(nccl_topology), cards), matrix), numa_of)


def _by_index(matrix: Matrix, cards: Iterable[Card]) -> Matrix:
    """A file names GPUs by PCI address; a job may see them under other numbers than the tool gives them."""
    index_of = {canonical_bus(card.bus): card.index for card in cards if canonical_bus(card.bus)}
    kept = [at for at, bus in enumerate(matrix.buses) if bus in index_of]
    return Matrix(
        gpus=tuple(index_of[matrix.buses[at]] for at in kept),
        words=tuple(tuple(matrix.words[a][b] for b in kept) for a in kept),
        numa=tuple(matrix.numa[at] for at in kept),
        nics=matrix.nics,
        nic_words=tuple(matrix.nic_words[at] for at in kept),
    )


def _assemble(
    vendor: Literal["nvidia", "amd"],
    cards: tuple[Card, ...],
    slices: Iterable[Slice],
    matrices: tuple[Matrix, Matrix],
    numa_of: NumaOf,
) -> Accelerators:
    """`matrices` are what the file says and what the tool says."""
    file, tool = matrices
    cut = {piece.gpu for piece in slices}

    def numa(card: Card) -> int:
        told = (file.numa_of(card.index), card.numa, numa_of(card.bus), tool.numa_of(card.index))
        return next((node for node in told if node is not None), 0)

    devices = dict[str, tuple[str, ...]]()
    for piece in slices:
        kind = mig_kind(piece.profile)
        devices[kind] = (*devices.get(kind, ()), piece.uuid)
    indexes = tuple(card.index for card in cards)
    return Accelerators(
        gpus=tuple(
            Gpu(
                index=card.index,
                uuid=card.uuid,
                model=card.model,
                memory_mib=card.memory_mib,
                numa_node=numa(card),
                vendor=vendor,
                mig=card.mig or card.index in cut,
            )
            for card in cards
        ),
        gpu_links=_merged(file.rows(indexes), tool.rows(indexes)),
        # The tool's names are those that libraries go by; a file may have addresses only.
        nics=_nics(tool if tool.nics else file, indexes),
        devices=devices,
    )


def _nics(matrix: Matrix, indexes: tuple[int, ...]) -> tuple[Nic, ...]:
    rows = matrix.nic_rows(indexes)
    return tuple(Nic(name=name, links=tuple(row[at] for row in rows)) for at, name in enumerate(matrix.nics[:NICS_MAX]))


_Rows = tuple[tuple[str, ...], ...]


def _merged(file: _Rows, tool: _Rows) -> _Rows:
    """The file knows the PCI tree that a virtual machine hides; NVLinks are often left out of it."""
    if not file or not tool:
        return file or tool

    def word(written: str, said: str) -> str:
        return said if written == UNKNOWN or joins(said) else written

    return tuple(tuple(map(word, *rows)) for rows in zip(file, tool, strict=True))


def _output(command: Sequence[str], timeout_s: float = _PROBE_TIMEOUT_S) -> str:
    """What a probe prints; nothing when it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False, text=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""
