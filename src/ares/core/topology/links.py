"""The links between the GPUs of one machine, with their speeds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from ares.model.node import Gpu, LinkKind

# The word for a pair of which nothing is known, and the one on the diagonal.
UNKNOWN: Final = "?"
SELF: Final = "X"
# Masks have one bit per GPU index; a larger index is a driver's error.
INDEX_MAX: Final = 1023
# One bit each: further GPUs of a node are not given to jobs, and their links, which are many, are not read.
GPUS_MAX: Final = 62


class Speeds(NamedTuple):
    """What one link of a GPU model carries in one direction, in GB/s, and its generation of PCIe."""

    nvlink: float
    xgmi: float
    pcie: int


class GpuLink(NamedTuple):
    kind: LinkKind
    gbps: float  # GB/s in one direction


# The first line of which a word is in the model's name counts. Zero: the model has no such links.
_MODELS: Final[tuple[tuple[tuple[str, ...], Speeds], ...]] = (
    (("gb200", "gb300", "b100", "b200", "b300"), Speeds(50, 0, 5)),
    (("h100", "h200", "h800", "h20"), Speeds(25, 0, 5)),
    (("a100", "a800", "a30"), Speeds(25, 0, 4)),
    (("v100",), Speeds(25, 0, 3)),
    (("p100",), Speeds(20, 0, 3)),
    (("rtx a6000", "a40", "a5000", "3090"), Speeds(14, 0, 4)),
    (("rtx pro", "5090", "5080"), Speeds(0, 0, 5)),
    (("titan", "gtx", "rtx 20", "quadro", "t4", "k80", "m40", "p40"), Speeds(25, 0, 3)),
    (("mi30", "mi32", "mi35"), Speeds(0, 64, 5)),
    (("mi2",), Speeds(0, 50, 4)),
    (("mi1", "mi5", "mi6"), Speeds(0, 46, 4)),
)
_OTHER_MODELS: Final = Speeds(25, 50, 4)
# A link that the tool reports and the model should not have: the least that was ever built.
_LEAST: Final = Speeds(14, 46, 3)
# By generation: on one socket, and across sockets. PIX, PXB, PHB and NODE measure alike, so they are one class.
_PCIE: Final[dict[int, tuple[float, float]]] = {3: (12.0, 10.0), 4: (24.0, 20.0), 5: (55.0, 44.0)}
_ONE_SOCKET: Final = frozenset({"PIX", "PXB", "PHB", "NODE", "PCIE"})
_ACROSS: Final = frozenset({"SYS", "SOC"})
# Links of other vendors: MetaX, Moore Threads, Huawei, Intel, Biren; LINK where only a legend says that it is one.
_COUNTED: Final = re.compile(r"(NV|XGMI|MX|MTL|HCCS|XL|BLINK|LINK)(\d{0,3})")
# What one of those carries is not known for all of them. They are built to be faster than PCIe, so that is the least.
_FABRIC_GBPS: Final = 50.0


def is_link_word(word: str) -> bool:
    return word == SELF or word in _ONE_SOCKET or word in _ACROSS or _COUNTED.fullmatch(word) is not None


def joins(word: str) -> bool:
    """Whether the word names a link that a vendor builds between GPUs, as against PCIe."""
    return _COUNTED.fullmatch(word) is not None


# How near a GPU is to a network card: behind one PCIe switch with it, on its socket, or elsewhere.
_NEARNESS: Final = {"PIX": 3, "PXB": 3, "PHB": 2, "NODE": 1}


def nearness(word: str) -> int:
    return _NEARNESS.get(word, 0)


@lru_cache(maxsize=1024)
def speeds(model: str) -> Speeds:
    name = model.lower()
    return next((found for words, found in _MODELS if any(word in name for word in words)), _OTHER_MODELS)


@lru_cache(maxsize=4096)
def read_link(word: str, one: str, other: str) -> GpuLink:
    """What a word such as "NV4" means between two models. The slower of the two sets the speed."""
    a, b = speeds(one), speeds(other)
    if match := _COUNTED.fullmatch(word):
        count = max(1, int(match.group(2) or 1))
        if match.group(1) == "NV":
            return GpuLink("nvlink", float(count * (min(a.nvlink, b.nvlink) or _LEAST.nvlink)))
        if match.group(1) == "XGMI":
            return GpuLink("xgmi", float(count * (min(a.xgmi, b.xgmi) or _LEAST.xgmi)))
        return GpuLink("fabric", max(count * _FABRIC_GBPS, _PCIE[min(a.pcie, b.pcie)][0]))
    near, far = _PCIE[min(a.pcie, b.pcie)]
    if word in _ONE_SOCKET:
        return GpuLink("pcie", near)
    # Every GPU is on PCIe at least, so the slowest of its classes is a safe guess.
    return GpuLink("pcie" if word in _ACROSS else "none", far)


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """Rows and columns are positions, in order of GPU index."""

    indexes: tuple[int, ...]
    numa: tuple[int, ...]
    links: tuple[tuple[GpuLink, ...], ...]
    # Which domain each GPU is in: GPUs joined by NVLink, XGMI or the like, directly or through others.
    domain: tuple[int, ...]
    # Every pair is equally fast: for bandwidth the choice does not matter.
    uniform: bool
    # The speed of the fastest pair, in GB/s.
    fastest: float
    # Uniform by NVLink: an NVSwitch, or a full mesh, which is the same for the choice.
    nvswitch: bool

    def gbps(self, one: int, other: int) -> float:
        return self.links[one][other].gbps


_ITSELF: Final = GpuLink("none", 0.0)
JOINING: Final = frozenset[LinkKind]({"nvlink", "xgmi", "fabric"})


def link_graph(gpus: Sequence[Gpu], rows: Sequence[Sequence[str]]) -> LinkGraph:
    """`rows` are `NodeInfo.gpu_links`, in the order of `gpus`; what is missing there is not known."""
    known = {gpu.index: at for at, gpu in enumerate(gpus) if 0 <= gpu.index < GPUS_MAX}
    order = sorted(known)
    places = [known[index] for index in order]

    def word(one: int, other: int) -> str:
        return rows[one][other] if one < len(rows) and other < len(rows[one]) else UNKNOWN

    def between(one: int, other: int) -> GpuLink:
        models = gpus[one].model, gpus[other].model
        # A link has one speed; where the two directions disagree, the slower one is believed.
        return min(read_link(word(one, other), *models), read_link(word(other, one), *models), key=lambda k: k.gbps)

    below = [[between(place, other) for other in places[:at]] for at, place in enumerate(places)]
    pairs = {link for row in below for link in row}
    size = range(len(places))
    links = tuple(tuple(below[a][b] if b < a else below[b][a] if a < b else _ITSELF for b in size) for a in size)
    return LinkGraph(
        indexes=tuple(order),
        numa=tuple(gpus[at].numa_node for at in places),
        links=links,
        domain=_domains(links),
        fastest=max((link.gbps for link in pairs), default=0.0),
        uniform=len({link.gbps for link in pairs}) <= 1,
        nvswitch=len(pairs) == 1 and next(iter(pairs)).kind == "nvlink",
    )


def _domains(links: tuple[tuple[GpuLink, ...], ...]) -> tuple[int, ...]:
    """Connected components, numbered in order of their lowest GPU."""
    domain = [-1] * len(links)
    number = 0
    for first in range(len(links)):
        if domain[first] >= 0:
            continue
        reached = [first]
        domain[first] = number
        while reached:
            row = links[reached.pop()]
            for other, link in enumerate(row):
                if domain[other] < 0 and link.kind in JOINING:
                    domain[other] = number
                    reached.append(other)
        number += 1
    return tuple(domain)
