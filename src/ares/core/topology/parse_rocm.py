"""What `rocm-smi` prints, as text and as JSON, read tolerantly."""

import re
from typing import Any, Final

import msgspec

from ares.core.topology.cards import Card, Matrix
from ares.core.topology.links import INDEX_MAX, SELF, UNKNOWN

_MIB: Final = 1 << 20
_CARD: Final = re.compile(r"card(\d{1,4})")
_GPU: Final = re.compile(r"GPU(\d{1,4})")
_PAIR: Final = re.compile(r"\(topology\) (link type|hops) between drm devices (\d{1,4}) and (\d{1,4})")
_SECTION: Final = re.compile(r"=+ (.+?) =+")
_NUMA: Final = re.compile(r"GPU\[(\d{1,4})\]\s*:\s*\(Topology\) Numa Node:\s*(\d{1,4})")
_TABLES: Final = {"Link Type between two GPUs": "link type", "Hops between two GPUs": "hops"}
# Two GPUs on one socket are two hops apart over PCIe.
_HOPS_ON_ONE_SOCKET: Final = 2

# What is said about a pair of GPUs: its "link type" and its "hops".
_Said = dict[tuple[int, int], dict[str, str]]


def parse_json(text: str) -> tuple[Card, ...]:
    """Warnings may stand before the JSON, and names of fields changed between releases."""
    cards = list[Card]()
    for name, fields in _objects(text).items():
        match = _CARD.fullmatch(name)
        if match and int(match.group(1)) <= INDEX_MAX:
            cards.append(_card(int(match.group(1)), fields))
    return tuple(sorted(cards, key=lambda card: card.index))


def parse_json_links(text: str) -> Matrix:
    objects = _objects(text)
    said: _Said = {}
    for field, value in objects.get("system", {}).items():
        if match := _PAIR.fullmatch(field):
            what, first, other = match.groups()
            said.setdefault((int(first), int(other)), {})[what] = value
    return _matrix(said, {card.index: card.numa for card in parse_json(text)})


def parse_topo(text: str) -> Matrix:
    """`rocm-smi --showtopo`: a table each for weight, hops and type of link, then NUMA nodes."""
    said: _Said = {}
    table, columns = "", list[str]()
    for line in text.splitlines():
        if match := _SECTION.fullmatch(line.strip()):
            table, columns = _TABLES.get(match.group(1), ""), []
            continue
        cells = line.split()
        if not table or not cells:
            continue
        if not columns:
            columns = cells
        elif (row := _GPU.fullmatch(cells[0])) and len(cells) == len(columns) + 1:
            for column, cell in zip(columns, cells[1:], strict=True):
                if other := _GPU.fullmatch(column):
                    said.setdefault((int(row.group(1)), int(other.group(1))), {})[table] = cell
    return _matrix(said, {int(gpu): int(node) for gpu, node in _NUMA.findall(text)})


def _objects(text: str) -> dict[str, dict[str, str]]:
    """Names of fields in lower case."""
    try:
        found = msgspec.json.decode(text[text.index("{") :], type=dict[str, Any])
    except (ValueError, RecursionError):
        return {}
    return {
        name: {str(field).lower(): str(value) for field, value in fields.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType]
        for name, fields in found.items()
        if isinstance(fields, dict)
    }


def _card(index: int, fields: dict[str, str]) -> Card:
    node = fields.get("(topology) numa node", "")
    memory = fields.get("vram total memory (b)", "")
    return Card(
        index=index,
        uuid=fields.get("unique id") or f"card{index}",
        model=fields.get("card series") or fields.get("card model") or "AMD GPU",
        memory_mib=int(memory) // _MIB if re.fullmatch("[0-9]{1,18}", memory) else 0,
        bus=fields.get("pci bus", ""),
        numa=int(node) if re.fullmatch("[0-9]{1,4}", node) else None,
    )


def _matrix(said: _Said, numa: dict[int, int | None]) -> Matrix:
    gpus = tuple(sorted(gpu for gpu in {gpu for pair in said for gpu in pair} if gpu <= INDEX_MAX))

    def word(one: int, other: int) -> str:
        if one == other:
            return SELF
        pair = said.get((one, other)) or said.get((other, one)) or {}
        kind, hops = pair.get("link type", "").upper(), pair.get("hops", "")
        if kind == "PCIE" and re.fullmatch("[0-9]", hops) and int(hops) > _HOPS_ON_ONE_SOCKET:
            return "SYS"
        return kind if kind in {"XGMI", "PCIE"} else UNKNOWN

    return Matrix(
        gpus=gpus,
        words=tuple(tuple(word(gpu, other) for other in gpus) for gpu in gpus),
        numa=tuple(numa.get(gpu) for gpu in gpus),
    )
