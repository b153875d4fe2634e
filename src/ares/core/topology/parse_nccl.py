"""Topology files of NCCL and RCCL: a tree of CPUs, PCI switches, network cards and GPUs, with NVLink or XGMI across."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element

from ares.core.topology.cards import Matrix, canonical_bus
from ares.core.topology.links import INDEX_MAX, SELF
from ares.core.topology.parse_nvidia import read_xml

# Classes of PCI devices: 3D and other display controllers, and processing accelerators, which newer GPUs are.
_GPU_CLASSES: Final = ("0302", "0380", "12")
# A plain display: a GPU, or what a machine shows its console on.
_DISPLAY_CLASS: Final = "03"
_NETWORK_CLASS: Final = "02"
_SWITCH_CLASS: Final = "0680"
# Deeper than any board: bounds what a broken file can do.
_DEPTH_MAX: Final = 32
_DEVICES_MAX: Final = 4 * (INDEX_MAX + 1)
_NAME_MAX: Final = 64
_PREFIX: Final = {"nvlink": "NV", "xgmi": "XGMI"}


class _Spot(NamedTuple):
    """Where in the tree a device is."""

    cpu: int
    # PCI switches above it, outermost first.
    above: tuple[int, ...]


class _Gpu(NamedTuple):
    bus: str
    # Its own number, where the file has one.
    device: int | None
    numa: int | None
    spot: _Spot
    # Links to other GPUs, by address, and to NVSwitches together.
    direct: dict[str, tuple[str, int]]
    switched: int


def parse_nccl(text: str) -> Matrix:
    """GPUs are numbered as the file says, else in the order of their PCI addresses."""
    root = read_xml(text)
    if root is None:
        return Matrix()
    found = list(_devices(root))
    # Where some devices are marked as GPUs, a display that is not shows the console.
    marked = any(pci.find("gpu") is not None for _, pci, _, _ in found)
    gpus = [_gpu(*device) for device in found if _is_gpu(device[1], marked)]
    if all(gpu.device is not None for gpu in gpus):
        gpus.sort(key=lambda gpu: (gpu.device or 0, gpu.bus))
    else:
        gpus.sort(key=lambda gpu: gpu.bus)
    nics = [(name, spot) for bus, pci, _, spot in found for name in _nic_names(bus, pci)]
    return Matrix(
        gpus=tuple(range(len(gpus))),
        words=tuple(tuple(SELF if a == b else _word(gpu, other) for b, other in enumerate(gpus))
                    for a, gpu in enumerate(gpus)),
        numa=tuple(gpu.numa for gpu in gpus),
        buses=tuple(gpu.bus for gpu in gpus),
        nics=tuple(name for name, _ in nics),
        nic_words=tuple(tuple(_way(gpu.spot, spot) for _, spot in nics) for gpu in gpus),
    )  # fmt: skip


def _devices(root: Element) -> Iterator[tuple[str, Element, int | None, _Spot]]:
    """Every PCI device once, by its address, with its NUMA node and where it is."""
    seen = set[str]()
    for number, cpu in enumerate(root.iter("cpu")):
        numa = _number(cpu.get("numaid", ""))
        waiting: list[tuple[Element, tuple[int, ...]]] = [(pci, ()) for pci in cpu.iterfind("pci")]
        while waiting:
            pci, above = waiting.pop()
            bus = canonical_bus(pci.get("busid", ""))
            if bus and bus not in seen and len(seen) < _DEVICES_MAX:
                seen.add(bus)
                yield bus, pci, numa, _Spot(number, above)
            if len(above) < _DEPTH_MAX:
                waiting += [(inner, (*above, id(pci))) for inner in pci.iterfind("pci")]


def _is_gpu(pci: Element, marked: bool) -> bool:
    of = _class(pci.get("class", ""))
    return pci.find("gpu") is not None or of.startswith(_GPU_CLASSES) or (of.startswith(_DISPLAY_CLASS) and not marked)


def _class(text: str) -> str:
    return text.strip().lower().removeprefix("0x")


def _gpu(bus: str, pci: Element, numa: int | None, spot: _Spot) -> _Gpu:
    direct, switched = _joined(pci)
    gpu = pci.find("gpu")
    return _Gpu(bus, None if gpu is None else _number(gpu.get("dev", "")), numa, spot, direct, switched)


def _nic_names(bus: str, pci: Element) -> Iterator[str]:
    """The names of a network card's ports; its address where the file has none."""
    if not _class(pci.get("class", "")).startswith(_NETWORK_CLASS):
        return
    names = [net.get("name", "") for net in pci.iterfind("nic/net")]
    yield from [name for name in names if name and name.isprintable() and len(name) <= _NAME_MAX] or [bus]


def _joined(pci: Element) -> tuple[dict[str, tuple[str, int]], int]:
    links = Counter[tuple[str, str]]()
    switched = 0
    for tag in _PREFIX:
        for link in pci.iterfind(f"gpu/{tag}"):
            count = _number(link.get("count", "")) or 0
            if _class(link.get("tclass", "")).startswith(_SWITCH_CLASS):
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
    return _way(one.spot, other.spot)


def _way(one: _Spot, other: _Spot) -> str:
    if one.cpu != other.cpu:
        return "SYS"
    if one.above and one.above == other.above:
        return "PIX"
    return "PXB" if one.above[:1] == other.above[:1] and one.above else "PHB"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else None
