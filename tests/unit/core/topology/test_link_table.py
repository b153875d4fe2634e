"""Tables of links as drivers print them and people paste them: the same machine is read from every form."""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from ares.core.topology.cards import Matrix
from ares.core.topology.link_table import read_link_table
from ares.core.topology.links import is_link_word, link_graph, read_link
from ares.core.topology.parse_nccl import parse_nccl
from ares.model.node import Gpu

LEGEND = """\

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


@dataclass(frozen=True)
class Machine:
    """GPUs in two halves, with network cards; `word` joins a half."""

    gpus: int
    word: str = "NV4"
    nics: tuple[str, ...] = ("mlx5_0", "mlx5_1")
    cpus: tuple[str, str] = ("0-15,32-47", "16-31,48-63")
    nodes: tuple[int, int] = (0, 1)

    def half(self, gpu: int) -> int:
        return int(gpu >= (self.gpus + 1) // 2)

    def rows(self) -> list[list[str]]:
        return [
            ["X" if a == b else self.word if self.half(a) == self.half(b) else "SYS" for b in range(self.gpus)]
            for a in range(self.gpus)
        ]

    def nic_rows(self) -> list[list[str]]:
        return [["PIX" if self.half(a) == at % 2 else "SYS" for at in range(len(self.nics))] for a in range(self.gpus)]

    def matrix(self) -> Matrix:
        return Matrix(
            gpus=tuple(range(self.gpus)),
            words=tuple(map(tuple, self.rows())),
            numa=tuple(self.nodes[self.half(gpu)] for gpu in range(self.gpus)),
            nics=self.nics,
            nic_words=tuple(map(tuple, self.nic_rows())) if self.nics else ((),) * self.gpus,
        )


# ---- forms: cells of a head and of rows, to a line

Line = Callable[[Sequence[str]], str]


def tabs(cells: Sequence[str]) -> str:
    return "\t".join(f" {cell} " if cell == "X" else cell for cell in cells)


def doubled_tabs(cells: Sequence[str]) -> str:
    return "\t\t".join(cells)


def doubled_before_the_tail(cells: Sequence[str]) -> str:
    last = next((at for at, cell in enumerate(cells) if cell[:1].isdigit() or cell.startswith(("CPU", "NUMA"))), 0)
    return "\t".join(cells[:last]) + "\t\t" + "\t\t".join(cells[last:])


def columns(cells: Sequence[str]) -> str:
    return "".join(cell.ljust(16) for cell in cells)


def two_blanks(cells: Sequence[str]) -> str:
    return "  ".join(cells)


def markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def bold_markdown(cells: Sequence[str]) -> str:
    return "|" + "|".join(f" **{cell}** " if cell.startswith("NV") else f" {cell} " for cell in cells) + "|"


FORMS: tuple[Line, ...] = (tabs, doubled_tabs, doubled_before_the_tail, columns, two_blanks, markdown, bold_markdown)
TAILS = (
    ("CPU Affinity", "NUMA Affinity"),
    ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID"),
    ("Node Affinity", "CPU Affinity"),
    ("NUMA",),
    ("NUMA node", "CPUs"),
)
# What stands before a line, and around the table.
PREFIXES = ("", "    ", "> ", "node07: ", "[1,0]<stdout>:")
PROMPTS = (
    "",
    "$ nvidia-smi topo -m\n",
    "root@host:~# nvidia-smi topo -m\n",
    "```\n",
    "Attached GPUs   : 8\nDevice link type matrix\n",
)
SUFFIXES = ("", "\t(local)", "   # socket", "  <- here")


def table(
    machine: Machine, line: Line, tail: Sequence[str], prefix: str = "", prompt: str = "", suffix: str = ""
) -> str:
    names = [f"GPU{gpu}" for gpu in range(machine.gpus)] + list(machine.nics)
    lines = [line(["", *names, *tail])]
    if line in {markdown, bold_markdown}:
        lines.append("|---" * (1 + len(names) + len(tail)) + "|")
    for gpu in range(machine.gpus):
        values = {"CPU": machine.cpus[machine.half(gpu)], "GPU": "N/A"}
        node = str(machine.nodes[machine.half(gpu)])
        said = [values.get(head[:3], node) for head in tail]
        row = [f"GPU{gpu}", *machine.rows()[gpu], *machine.nic_rows()[gpu], *said]
        lines.append(line(row) + (suffix if line not in {markdown, bold_markdown} else ""))
    blank = [""] * len(tail)
    for at, nic in enumerate(machine.nics):
        to_nics = ["X" if at == other else "NODE" for other in range(len(machine.nics))]
        lines.append(line([nic, *(row[at] for row in machine.nic_rows()), *to_nics, *blank]).rstrip(" "))
    return prompt + "\n".join(prefix + text for text in lines) + "\n" + LEGEND


@pytest.mark.parametrize("line", FORMS, ids=lambda line: line.__name__)
@pytest.mark.parametrize("tail", TAILS, ids="-".join)
def test_one_machine_in_every_form(line: Line, tail: tuple[str, ...]) -> None:
    for machine in (
        Machine(1), Machine(2, "PHB", ()), Machine(4), Machine(8, "PXB", ("NIC0", "NIC1", "NIC2")),
        Machine(4, nodes=(3, 8)), Machine(4, cpus=("0", "1")), Machine(16, "NV12", ("bnxt_re0", "rdmap16s27")),
        Machine(4, cpus=("0,2,4", "1,3,5")),
    ):  # fmt: skip
        assert read_link_table(table(machine, line, tail)) == machine.matrix(), table(machine, line, tail)


def test_prompts_prefixes_and_remarks_change_nothing() -> None:
    machine = Machine(4)
    plain = [line for line in FORMS if line not in {markdown, bold_markdown}]
    for line, tail, prefix, prompt, suffix in itertools.product(plain, TAILS[:2], PREFIXES, PROMPTS[1:4:2], SUFFIXES):
        text = table(machine, line, tail, prefix, prompt, suffix)
        assert read_link_table(text) == machine.matrix(), text


def test_colours_rows_in_any_order_and_other_spellings() -> None:
    machine = Machine(4)
    head, *rows = table(machine, tabs, TAILS[1]).split("\n")
    coloured = "\n".join([f"\t\x1b[4m{head.lstrip()}\x1b[0m", *rows])
    assert read_link_table(coloured) == machine.matrix()
    random.Random(1).shuffle(rows)
    assert read_link_table("\n".join([head, *rows])) == machine.matrix()
    spelled = table(machine, markdown, TAILS[1]).replace("GPU1", "GPU 1").replace("GPU2", "gpu2")
    assert read_link_table(spelled) == machine.matrix()


def test_rows_without_a_head_are_square() -> None:
    text = "GPU0  X  NV2  0-3  0\nGPU1  NV2  X  4-7  1\n"
    assert read_link_table(text)[:3] == ((0, 1), (("X", "NV2"), ("NV2", "X")), (0, 1))


def test_a_row_that_is_missing_is_read_from_the_others() -> None:
    """People cut tables: GPU3 has no row, so it is not known; what a row leaves out its counterpart tells."""
    text = "| | GPU0 | GPU1 | GPU2 |\n|---|---|---|---|\n| GPU0 | X | NV4 | PHB |\n| GPU1 | | X | PXB |\n"
    for cut in (text, text.replace("| GPU1 | |", "| GPU1 | N/A |")):
        assert read_link_table(cut)[:2] == ((0, 1), (("X", "NV4"), ("NV4", "X")))


def test_prose_and_other_tables_are_no_table_of_links() -> None:
    other = "| | GPU0 | GPU1 |\n|---|---|---|\n| GPU0 | X | OK |\n| GPU1 | OK | X |\n"
    assert read_link_table("GPU0 is on another node than GPU1\n") == Matrix()
    assert read_link_table(other).words == (("X", "?"), ("?", "X"))
    assert read_link_table(other + table(Machine(2), tabs, TAILS[0])) == Machine(2).matrix()
    assert read_link_table(table(Machine(4), tabs, TAILS[0]) + "GPU3 is hot\n") == Machine(4).matrix()


# ---- other vendors


@pytest.mark.parametrize(
    ("word", "meaning", "read"),
    [
        ("MX", "Connection traversing MetaXLink", "MX"),
        ("MX4", "Connection traversing # MetaXLinks", "MX4"),
        ("HCCS", "Connection traversing HCCS", "HCCS"),
        ("QLINK", "Connection traversing the vendor's QLink", "LINK"),
        ("QL8", "Connection traversing a bonded set of # QLinks", "LINK8"),
        ("BUS", "Connection traversing PCIe as well as the SMP interconnect between NUMA nodes", "SYS"),
        ("SW", "Connection traversing at most a single PCIe switch", "PIX"),
        ("ETH", "Connection traversing Eth", "?"),
        ("NA", "Connection type is unknown", "?"),
    ],
)
@pytest.mark.parametrize("line", FORMS, ids=lambda line: line.__name__)
def test_a_legend_says_what_a_vendors_link_is(line: Line, word: str, meaning: str, read: str) -> None:
    machine = Machine(4, word, ())
    text = table(machine, line, ("Node Affinity", "CPU Affinity")) + f"  {word.rstrip('0123456789')}#  = {meaning}\n"
    matrix = read_link_table(text.replace("#  =", "   =", 1) if word.isalpha() else text)
    assert matrix.gpus == (0, 1, 2, 3)
    assert matrix.words[0] == ("X", read, "SYS", "SYS")
    assert matrix.numa == (0, 0, 1, 1)
    assert all(is_link_word(said) or said == "?" for row in matrix.words for said in row)


@pytest.mark.parametrize("word", ["MX", "MTL2", "HCCS", "XL4", "LINK"])
def test_a_vendors_link_joins_gpus_and_is_no_slower_than_pcie(word: str) -> None:
    for model in ("MetaX C500", "NVIDIA H100", "another"):
        link = read_link(word, model, model)
        assert (link.kind, link.gbps >= read_link("PIX", model, model).gbps) == ("fabric", True)
    gpus = [Gpu(index=n, uuid="", model="MetaX C500", memory_mib=1) for n in range(4)]
    rows = [["X" if a == b else word if a // 2 == b // 2 else "SYS" for b in range(4)] for a in range(4)]
    assert link_graph(gpus, rows).domain == (0, 0, 1, 1)


# ---- topology files


@pytest.mark.parametrize("of", ["0x120000", "0x1200", "120000", "0X120000", "0x038000", "0x030200"])
@pytest.mark.parametrize("spelling", ["0000:{:02x}:00.0", "{:02x}:00.0", "00000000:{:02X}:00.0", "0000:{:02x}:00"])
@pytest.mark.parametrize("marked", [True, False])
def test_gpus_of_every_class_and_spelling(of: str, spelling: str, marked: bool) -> None:
    """MI300 machines say that their GPUs are processing accelerators. A console's display is no GPU beside such."""
    gpu = "<gpu dev='{}'><xgmi target='{}' count='1' tclass='{}'/></gpu>" if marked else ""

    def pci(at: int) -> str:
        body = gpu.format(at - 1, spelling.format(3 - at), of)
        card = f"<pci busid='{spelling.format(at)}' class='{of}'>{body}</pci>"
        nic = f"<pci busid='{spelling.format(at + 16)}' class='0x020700'><nic><net name='mlx5_{at}'/></nic></pci>"
        return (
            f"<cpu numaid='{at - 1}'><pci busid='{spelling.format(at + 32)}' class='0x060400'>{card}{nic}</pci></cpu>"
        )

    console = "<cpu numaid='0'><pci busid='0000:77:00.0' class='0x030000'/></cpu>" if marked else ""
    matrix = parse_nccl(f"<system version='2'>{pci(1)}{pci(2)}{console}</system>")
    word = "XGMI" if marked else "SYS"
    assert matrix == Matrix(
        gpus=(0, 1),
        words=(("X", word), (word, "X")),
        numa=(0, 1),
        buses=("0000:01:00.0", "0000:02:00.0"),
        nics=("mlx5_1", "mlx5_2"),
        nic_words=(("PIX", "SYS"), ("SYS", "PIX")),
    )
