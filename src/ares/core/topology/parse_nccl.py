"""Topology files of NCCL and RCCL: a tree of CPUs, PCI switches and GPUs, with NVLink or XGMI across."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element

from ares.core.topology.cards import Matrix, canonical_bus
from ares.core.topology.links import INDEX_MAX, SELF
from ares.core.topology.parse_nvidia import read_xml

_GPU_CLASS: Final = "0x03"
_SWITCH_CLASS: Final = "0x0680"
# Deeper than any board: bounds what a broken file can do.
_DEPTH_MAX: Final = 32
_PREFIX: Final = {"nvlink": "NV", "xgmi": "XGMI"}


class _Gpu(NamedTuple):
    bus: str
    # Its own number, where the file has one.
    device: int | None
    numa: int | None
    # PCI switches above it, outermost first.
    above: tuple[int, ...]
    cpu: int
    # Links to other GPUs, by address, and to NVSwitches together.
    direct: dict[str, tuple[str, int]]
    switched: int


def parse_nccl(text: str) -> Matrix:
    """GPUs are numbered as the file says, else in the order of their PCI addresses."""
    root = read_xml(text)
    if root is None:
        return Matrix()
    gpus = list(_gpus(root))
    if all(gpu.device is not None for gpu in gpus):
        gpus.sort(key=lambda gpu: (gpu.device or 0, gpu.bus))
    else:
        gpus.sort(key=lambda gpu: gpu.bus)
    return Matrix(
        gpus=tuple(range(len(gpus))),
        words=tuple(tuple(SELF if a == b else _word(gpu, other) for b, other in enumerate(gpus))
                    for a, gpu in enumerate(gpus)),
        numa=tuple(gpu.numa for gpu in gpus),
        buses=tuple(gpu.bus for gpu in gpus),
    )  # fmt: skip


def _gpus(root: Element) -> Iterator[_Gpu]:
    seen = set[str]()
    for number, cpu in enumerate(root.iter("cpu")):
        numa = _number(cpu.get("numaid", ""))
        waiting: list[tuple[Element, tuple[int, ...]]] = [(pci, ()) for pci in cpu.iterfind("pci")]
        while waiting:
            pci, above = waiting.pop()
            bus = canonical_bus(pci.get("busid", ""))
            if pci.get("class", "").startswith(_GPU_CLASS) and bus and bus not in seen and len(seen) <= INDEX_MAX:
                seen.add(bus)
                direct, switched = _joined(pci)
                gpu = pci.find("gpu")
                device = None if gpu is None else _number(gpu.get("dev", ""))
                yield _Gpu(bus, device, numa, above, number, direct, switched)
            elif len(above) < _DEPTH_MAX:
                waiting += [(inner, (*above, id(pci))) for inner in pci.iterfind("pci")]


def _joined(pci: Element) -> tuple[dict[str, tuple[str, int]], int]:
    links = Counter[tuple[str, str]]()
    switched = 0
    for tag in _PREFIX:
        for link in pci.iterfind(f"gpu/{tag}"):
            count = _number(link.get("count", "")) or 0
            if link.get("tclass", "").startswith(_SWITCH_CLASS):
                switched += count
            else:
                links[tag, canonical_bus(link.get("target", ""))] += count
    return {bus: (tag, count) for (tag, bus), count in links.items() if bus and count}, switched


def _word(one: _Gpu, other: _Gpu) -> str:
    if joined := one.direct.get(other.bus) or other.direct.get(one.bus):
        tag, count = joined
        return f"{_PREFIX[tag]}{count}" if tag == "nvlink" or count > 1 else _PREFIX[tag]
    if one.switched and other.switched:
        return f"NV{min(one.switched, other.switched)}"
    if one.cpu != other.cpu:
        return "SYS"
    if one.above and one.above == other.above:
        return "PIX"
    return "PXB" if one.above[:1] == other.above[:1] and one.above else "PHB"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else None
