"""What `nvidia-smi` prints, read tolerantly: a strange line costs that GPU, never the node."""

import csv
import re
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element, ParseError, fromstring

from ares.core.topology.cards import Card, Matrix, Slice
from ares.core.topology.link_table import ANSI, read_link_table
from ares.core.topology.links import INDEX_MAX
from ares.model.job_session import GpuReading

_GPUS_MAX: Final = 1024
_LISTED: Final = re.compile(r"GPU (\d{1,4}): ")
_MIG: Final = re.compile(r"\s+MIG ([0-9a-z.+]+)\s+Device\s+\d+: \(UUID: (MIG-[0-9A-Za-z/-]+)\)")


# ---- nvidia-smi --query-gpu=… --format=csv


def parse_query(text: str) -> tuple[Card, ...]:
    """Columns are found by the header: their order does not matter, and there may be more of them."""
    cards = dict[int, Card]()
    for row in _rows(text):
        index, uuid = row.get("index", ""), row.get("uuid", "")
        if not _is_index(index) or not uuid.startswith("GPU-"):
            continue
        cards[int(index)] = Card(
            index=int(index),
            uuid=uuid,
            model=row.get("name", ""),
            memory_mib=_mib(row.get("memory.total", "")),
            bus=row.get("pci.bus_id", ""),
            mig=row.get("mig.mode.current") == "Enabled",
        )
    return tuple(cards[index] for index in sorted(cards))


def _rows(text: str) -> Iterator[dict[str, str]]:
    """Warnings may stand before the header. Units are cut off the names: "memory.total [MiB]"."""
    names: list[str] | None = None
    for line in text.splitlines():
        try:
            cells = [cell.strip() for row in csv.reader([line], skipinitialspace=True) for cell in row]
        except csv.Error:
            continue
        if names is None:
            heads = [re.sub(r" \[.*\]$", "", cell) for cell in cells]
            names = heads if {"index", "uuid"} <= set(heads) else None
        elif len(cells) == len(names):
            yield dict(zip(names, cells, strict=True))


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(INDEX_MAX)) and int(text) <= INDEX_MAX


def _mib(text: str) -> int:
    """Units appear when an old driver ignores `nounits`; "[N/A]" where memory is shared with the host."""
    amount = re.match(r"[0-9]{1,9}", text)
    return int(amount.group()) if amount else 0


# ---- nvidia-smi -q -x


def parse_query_xml(text: str) -> tuple[Card, ...]:
    """It names no index; GPUs stand in the order of their indexes."""
    root = read_xml(text)
    return () if root is None else tuple(_cards(root))


def _cards(root: Element) -> Iterator[Card]:
    for index, gpu in enumerate(root.iterfind("gpu")):
        uuid = _text(gpu, "uuid")
        if uuid.startswith("GPU-") and index <= INDEX_MAX:
            yield Card(
                index=index,
                uuid=uuid,
                model=_text(gpu, "product_name"),
                memory_mib=_mib(_text(gpu, "fb_memory_usage/total")),
                bus=_text(gpu, "pci/pci_bus_id") or gpu.get("id", ""),
                mig=_text(gpu, "mig_mode/current_mig") == "Enabled",
            )


def _text(element: Element, path: str) -> str:
    return (element.findtext(path) or "").strip()


# ---- nvidia-smi -L


def parse_list(text: str) -> tuple[Slice, ...]:
    """The MIG devices, each under its GPU."""
    slices = list[Slice]()
    gpu: int | None = None
    for line in ANSI.sub("", text).splitlines():
        if match := _LISTED.match(line):
            gpu = int(match.group(1))
        elif gpu is not None and (match := _MIG.match(line)):
            slices.append(Slice(gpu, match.group(1), match.group(2)))
    return tuple(slices)


# ---- nvidia-smi topo -m


def parse_topo(text: str) -> Matrix:
    return read_link_table(text)


_CHARS_MAX: Final = 16 << 20


def read_xml(text: str) -> Element | None:
    """None when it is not XML, or declares entities: no tool does, and they can grow without bound."""
    if len(text) > _CHARS_MAX or "<!ENTITY" in text or "<" not in text:
        return None
    try:
        return fromstring(text[text.index("<") :])
    except (ParseError, ValueError):
        return None


def parse_use(said: str) -> dict[int, GpuReading]:
    """Lines of index, per cent, MiB, watts and degrees. What a driver calls [N/A] is not told: without one of the first
    three the whole line, without one of the others that one."""
    found = dict[int, GpuReading]()
    for line in said.splitlines()[:_GPUS_MAX]:
        parts = [part.strip() for part in line.split(",")]
        if len(parts) < 3 or not all(re.fullmatch(r"\d{1,7}", part, re.ASCII) for part in parts[:3]):
            continue
        index, busy, memory = map(int, parts[:3])
        watts, celsius = (*parts[3:], "", "")[:2]
        if index < _GPUS_MAX:
            found[index] = GpuReading(
                index=index,
                busy_percent=min(100, busy),
                memory_mib=memory,
                watts=float(watts) if re.fullmatch(r"\d{1,5}(\.\d{1,3})?", watts, re.ASCII) else None,
                celsius=int(celsius) if re.fullmatch(r"-?\d{1,2}|[1-9]\d{2}", celsius, re.ASCII) else None,
            )
    return found
