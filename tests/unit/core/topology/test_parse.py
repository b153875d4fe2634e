"""Parsers of vendors' tools: our own samples, and real ones where they are at hand."""

import csv

import pytest

from ares.core.topology import parse_nvidia, parse_rocm
from ares.core.topology.cards import Card, Matrix, Slice, canonical_bus, mig_kind
from ares.core.topology.parse_nccl import parse_nccl
from tests.unit.core.topology.machines import MODELS, full, real, real_matrix

HEADER = "index, uuid, name, memory.total [MiB], pci.bus_id, mig.mode.current\n"
TWO_SOCKETS = (0, 0, 0, 0, 1, 1, 1, 1)
CUBE_MESH = """\
X NV1 NV1 NV2 NV2 SYS SYS SYS
NV1 X NV2 NV1 SYS NV2 SYS SYS
NV1 NV2 X NV2 SYS SYS NV1 SYS
NV2 NV1 NV2 X SYS SYS SYS NV1
NV2 SYS SYS SYS X NV1 NV1 NV2
SYS NV2 SYS SYS NV1 X NV2 NV1
SYS SYS NV1 SYS NV1 NV2 X NV2
SYS SYS SYS NV1 NV2 NV1 NV2 X
"""


# ---- links


def words(matrix: Matrix) -> list[list[str]]:
    return [list(row) for row in matrix.words]


def socket_rows(near: str) -> list[list[str]]:
    """Eight GPUs on two sockets; `near` is the row of the first GPU on its own socket, mirrored for the others."""
    a, b, c, d = near.split()
    quad = [[a, b, c, d], [b, a, d, c], [c, d, a, b], [d, c, b, a]]
    return [row + ["SYS"] * 4 for row in quad] + [["SYS"] * 4 + row for row in quad]


@pytest.mark.parametrize(
    ("name", "expected", "numa"),
    [
        ("a100_pcie_2x_cross_socket.txt", full(2, "SYS"), (0, 1)),
        ("a100_sxm_8x_compact.txt", full(8, "NV12"), TWO_SOCKETS),
        ("dgx1_v100_4nic_tabs.txt", [row.split() for row in CUBE_MESH.splitlines()], TWO_SOCKETS),
        ("dgx_a100_12nic_tabs.txt", full(8, "NV12"), (3, 3, 1, 1, 7, 7, 5, 5)),
        ("h100_mig_ansi.txt", [["X"]], (0,)),
        ("h100_sxm_8x_2nic_niclegend.txt", full(8, "NV18"), TWO_SOCKETS),
        ("h100_sxm_8x_ht_affinity.txt", full(8, "NV18"), TWO_SOCKETS),
        ("l40s_single_ansi.txt", [["X"]], (0,)),
        ("leonardo_4x_a100_4nic.txt", full(4, "NV4"), (0, 0, 0, 0)),
        ("mi300x_8x_xgmi_showtopo.txt", full(8, "XGMI"), TWO_SOCKETS),
        ("pcie_8x_plx_2socket_1nic.txt", socket_rows("X PIX PXB PXB"), TWO_SOCKETS),
        (
            "power9_ac922_4x_v100.txt",
            [["X", "NV3", "SYS", "SYS"], ["NV3", "X", "SYS", "SYS"],
             ["SYS", "SYS", "X", "NV3"], ["SYS", "SYS", "NV3", "X"]],
            (0, 0, 8, 8),
        ),
        (
            "rtx6000ada_4x_dual_socket_4nic.txt",
            [["X", "NODE", "SYS", "SYS"], ["NODE", "X", "SYS", "SYS"],
             ["SYS", "SYS", "X", "NODE"], ["SYS", "SYS", "NODE", "X"]],
            (0, 0, 1, 1),
        ),
        ("rtx6000pro_8x_dual_socket_ansi.txt", socket_rows("X PIX NODE NODE"), TWO_SOCKETS),
        (
            "rtx6000pro_8x_cascaded_switches.txt",
            [[word.replace("SYS", "NODE") for word in row] for row in socket_rows("X PIX PXB PXB")],
            (None,) * 8,
        ),
        (
            "titanx_4x_dual_socket_mlx4.txt",
            [["X", "PHB", "SYS", "SYS"], ["PHB", "X", "SYS", "SYS"],
             ["SYS", "SYS", "X", "PHB"], ["SYS", "SYS", "PHB", "X"]],
            (0, 0, 1, 1),
        ),
        ("v100_sxm2_hybrid_cube_mesh_1nic.txt", [row.split() for row in CUBE_MESH.splitlines()], TWO_SOCKETS),
    ],
)  # fmt: skip
def test_real_link_tables(name: str, expected: list[list[str]], numa: tuple[int | None, ...]) -> None:
    matrix = real_matrix(name)
    assert matrix.gpus == tuple(range(len(expected)))
    assert words(matrix) == expected
    assert matrix.numa == numa


def test_every_real_topology_is_tested() -> None:
    index = real("topology/index.csv")
    listed = {row["file"]: int(row["gpus"]) for row in csv.DictReader(index.splitlines())}
    assert listed.keys() <= MODELS.keys()
    assert {name: len(real_matrix(name).gpus) for name in listed} == listed


def test_a_strange_row_costs_its_gpu_only() -> None:
    text = """\
\tGPU0\tGPU1\tmlx5_10\tGPU2\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\tSYS\tPIX\t0-3\t0
GPU1\tERR!
GPU2\tPIX\tWAT\tSYS\t X \t\t1
mlx5_10\tSYS\tSYS\t X \tSYS\t\t
"""
    matrix = parse_nvidia.parse_topo(text)
    assert matrix == Matrix(
        (0, 2), (("X", "PIX"), ("PIX", "X")), (0, 1), nics=("mlx5_10",), nic_words=(("SYS",), ("SYS",))
    )
    assert matrix.rows((0, 1, 2)) == (("X", "?", "PIX"), ("?", "?", "?"), ("PIX", "?", "X"))
    assert matrix.rows((7,)) == ()


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "GPU0", "\tGPU0\tGPU1", "\tGPU0\nGPU0\n", "GPU99999999999999999999 X", "\tGPU0\nGPU99999999999\tX\t0",
     "No devices were found", "\x1b[4m\x1b[0m"],
)  # fmt: skip
def test_strange_link_tables_are_empty(text: str) -> None:
    assert parse_nvidia.parse_topo(text) == Matrix()
    assert parse_rocm.parse_topo(text) == Matrix()


# ---- NCCL and RCCL


def test_real_nccl_file_without_gpu_elements() -> None:
    """Azure's file: pairs behind one switch, numbered by PCI address, which is not their order in the file."""
    matrix = real_matrix("azure_ndv4-topo.xml")
    assert matrix.buses[0] == "0001:00:00.0"
    assert matrix.numa == (1, 1, 0, 0, 3, 3, 2, 2)
    assert words(matrix) == [
        ["X" if a == b else "PIX" if a // 2 == b // 2 else "SYS" for b in range(8)] for a in range(8)
    ]


def test_real_rccl_file_with_xgmi() -> None:
    matrix = real_matrix("rccl_topo_8p6l.xml")
    assert matrix.buses[:2] == ("0000:63:00.0", "0000:43:00.0")
    assert matrix.numa == TWO_SOCKETS
    missing = {(a, b) for a in range(8) for b in range(a) if matrix.words[a][b] == "SYS"}
    assert missing == {(4, 1), (5, 0), (6, 3), (7, 2)}
    assert sum(word == "XGMI" for row in matrix.words for word in row) == 8 * 6


def test_nvlinks_in_nccl_files() -> None:
    """Direct links have their count; links to switches join everybody who has some."""
    switch = '<nvlink target="0000:c4:00.0" count="6" tclass="0x068000"/>'
    text = f"""<system version="1"><cpu numaid="0">
      <pci busid="0000:01:00.0" class="0x060400">
        <pci busid="0000:02:00.0" class="0x030200"><gpu dev="1">{switch}{switch}</gpu></pci>
        <pci busid="0000:03:00.0" class="0x060400">
          <pci busid="0000:04:00.0" class="0x030200"><gpu dev="0">{switch}{switch}</gpu></pci>
          <pci busid="00000000:05:00.0" class="0x030200"><gpu dev="2">
            <nvlink target="0000:06:00.0" count="2" tclass="0x030200"/></gpu></pci></pci></pci>
      <pci busid="0000:06:00.0" class="0x030200"><gpu dev="3"/></pci>
      <pci busid="nonsense" class="0x030200"><gpu dev="4"/></pci>
    </cpu></system>"""
    matrix = parse_nccl(text)
    assert matrix.buses == ("0000:04:00.0", "0000:02:00.0", "0000:05:00.0", "0000:06:00.0")
    assert words(matrix) == [
        ["X", "NV12", "PIX", "PHB"],
        ["NV12", "X", "PXB", "PHB"],
        ["PIX", "PXB", "X", "NV2"],
        ["PHB", "PHB", "NV2", "X"],
    ]


BOMB = '<!DOCTYPE a [<!ENTITY x "yyyyyyyyyy"><!ENTITY z "&x;&x;&x;&x;">]><system><cpu>&z;</cpu></system>'


@pytest.mark.parametrize("text", ["", "<", "<system>", "{}", BOMB, "<a/>", "\ud800<a/>", "<system><cpu/></system>"])
def test_strange_xml_is_empty(text: str) -> None:
    assert parse_nccl(text) == Matrix()
    assert parse_nvidia.parse_query_xml(text) == ()


# ---- GPUs


def test_query_columns_are_found_by_name() -> None:
    text = """\
WARNING: infoROM is corrupted
uuid, mig.mode.current, index, name, memory.total [MiB], pci.bus_id
GPU-b, Enabled, 1, NVIDIA H100, 81559, 00000000:B7:00.0
GPU-a, [N/A], 0, NVIDIA H100, 81559 MiB, x
"""
    assert parse_nvidia.parse_query(text) == (
        Card(index=0, uuid="GPU-a", model="NVIDIA H100", memory_mib=81559, bus="x"),
        Card(index=1, uuid="GPU-b", model="NVIDIA H100", memory_mib=81559, bus="00000000:B7:00.0", mig=True),
    )


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("0, GPU-a, NVIDIA GB10, [N/A], 0000000F:01:00.0, [N/A]", [0]),
        ("0, GPU-a, Tesla K80, 11441 MiB, 00000000:04:00.0, [N/A]", [11441]),
        ('0, GPU-a, "Board, Special", 100, 00000000:04:00.0, [N/A]', [100]),
        ("0, GPU-a, X\n1, GPU-b, Y, 5, 00000000:04:00.0, [N/A]", [5]),
        ("99999999999, GPU-a, X, 1, 00000000:04:00.0, [N/A]", []),
        ("²,GPU-a,X,1,y,z", []),
        ("No devices were found", []),
        ("Unable to determine the device handle for GPU0: 0000:03:00.0: Unknown Error", []),
        ("", []),
        ("\x00\x1b[31m,,,,,", []),
    ],
)
def test_strange_query_lines_cost_only_themselves(text: str, memory: list[int]) -> None:
    assert [card.memory_mib for card in parse_nvidia.parse_query(HEADER + text)] == memory


@pytest.mark.parametrize(
    ("folder", "model", "mib", "bus"),
    [
        ("linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01", "NVIDIA H100 80GB HBM3", 81559, "0000:00:09.0"),
        (
            "linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05",
            "NVIDIA GeForce RTX 4080 SUPER", 16376, "0000:01:00.0",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("state", ["idle", "load"])
def test_real_queries(folder: str, model: str, mib: int, bus: str, state: str) -> None:
    """The samples hold every field there is."""
    (card,) = parse_nvidia.parse_query(real(f"smi/{folder}/{state}_query_gpu_csv_what_the_exporter_parses.txt"))
    assert (card.index, card.model, card.memory_mib, canonical_bus(card.bus), card.mig) == (0, model, mib, bus, False)
    assert parse_nvidia.parse_list(real(f"smi/{folder}/capabilities_list_l.txt")) == ()
    for other in ("idle_nvidia_smi_default_table", "idle_query_compute_apps_per_process", "capabilities_nvlink_s"):
        assert parse_nvidia.parse_query(real(f"smi/{folder}/{other}.txt")) == ()


def test_real_xml_with_mig() -> None:
    (card,) = parse_nvidia.parse_query_xml(real("smi/a100-sxm4-v12.xml"))
    assert card.uuid.startswith("GPU-513536b6")
    assert (card.index, card.model, card.memory_mib, card.mig) == (0, "NVIDIA A100-SXM4-80GB", 81920, True)
    assert canonical_bus(card.bus) == "0000:01:00.0"


def test_mig_devices_are_listed_under_their_gpu() -> None:
    text = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)
  MIG 3g.40gb     Device  0: (UUID: MIG-aaaa-1)
  MIG 1g.10gb+me  Device  1: (UUID: MIG-bbbb-2)
  MIG what?
GPU 2: NVIDIA A100 (UUID: GPU-3)
  MIG 1c.3g.20gb  Device  0: (UUID: MIG-GPU-3/1/0)
"""
    slices = parse_nvidia.parse_list(text)
    assert slices == (
        Slice(1, "3g.40gb", "MIG-aaaa-1"),
        Slice(1, "1g.10gb+me", "MIG-bbbb-2"),
        Slice(2, "1c.3g.20gb", "MIG-GPU-3/1/0"),
    )
    assert [mig_kind(piece.profile) for piece in slices] == ["mig-3g.40gb", "mig-1g.10gb-me", "mig-1c.3g.20gb"]


def test_rocm_json_after_warnings() -> None:
    text = """\
WARNING: AMD GPU device(s) is/are in a low-power state.
{"card1": {"Unique ID": "0x2", "Card Series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992",
           "PCI Bus": "0000:9D:00.0", "(Topology) Numa Node": "1"},
 "card0": {"Unique ID": "0x1", "Card series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "N/A"},
 "card2": 5,
 "system": {"(Topology) Link type between DRM devices 0 and 1": "XGMI",
            "(Topology) Link type between DRM devices 0 and 2": "PCIE",
            "(Topology) Hops between DRM devices 0 and 2": "3"}}
"""
    assert parse_rocm.parse_json(text) == (
        Card(index=0, uuid="0x1", model="AMD Instinct MI300X", memory_mib=0),
        Card(index=1, uuid="0x2", model="AMD Instinct MI300X", memory_mib=196592, bus="0000:9D:00.0", numa=1),
    )
    assert words(parse_rocm.parse_json_links(text)) == [["X", "XGMI", "SYS"], ["XGMI", "X", "?"], ["SYS", "?", "X"]]


@pytest.mark.parametrize("text", ["", "no devices", "{", "[1]", '{"card0": 5}', '{"cardX": {}}', '{"a":' * 5000])
def test_strange_rocm_output_is_empty(text: str) -> None:
    assert parse_rocm.parse_json(text) == ()
    assert parse_rocm.parse_json_links(text) == Matrix()


def test_real_rocm_json() -> None:
    text = real("smi/mi100_rocm602.json")
    cards = parse_rocm.parse_json(text)
    assert [(card.index, card.memory_mib, card.numa) for card in cards] == [(n, 32752, 1) for n in range(4)]
    assert all("MI100" in card.model and canonical_bus(card.bus) for card in cards)
    matrix = parse_rocm.parse_json_links(text)
    assert words(matrix) == full(4, "PCIE")
    assert matrix.numa == (1, 1, 1, 1)


def test_what_gpus_do_now() -> None:
    text = "0, 93, 40532\n1, [N/A], 3\n2, 101, 0\nx\n9999, 1, 1\n3, 5\n"
    found = parse_nvidia.parse_use(text)
    assert {index: (use.busy_percent, use.memory_mib) for index, use in found.items()} == {0: (93, 40532), 2: (100, 0)}
    assert parse_nvidia.parse_use("") == {}
    text = "0, 93, 40532, 612.48, 71\n1, 5, 3, [N/A], 40\n2, 5, 3, [Unknown Error], [N/A]\n3, 5, 3, 1e9, 5000\n"
    told = [(use.watts, use.celsius) for use in parse_nvidia.parse_use(text).values()]
    assert told == [(612.48, 71), (None, 40), (None, None), (None, None)]
