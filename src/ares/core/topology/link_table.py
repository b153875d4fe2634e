"""A table of links such as `nvidia-smi topo -m` prints, read by what its words mean and not by where they stand.

Drivers, vendors and people who paste such tables differ in tabs, prompts, colours, further columns and their order.
What they share: a line that names devices is the head, a line that has a device followed by links is a row, and the
legend says what a link of that vendor is.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from ares.core.topology.cards import Matrix
from ares.core.topology.links import INDEX_MAX, SELF, UNKNOWN, is_link_word

# Colours and underlining, which newer drivers print even into a pipe.
ANSI: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Lines of text beyond it are no table of a machine.
_LINES_MAX: Final = 4096
_LINE_CHARS_MAX: Final = 16_384
_EMPHASIS: Final = re.compile(r"[*`]+")
_BARS: Final = str.maketrans(dict.fromkeys("│┃║¦", "|"))
_APART: Final = re.compile(
    r"(?<![A-Za-z0-9_])(GPU|NPU|DCU|MLU|GCU|XPU)[ #:-]?(\d{1,4})(?![A-Za-z0-9_/.])", re.IGNORECASE
)
_GPU: Final = re.compile(r"GPU(\d{1,4})")
_NIC: Final = re.compile(
    r"(?:NIC|mlx\d_|bnxt_re|irdma|rdmap|hfi1_|efa_?|qedr|rocep|ib|ionic_|xscale_|eic_|cxi|ens|eth)[0-9][\w.-]{0,62}",
    re.IGNORECASE,
)
# What launchers put before each line may end right at a device.
_GLUED: Final = re.compile(r"(?<=[:>\])])(?=(?:GPU|NIC|mlx)\d)")
_LEGEND: Final = re.compile(r"^[\s|>#-]*([A-Za-z_]{1,12})(?:#|\d{0,2})\s*[=:]\s+(.{3,})$")
_NIC_LEGEND: Final = re.compile(r"^[\s|>-]*(NIC\d{1,3})\s*[=:]\s*([A-Za-z][A-Za-z0-9_.-]{0,63})\s*\|?\s*$")

# ---- what stands after the links
Head = Literal["cpu", "numa", "other"]
_HEADS: Final[tuple[tuple[re.Pattern[str], Head], ...]] = (
    (re.compile(r"GPU\s+NUMA(\s+(ID|node))?", re.IGNORECASE), "other"),
    (re.compile(r"CPUs?(\s*affinity|\s+list)?", re.IGNORECASE), "cpu"),
    (re.compile(r"(NUMA|Node|Socket)(\s*(affinity|node|ID))?", re.IGNORECASE), "numa"),
)
_TAIL: Final = re.compile("|".join(pattern.pattern for pattern, _ in _HEADS), re.IGNORECASE)
_TAIL_WORDS: Final = frozenset({"CPU", "CPUS", "NUMA", "NODE", "SOCKET", "GPU", "AFFINITY", "ID"})
_CPU_LIST: Final = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*|0x[0-9a-fA-F,]+")
_NOT_SAID: Final = frozenset({"N/A", "NA", "[N/A]", "-", "NONE"})
_NODE_PREFIX: Final = re.compile(r"(?:numa|node|socket)[:#=]?(?=\d|$)", re.IGNORECASE)
_NODE: Final = re.compile(r"\d{1,4}")
# How a legend describes links: the first line of which all words are in the description counts.
_MEANINGS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("unknown",), UNKNOWN), (("self",), SELF), (("smp",), "SYS"), (("between numa",), "SYS"), (("sockets",), "SYS"),
    (("within a numa",), "NODE"), (("multiple", "pci"), "PXB"), (("single", "pci"), "PIX"), (("pci", "bridge"), "PHB"),
    (("pci",), "PHB"), (("ethernet",), UNKNOWN), (("eth",), UNKNOWN), (("link",), "LINK"), (("xgmi",), "XGMI"),
    (("hccs",), "HCCS"), (("bonded",), "LINK"),
)  # fmt: skip


class _Tail(NamedTuple):
    """What a row says after its links: its CPUs and its NUMA node, empty where it does not."""

    cpus: str = ""
    numa: str = ""


@dataclass(slots=True)
class _Table:
    """One head and the rows below it."""

    columns: tuple[str, ...]
    heads: tuple[tuple[Head, int], ...] = ()
    rows: dict[str, tuple[tuple[str, ...], _Tail]] = field(default_factory=dict[str, tuple[tuple[str, ...], _Tail]])

    def gpus(self) -> tuple[int, ...]:
        found = (_GPU.fullmatch(name) for name in self.rows)
        return tuple(sorted(int(match.group(1)) for match in found if match and int(match.group(1)) <= INDEX_MAX))

    def links(self) -> int:
        """How many are known."""
        return sum(link not in {UNKNOWN, SELF} for links, _ in self.rows.values() for link in links)


def read_link_table(text: str) -> Matrix:
    """GPUs that have a row, with their links, NUMA nodes and network cards. Where text holds several tables, the one
    with most rows counts."""
    lines = [_plain(line) for line in text.splitlines()[:_LINES_MAX] if len(line) <= _LINE_CHARS_MAX]
    legend = dict(_legend(lines))
    tables = list(_tables(lines, legend))
    table = max(tables, key=lambda table: (len(table.gpus()), table.links()), default=None)
    if table is None or not table.gpus():
        return Matrix()
    names = {found.group(1): found.group(2) for line in lines if (found := _NIC_LEGEND.match(line))}
    return _matrix(table, names)


def _plain(line: str) -> str:
    """Without colours and emphasis, and with device names in one spelling: "gpu 0" is GPU0."""
    bare = _EMPHASIS.sub("", ANSI.sub("", line)).translate(_BARS)
    return _GLUED.sub(" ", _APART.sub(lambda found: f"GPU{int(found.group(2))}", bare))


def _legend(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The words that a legend explains, with the word here for the same."""
    for line in lines:
        if found := _LEGEND.match(line):
            word, meaning = found.group(1).upper(), found.group(2).lower()
            known = next((said for parts, said in _MEANINGS if all(part in meaning for part in parts)), None)
            if known is not None and not is_link_word(word):
                yield word, known


def _link(word: str, legend: dict[str, str]) -> str | None:
    """The link that a cell names, None when it names none."""
    said = word.strip().strip("()[]<>.,;*").upper()
    if is_link_word(said):
        return said
    name = said.rstrip("0123456789")
    if (known := legend.get(name)) is None:
        return UNKNOWN if said in _NOT_SAID else None
    counted = f"{known}{said[len(name) :]}"
    return counted if is_link_word(counted) else known


# ---- heads and rows


def _tables(lines: Sequence[str], legend: dict[str, str]) -> Iterator[_Table]:
    """Rows without a head are taken to be all there are: their names are the columns, in their order."""
    table: _Table | None = None
    orphans = list[tuple[str, list[str], str]]()
    for line in lines:
        name, cells, rest = _split(line)
        if not name:
            continue
        wide = 1 if table is None or name not in table.columns else len(table.columns)
        if any(_link(cell, legend) is not None for cell in cells[:wide]):
            if table is None:
                orphans.append((name, cells, line))
            else:
                _take(table, name, cells, line, legend)
        elif _GPU.fullmatch(name) and (head := _head(name, cells, rest)) is not None:
            if table is not None:
                yield table
            table = head
    if table is not None:
        yield table
    elif orphans:
        bare = _Table(columns=tuple(name for name, _, _ in orphans))
        for name, cells, line in orphans:
            _take(bare, name, cells, line, legend)
        yield bare


def _split(line: str) -> tuple[str, list[str], str]:
    """The first device that a line names, the cells after it, and the text after it. Prompts and the names of programs
    may stand before. Where bars part the cells, empty ones are cells too."""
    if "|" in line:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        at = next((at for at, cell in enumerate(cells) if _is_device(cell)), None)
        return ("", [], "") if at is None else (cells[at], cells[at + 1 :], line)
    words = line.split()
    first = next((at for at, word in enumerate(words) if _is_device(word.rstrip(":"))), None)
    if first is None:
        return "", [], ""
    return words[first].rstrip(":"), words[first + 1 :], line


def _is_device(word: str) -> bool:
    """GPUs, and network cards by the names that drivers give them."""
    return _GPU.fullmatch(word) is not None or _NIC.fullmatch(word) is not None


def _head(name: str, cells: list[str], line: str) -> _Table | None:
    """None for a line that names one GPU and goes on with other words."""
    if cells and cells[0] and not _is_device(cells[0]) and cells[0].upper().split()[0] not in _TAIL_WORDS:
        return None
    columns = [name]
    for cell in cells:
        if not cell or cell.upper().split()[0] in _TAIL_WORDS or not re.fullmatch(r"[\w.:-]{1,64}", cell):
            break
        columns.append(cell)
    after = line.expandtabs().rfind(columns[-1]) + len(columns[-1])
    heads: list[tuple[Head, int]] = [
        (next(head for pattern, head in _HEADS if pattern.fullmatch(found.group())), found.start())
        for found in _TAIL.finditer(line.expandtabs(), after)
    ]
    return _Table(tuple(columns), tuple(heads))


def _take(table: _Table, name: str, cells: list[str], line: str, legend: dict[str, str]) -> None:
    """A row that has fewer links than columns is strange, and costs its device."""
    wide = len(table.columns)
    # A cell that names no link is not known; a range of CPUs among the links means that some are missing.
    links = [(_link(cell, legend), _CPU_LIST.fullmatch(cell) is not None) for cell in cells[:wide]]
    if len(links) < wide or any(link is None and is_range for link, is_range in links):
        return
    known = tuple(link or UNKNOWN for link, _ in links)
    tail = _by_bars(table, cells[wide:]) if "|" in line else _by_words(table, cells[wide:], line)
    table.rows.setdefault(name, (known, tail))


def _by_bars(table: _Table, cells: Sequence[str]) -> _Tail:
    said = {head: cell for (head, _), cell in zip(table.heads, cells, strict=False)}
    return _Tail(cpus=said.get("cpu", ""), numa=_node(said.get("numa", "")))


def _by_words(table: _Table, words: Sequence[str], line: str) -> _Tail:
    """Values in the order of their heads. Where one is missing, a range is of CPUs, and a bare number belongs to the
    head that it stands under."""
    values = list(_values(words))
    heads = [head for head, _ in table.heads if head != "other"] or ["cpu", "numa"]
    if len(values) >= len(heads) or not values:
        said = dict(zip(heads, values, strict=False))
    elif len(heads) == 2 and re.fullmatch(r"\d+", values[0]):
        said = {_head_above(table, values[0], words, line): values[0]}
    else:
        said = {"cpu" if "cpu" in heads else heads[0]: values[0]}
    return _Tail(cpus=said.get("cpu", ""), numa=_node(said.get("numa", "")))


def _values(words: Sequence[str]) -> Iterator[str]:
    """Lists of numbers, also when blanks follow their commas, up to the first other word."""
    parts = list[str]()
    for word in words:
        value = _NODE_PREFIX.sub("", word)
        if not value and word:
            continue
        parts.append(value)
        if value.endswith(","):
            continue
        whole = "".join(parts)
        parts.clear()
        if whole.upper() in _NOT_SAID:
            yield ""
        elif _CPU_LIST.fullmatch(whole):
            yield whole
        else:
            return


def _head_above(table: _Table, value: str, words: Sequence[str], line: str) -> str:
    """An empty cell is told by its tabs, unless all cells are so far apart; otherwise the nearest head counts."""
    links = line.rstrip()[: len(line.rstrip()) - sum(map(len, words))]
    before = re.search(rf"(\s*){re.escape(value)}\D*$", line)
    gap = before.group(1).count("\t") if before else 0
    if gap > 1 and "\t\t" not in links.strip():
        return "numa"
    at = line.expandtabs().rstrip().rfind(value)
    return min(((abs(place - at), head) for head, place in table.heads if head != "other"), default=(0, "cpu"))[1]


def _node(text: str) -> str:
    found = _NODE.match(_NODE_PREFIX.sub("", text.strip()).strip())
    return found.group() if found else ""


# ---- what is said of GPUs and network cards


def _matrix(table: _Table, names: dict[str, str]) -> Matrix:
    gpus = table.gpus()
    at = {column: place for place, column in reversed(list(enumerate(table.columns)))}
    nics = tuple(column for column in table.columns if _GPU.fullmatch(column) is None)

    def word(one: str, other: str) -> str:
        if one == other:
            return SELF
        said = table.rows[one][0][at[other]] if other in at else UNKNOWN
        if said == UNKNOWN and other in table.rows and one in at:
            said = table.rows[other][0][at[one]]
        return said if said != SELF else UNKNOWN

    return Matrix(
        gpus=gpus,
        words=tuple(tuple(word(f"GPU{gpu}", f"GPU{other}") for other in gpus) for gpu in gpus),
        numa=_numa([table.rows[f"GPU{gpu}"][1] for gpu in gpus]),
        nics=tuple(names.get(nic, nic) for nic in nics),
        nic_words=tuple(tuple(word(f"GPU{gpu}", nic) for nic in nics) for gpu in gpus),
    )


def _numa(tails: Sequence[_Tail]) -> tuple[int | None, ...]:
    """Old drivers name only CPUs: then GPUs with the same ones are on one node, counted from the lowest CPU."""
    if any(tail.numa for tail in tails):
        return tuple(int(tail.numa) if tail.numa else None for tail in tails)
    lists = {tail.cpus for tail in tails if re.match(r"\d", tail.cpus)}
    order = sorted(lists, key=lambda cell: int(re.split("[-,x]", cell)[0][:9]))
    return tuple(order.index(tail.cpus) if tail.cpus in lists else None for tail in tails)
