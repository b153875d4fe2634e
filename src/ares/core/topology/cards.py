"""What vendors' tools report about GPUs, in one form for all tools."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from ares.core.topology.links import UNKNOWN
from ares.model.node import Gpu

_ADDRESS: Final = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?")


def canonical_bus(address: str) -> str:
    """PCI addresses in one spelling: tools differ in the width of the domain, in case, and in leaving out a domain or a
    function of 0. Empty when it is none."""
    match = _ADDRESS.fullmatch(address.strip().lower())
    if match is None:
        return ""
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function or '0'}"


@lru_cache(4096)
def words(model: str) -> frozenset[str]:
    """Models are compared by whole words, so that "A10" does not get an A100."""
    return frozenset(re.findall(r"[a-z0-9]+", model.casefold()))


def mig_kind(profile: str) -> str:
    """The kind of device that a MIG slice is, as jobs ask for it. Kinds have no plus sign."""
    return f"mig-{profile.lower().replace('+', '-')}"


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU. What the tool does not say is empty, 0 or None."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    bus: str = ""
    numa: int | None = None
    mig: bool = False


class Slice(NamedTuple):
    """One MIG device: a part of a GPU, to be had on its own."""

    gpu: int
    profile: str
    uuid: str


class Matrix(NamedTuple):
    """The links between GPUs. Rows, columns and `numa` are in the order of `gpus`."""

    gpus: tuple[int, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    numa: tuple[int | None, ...] = ()
    # Their PCI addresses, where the source names GPUs by these.
    buses: tuple[str, ...] = ()
    # Network cards by name, and for each GPU its link to each of them.
    nics: tuple[str, ...] = ()
    nic_words: tuple[tuple[str, ...], ...] = ()

    def rows(self, indexes: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
        """The links as in `NodeInfo.gpu_links` for these GPUs; empty when none of them is known."""
        at = {gpu: place for place, gpu in enumerate(self.gpus)}
        if not at.keys() & set(indexes):
            return ()
        return tuple(
            tuple(self.words[at[a]][at[b]] if a in at and b in at else UNKNOWN for b in indexes) for a in indexes
        )

    def nic_rows(self, indexes: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
        """The links of these GPUs to the network cards; empty when there are none."""
        at = {gpu: place for place, gpu in enumerate(self.gpus)}
        unknown = (UNKNOWN,) * len(self.nics)
        return tuple(self.nic_words[at[gpu]] if gpu in at else unknown for gpu in indexes) if self.nics else ()

    def numa_of(self, index: int) -> int | None:
        return dict(zip(self.gpus, self.numa, strict=True)).get(index)


def answering(gpus: Sequence[Gpu], model: str | None, memory_mib: int, wide: int) -> list[bool]:
    """Which of a machine's GPUs answer to a wish for a model and a memory size, by their indexes below `wide`."""
    answers = [False] * wide
    wanted = words(model or "")
    for gpu in gpus:
        if gpu.index < wide:
            answers[gpu.index] = not gpu.mig and gpu.memory_mib >= memory_mib and wanted <= words(gpu.model)
    return answers
