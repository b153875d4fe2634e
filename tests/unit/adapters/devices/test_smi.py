"""Parsers of vendor tools: our own samples, and real ones where they are at hand."""

import csv
from pathlib import Path

import pytest

from ares.adapters.devices.smi import parse_nvidia, parse_rocm
from ares.model.node import Gpu

REAL = Path(__file__).parents[5] / "shared" / "data" / "smi"


def real_file(name: str) -> Path:
    if not (path := REAL / name).exists():
        pytest.skip(f"no real sample {name} beside the project (expected under ../shared/data/smi)")
    return path


def test_nvidia_lines() -> None:
    text = """\
0, GPU-aaaa, NVIDIA A100-SXM4-40GB, 40960, 00000000:07:00.0
1, GPU-bbbb, NVIDIA A100-SXM4-40GB, 40960, 00000000:B7:00.0
"""
    asked: list[str] = []

    def numa_of(address: str) -> int:
        asked.append(address)
        return len(asked) - 1

    assert parse_nvidia(text, numa_of) == (
        Gpu(index=0, uuid="GPU-aaaa", model="NVIDIA A100-SXM4-40GB", memory_mib=40960, numa_node=0),
        Gpu(index=1, uuid="GPU-bbbb", model="NVIDIA A100-SXM4-40GB", memory_mib=40960, numa_node=1),
    )
    assert asked == ["00000000:07:00.0", "00000000:B7:00.0"]


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("0, GPU-a, NVIDIA GB10, [N/A], 0000000F:01:00.0", [0]),
        ("0, GPU-a, Tesla K80, 11441 MiB, 00000000:04:00.0", [11441]),
        ('0, GPU-a, "Board, Special", 100, 00000000:04:00.0', [100]),
        ("No devices were found", []),
        ("Unable to determine the device handle for GPU0: 0000:03:00.0: Unknown Error", []),
        ("index, uuid, name, memory.total [MiB], pci.bus_id\n0, GPU-a, X, 5 MiB, 00000000:04:00.0", [5]),
        ("", []),
        ("\x00\x1b[31m,,,,", []),
    ],
)
def test_strange_nvidia_output_costs_only_its_line(text: str, memory: list[int]) -> None:
    assert [gpu.memory_mib for gpu in parse_nvidia(text, lambda _: 0)] == memory


@pytest.mark.parametrize(
    ("folder", "model", "mib"),
    [
        ("linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01", "NVIDIA H100 80GB HBM3", 81559),
        ("linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05", "NVIDIA GeForce RTX 4080 SUPER", 16376),
    ],
)
def test_real_nvidia_output(folder: str, model: str, mib: int) -> None:
    """The samples hold every field; ours are picked out as the tool would print them."""
    text = real_file(f"{folder}/idle_query_gpu_csv_what_the_exporter_parses.txt").read_text()
    rows = list(csv.DictReader(text.splitlines(), skipinitialspace=True))
    wanted = ("index", "uuid", "name", "memory.total [MiB]", "pci.bus_id")
    gpus = parse_nvidia("\n".join(", ".join(row[name] for name in wanted) for row in rows), lambda _: 0)
    assert [(gpu.model, gpu.memory_mib) for gpu in gpus] == [(model, mib)]


def test_rocm_json_after_warnings() -> None:
    text = """\
WARNING: AMD GPU device(s) is/are in a low-power state.
{"card1": {"Unique ID": "0x2", "Card Series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992",
           "PCI Bus": "0000:9D:00.0", "(Topology) Numa Node": "1"},
 "card0": {"Unique ID": "0x1", "Card series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "N/A",
           "PCI Bus": "0000:1B:00.0"},
 "system": {"Driver version": "6.2"}}
"""
    assert parse_rocm(text, lambda bus: 3 if bus == "0000:1B:00.0" else 9) == (
        Gpu(index=0, uuid="0x1", model="AMD Instinct MI300X", memory_mib=0, numa_node=3, vendor="amd"),
        Gpu(index=1, uuid="0x2", model="AMD Instinct MI300X", memory_mib=196592, numa_node=1, vendor="amd"),
    )


@pytest.mark.parametrize("text", ["", "no devices", "{", "[1]", '{"card0": 5}', '{"card0": {}, "cardX": {}}'])
def test_strange_rocm_output_is_survived(text: str) -> None:
    assert len(parse_rocm(text, lambda _: 0)) <= 1


def test_real_rocm_output() -> None:
    gpus = parse_rocm(real_file("mi100_rocm602.json").read_text(), lambda _: -1)
    assert gpus
    assert {gpu.memory_mib for gpu in gpus} == {32752}
    assert all("MI100" in gpu.model and gpu.numa_node >= 0 for gpu in gpus)
    assert [gpu.index for gpu in gpus] == list(range(len(gpus)))
