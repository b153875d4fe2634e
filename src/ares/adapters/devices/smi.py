"""The GPUs of this machine, by its vendors' tools."""

import subprocess
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from ares.core.topology import parse_nvidia, parse_rocm
from ares.core.topology.cards import Card, Matrix, Slice, canonical_bus, mig_kind
from ares.core.topology.links import UNKNOWN
from ares.core.topology.parse_nccl import parse_nccl
from ares.model.node import Gpu
from ares.ports.devices import Accelerators

_QUERY: Final = (
    "nvidia-smi",
    "--query-gpu=index,uuid,name,memory.total,pci.bus_id,mig.mode.current",
    "--format=csv,nounits",
)
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
    matrix = parse_nvidia.parse_topo(_output(_TOPO)) if len(cards) > 1 else Matrix()
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
        devices=devices,
    )


_Rows = tuple[tuple[str, ...], ...]


def _merged(file: _Rows, tool: _Rows) -> _Rows:
    """The file knows the PCI tree that a virtual machine hides; NVLinks are often left out of it."""
    if not file or not tool:
        return file or tool

    def word(written: str, said: str) -> str:
        return said if written == UNKNOWN or said.startswith(("NV", "XGMI")) else written

    return tuple(tuple(map(word, *rows)) for rows in zip(file, tool, strict=True))


def _output(command: Sequence[str]) -> str:
    """What a probe prints; nothing when it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_TIMEOUT_S, check=False, text=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""
