"""What vendors' tools say about GPUs, in one form whichever tool said it."""

from dataclasses import dataclass
from typing import NamedTuple

from ares.core.topology.links import UNKNOWN


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

    def rows(self, indexes: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
        """As `NodeInfo.gpu_links` for these GPUs; empty when it knows none of them."""
        at = {gpu: place for place, gpu in enumerate(self.gpus)}
        if not at.keys() & set(indexes):
            return ()
        return tuple(
            tuple(self.words[at[a]][at[b]] if a in at and b in at else UNKNOWN for b in indexes) for a in indexes
        )

    def numa_of(self, index: int) -> int | None:
        return dict(zip(self.gpus, self.numa, strict=True)).get(index)
