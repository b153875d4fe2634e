"""The chosen GPUs are the best by trying all sets and all rings, and nonsense never breaks a parser."""

import itertools
from functools import cache

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ares.core.topology import parse_nvidia, parse_rocm
from ares.core.topology.cards import Matrix
from ares.core.topology.parse_nccl import parse_nccl
from ares.core.topology.subset import MachineShape, best, best_in_domain, largest_in_domain, machine_shape, pair_score
from ares.model.node import NodeInfo
from tests.unit.core.topology.machines import MODELS, machine, real_machine

WORDS = ["NV1", "NV2", "NV4", "XGMI", "PIX", "NODE", "SYS", "?"]


@cache
def ring(shape: MachineShape, members: tuple[int, ...]) -> list[float]:
    """The links of the best ring, slowest first, by trying every order."""
    if len(members) < 2:
        return []
    gbps, (first, *others) = shape.graph.gbps, members
    orders = ((first, *order) for order in itertools.permutations(others))
    return max(sorted(gbps(a, b) for a, b in zip(order, (*order[1:], first), strict=True)) for order in orders)


@cache
def pairs(shape: MachineShape, members: tuple[int, ...]) -> int:
    return sum(pair_score(shape.graph, a, b) for a, b in itertools.combinations(members, 2))


@cache
def domains(shape: MachineShape, members: tuple[int, ...]) -> list[int]:
    numbers = [shape.graph.domain[at] for at in members]
    return sorted((numbers.count(number) for number in set(numbers)), reverse=True)


def by_trying_all(
    shape: MachineShape, free: tuple[int, ...], count: int, *, one_domain: bool
) -> tuple[int, ...] | None:
    """Positions are indexes here. Better is larger; among equals the lowest indexes come first."""

    def worth(members: tuple[int, ...]) -> tuple[list[float], int, list[int], list[float], int]:
        rest = tuple(at for at in free if at not in members)
        return ring(shape, members), pairs(shape, members), domains(shape, rest), ring(shape, rest), pairs(shape, rest)

    sets = itertools.combinations(free, count)
    return max((one for one in sets if not one_domain or len(domains(shape, one)) == 1), key=worth, default=None)


def check(info: NodeInfo, mask: int, count: int) -> None:
    shape = machine_shape(info)
    free = tuple(gpu.index for gpu in info.gpus if mask >> gpu.index & 1)
    choice = best(shape, mask, count)
    assert choice.gpus == by_trying_all(shape, free, count, one_domain=False)
    assert choice.mask == sum(1 << gpu for gpu in choice.gpus)
    assert choice.bandwidth_gbps == (ring(shape, choice.gpus) or [0.0])[0]
    assert choice.pair_score == pairs(shape, choice.gpus)
    assert choice.domains == len(domains(shape, choice.gpus))
    assert 0.0 < choice.score <= 1.0
    whole = tuple(range(len(info.gpus)))
    ideal = max(ring(shape, one) for one in itertools.combinations(whole, count))
    assert (choice.score == 1.0) == (ring(shape, choice.gpus) == ideal), "1 means as good as it gets here"
    inside = best_in_domain(shape, mask, count)
    assert (inside and inside.gpus) == by_trying_all(shape, free, count, one_domain=True)
    assert list(largest_in_domain(shape, mask)) == domains(shape, free)
    assert (inside is None) == (max(domains(shape, free)) < count)


@st.composite
def machines(draw: st.DrawFn) -> NodeInfo:
    size = draw(st.integers(1, 6))
    few = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
    rows = [["X"] * size for _ in range(size)]
    for a, b in itertools.combinations(range(size), 2):
        rows[a][b] = rows[b][a] = draw(st.sampled_from(few))
    numa = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    return machine(rows, numa, draw(st.sampled_from(["Tesla V100", "AMD Instinct MI300X", "NVIDIA L4"])))


@given(machines(), st.data())
def test_random_graphs_equal_trying_all(info: NodeInfo, data: st.DataObject) -> None:
    mask = data.draw(st.integers(1, (1 << len(info.gpus)) - 1))
    check(info, mask, data.draw(st.integers(1, mask.bit_count())))


@pytest.mark.parametrize("name", MODELS)
def test_real_machines_equal_trying_all(name: str) -> None:
    """Every count of every set of free GPUs."""
    info = real_machine(name)
    for mask in range(1, 1 << len(info.gpus)):
        for count in range(1, mask.bit_count() + 1):
            check(info, mask, count)


@given(machines(), st.integers(2, 6))
def test_a_better_ring_never_scores_lower(info: NodeInfo, count: int) -> None:
    assume(count <= len(info.gpus))
    shape = machine_shape(info)
    sets = list(itertools.combinations(range(len(info.gpus)), count))
    scored = sorted((ring(shape, one), best(shape, sum(1 << gpu for gpu in one), count).score) for one in sets)
    for (worse, low), (better, high) in itertools.pairwise(scored):
        assert low < high if worse < better else low == high


# ---- nonsense

NOISE = st.text(st.sampled_from('GPU0123 \t\n,X=NV4SYSPIX<>[]{}()":-./\x1b\x00é²mig')) | st.text()
TABLE = st.lists(st.sampled_from(
    ["\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n", "GPU0\t X \tNV4\t0-3\t0\n", "GPU1\tNV4\t X \t4-7\tN/A\n",
     "GPU1\tPI", "index, uuid, name, memory.total [MiB]\n", "0, GPU-a, X, 5\n", "1, GPU-b",
     "GPU 0: X (UUID: GPU-a)\n",
     "  MIG 1g.5gb Device 0: (UUID: MIG-a)\n", "==== Link Type between two GPUs ====\n", "GPU0 GPU1\n", "GPU0 0 XGMI\n",
     '{"card0": {"Unique ID": "x"}', "}", "<system>", "<cpu numaid='0'>", "<pci busid='0000:01:00.0' class='0x03'>",
     "<gpu dev='0'/>", "</pci>", "</cpu>", "</system>",
     "<nvidia_smi_log><gpu><uuid>GPU-a</uuid></gpu></nvidia_smi_log>"]
)).map("".join)  # fmt: skip


@given(st.one_of(NOISE, TABLE, st.tuples(NOISE, TABLE).map("".join)))
def test_nonsense_never_breaks_a_parser(text: str) -> None:
    for parse in (parse_nvidia.parse_topo, parse_rocm.parse_topo, parse_rocm.parse_json_links, parse_nccl):
        matrix = parse(text)
        assert isinstance(matrix, Matrix)
        assert len(matrix.gpus) == len(matrix.words) == len(matrix.numa)
        assert all(len(row) == len(matrix.gpus) and row[at] == "X" for at, row in enumerate(matrix.words))
    for cards in (parse_nvidia.parse_query(text), parse_nvidia.parse_query_xml(text), parse_rocm.parse_json(text)):
        assert [card.index for card in cards] == sorted({card.index for card in cards})
    assert all(piece.uuid.startswith("MIG-") for piece in parse_nvidia.parse_list(text))
