"""What `nvidia-smi` and `rocm-smi` print, read tolerantly: a strange line costs that GPU, not the node."""

import csv
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ares.model.node import Gpu

NVIDIA_COMMAND: Final = (
    "nvidia-smi",
    "--query-gpu=index,uuid,name,memory.total,pci.bus_id",
    "--format=csv,noheader,nounits",
)
ROCM_COMMAND: Final = (
    "rocm-smi", "--json", "--showuniqueid", "--showproductname", "--showmeminfo", "vram", "--showbus", "--showtoponuma",
)  # fmt: skip
_NVIDIA_FIELDS: Final = 5
_MIB: Final = 1 << 20
_CARD: Final = re.compile(r"card(\d+)")

NumaOf = Callable[[str], int]


def parse_nvidia(text: str, numa_of: NumaOf) -> tuple[Gpu, ...]:
    """`numa_of` maps a PCI address to its NUMA node."""
    gpus = list[Gpu]()
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        fields = [field.strip() for field in row]
        if len(fields) != _NVIDIA_FIELDS or not fields[0].isdigit() or not fields[1].startswith("GPU-"):
            continue
        index, uuid, model, memory, bus = fields
        # Units appear when an old driver ignores `nounits`; "[N/A]" where memory is shared with the host.
        amount = re.match(r"\d+", memory)
        mib = int(amount.group()) if amount else 0
        gpus.append(Gpu(index=int(index), uuid=uuid, model=model, memory_mib=mib, numa_node=numa_of(bus)))
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def parse_rocm(text: str, numa_of: NumaOf) -> tuple[Gpu, ...]:
    """Warnings may stand before the JSON, and names of fields changed between releases."""
    try:
        cards = msgspec.json.decode(text[text.index("{") :], type=dict[str, Any])
    except ValueError:
        return ()
    gpus = list[Gpu]()
    for name, fields in cards.items():
        if match := _CARD.fullmatch(name):
            try:
                known = msgspec.convert(fields, dict[str, Any])
            except msgspec.ValidationError:
                continue
            gpus.append(_rocm_gpu(int(match.group(1)), {k.lower(): str(v) for k, v in known.items()}, numa_of))
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def _rocm_gpu(index: int, fields: dict[str, str], numa_of: NumaOf) -> Gpu:
    node = fields.get("(topology) numa node", "")
    memory = fields.get("vram total memory (b)", "")
    return Gpu(
        index=index,
        uuid=fields.get("unique id") or f"card{index}",
        model=fields.get("card series") or fields.get("card model") or "AMD GPU",
        memory_mib=int(memory) // _MIB if memory.isdigit() else 0,
        numa_node=int(node) if node.isdigit() else numa_of(fields.get("pci bus", "")),
        vendor="amd",
    )
