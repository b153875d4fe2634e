"""Which GPUs a job gets on one machine."""

import csv
import itertools
import math
import operator
import random
from typing import get_args

import pytest
from msgspec.structs import replace

from ares.core.topology import subset
from ares.core.topology.links import link_graph, read_link
from ares.core.topology.subset import best, best_in_domain, largest_in_domain, machine_shape
from ares.model.node import LinkKind, Nic, NodeInfo
from tests.unit.core.topology.machines import MODELS, blocks, full, machine, real, real_machine

V100 = "Tesla V100-SXM2-16GB"
CUBE_MESH = "v100_sxm2_hybrid_cube_mesh_1nic.txt"


def everything(info: NodeInfo) -> int:
    return sum(1 << gpu.index for gpu in info.gpus)


# ---- links


@pytest.mark.parametrize(
    ("word", "model", "kind", "gbps"),
    [
        ("NV2", V100, "nvlink", 50),
        ("NV12", "NVIDIA A100-SXM4-40GB", "nvlink", 300),
        ("NV18", "NVIDIA H100 80GB HBM3", "nvlink", 450),
        ("NV18", "NVIDIA B200", "nvlink", 900),
        ("XGMI", "AMD Instinct MI300X", "xgmi", 64),
        ("XGMI4", "AMD Instinct MI250X", "xgmi", 200),
        ("PIX", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "pcie", 55),
        ("SYS", V100, "pcie", 10),
        ("?", V100, "none", 10),
        ("what", "unheard of", "none", 20),
        ("NV4", "AMD Instinct MI300X", "nvlink", 56),
    ],
)
def test_speed_of_a_link(word: str, model: str, kind: LinkKind, gbps: float) -> None:
    assert kind in get_args(LinkKind)
    assert read_link(word, model, model) == (kind, gbps)


def test_the_slower_model_sets_the_speed() -> None:
    assert read_link("NV2", V100, "Tesla P100-SXM2-16GB").gbps == 40


def test_pcie_classes_of_one_socket_are_equal() -> None:
    """As measured: their names tell of the way, not of its speed."""
    assert len({read_link(word, V100, V100) for word in ("PIX", "PXB", "PHB", "NODE")}) == 1


def test_domains_are_what_nvlink_joins_even_through_others() -> None:
    chain = [["X", "NV1", "SYS", "SYS"], ["NV1", "X", "NV1", "SYS"],
             ["SYS", "NV1", "X", "SYS"], ["SYS", "SYS", "SYS", "X"]]  # fmt: skip
    assert link_graph(machine(chain, [0] * 4).gpus, chain).domain == (0, 0, 0, 1)


def test_where_two_rows_disagree_the_slower_is_believed() -> None:
    rows = [["X", "NV4"], ["SYS", "X"]]
    assert link_graph(machine(rows, [0, 0]).gpus, rows).links[0][1].kind == "pcie"


@pytest.mark.parametrize(("count", "rows"), [(3, []), (3, [["X"]]), (2, [["X", "NV4", "NV4"]])])
def test_missing_links_are_unknown_ones(count: int, rows: list[list[str]]) -> None:
    graph = link_graph(machine(full(count, "SYS"), [0] * count).gpus, rows)
    assert {graph.links[a][b].kind for a in range(count) for b in range(a)} == {"none"}


@pytest.mark.parametrize("name", MODELS)
def test_real_machines_where_the_choice_does_not_matter(name: str) -> None:
    graph = machine_shape(real_machine(name)).graph
    switched = {"a100_sxm_8x_compact.txt", "dgx_a100_12nic_tabs.txt", "h100_sxm_8x_2nic_niclegend.txt",
                "h100_sxm_8x_ht_affinity.txt", "leonardo_4x_a100_4nic.txt"}  # fmt: skip
    alike = {"mi300x_8x_xgmi_showtopo.txt", "rtx6000pro_8x_cascaded_switches.txt", "a100_pcie_2x_cross_socket.txt",
             "h100_mig_ansi.txt", "l40s_single_ansi.txt"}  # fmt: skip
    assert (graph.nvswitch, graph.uniform) == (name in switched, name in switched | alike)


# ---- shapes


def test_equal_machines_are_one_shape() -> None:
    one = machine(full(4, "NV4"), [0, 0, 1, 1])
    same = NodeInfo(name="other", cpu_milli=7, memory_mib=9, gpus=one.gpus, gpu_links=one.gpu_links, rack="r")
    assert machine_shape(one) is machine_shape(same)
    assert machine_shape(one).id == machine_shape(same).id
    others = [
        machine(full(4, "NV2"), [0, 0, 1, 1]),
        machine(full(4, "NV4"), [0, 1, 1, 1]),
        machine(full(4, "NV4"), [0, 0, 1, 1], V100),
        machine(full(4, "NV4"), [0, 0, 1, 1], indexes=[0, 1, 2, 4]),
    ]
    assert len({machine_shape(info).id for info in (one, *others)}) == 5


# ---- choices


def test_a_pair_on_one_nvlink_scores_180() -> None:
    choice = best(machine_shape(machine(full(2, "NV12"), [0, 0])), 0b11, 2)
    assert (choice.pair_score, choice.bandwidth_gbps, choice.score) == (180, 300.0, 1.0)
    pcie = best(machine_shape(machine(full(2, "SYS"), [0, 1])), 0b11, 2)
    assert pcie.pair_score == 100 - 30 + 10


def test_two_links_are_taken_before_one() -> None:
    """On the hybrid cube mesh 0 and 3 share two NVLinks, 0 and 1 only one, 0 and 7 none."""
    shape = machine_shape(real_machine(CUBE_MESH))
    assert best(shape, 0b1011, 2)[:3] == ((0, 3), 0b1001, 50.0)
    one = best(shape, 0b0011, 2)
    none = best(shape, 0b1000_0001, 2)
    assert (one.bandwidth_gbps, none.bandwidth_gbps) == (25.0, 10.0)
    assert 1 > one.score > none.score > 0


def test_four_of_the_cube_mesh_are_one_side() -> None:
    shape = machine_shape(real_machine(CUBE_MESH))
    assert best(shape, 0xFF, 4).gpus == (0, 1, 2, 3)
    assert best(shape, 0xFF, 8).bandwidth_gbps == 50.0, "a ring of double links goes through all eight"


def test_eight_free_are_six_and_two() -> None:
    shape = machine_shape(machine(blocks([6, 2], "NV4", "SYS"), [0] * 6 + [1] * 2))
    assert largest_in_domain(shape, 0xFF) == (6, 2)
    assert best_in_domain(shape, 0xFF, 8) is None
    inside = best_in_domain(shape, 0xFF, 6)
    assert inside is not None
    assert (inside.gpus, inside.domains) == ((0, 1, 2, 3, 4, 5), 1)
    across = best(shape, 0xFF, 7)
    assert (across.domains, across.bandwidth_gbps) == (2, 20.0)
    assert largest_in_domain(shape, 0b1100_0011) == (2, 2)


def test_a_small_job_leaves_the_large_domain_whole() -> None:
    shape = machine_shape(machine(blocks([4, 2], "NV4", "SYS"), [0] * 6))
    assert best(shape, 0b111111, 2).gpus == (4, 5)
    assert best(shape, 0b111111, 1).gpus in {(4,), (5,)}
    assert best(shape, 0b101111, 1).gpus == (5,), "half a pair is of no use to anybody else"


def test_where_all_links_are_equal_packing_decides_and_the_answer_says_so() -> None:
    shape = machine_shape(machine(full(8, "NV12"), [3, 3, 1, 1, 7, 7, 5, 5]))
    choice = best(shape, 0b1111_0110, 2)
    assert (choice.gpus, choice.nvswitch, choice.uniform, choice.score) == ((4, 5), True, True, 1.0)
    assert best(shape, 0b1111_0110, 1).gpus == (1,), "the one whose neighbour is already taken"


def test_indexes_may_have_gaps_and_come_in_any_order() -> None:
    """A GPU that fell off the bus leaves a gap; masks go by index."""
    rows = [["X", "NV2", "SYS"], ["NV2", "X", "SYS"], ["SYS", "SYS", "X"]]
    shape = machine_shape(machine(rows, [0, 0, 0], indexes=[9, 2, 4]))
    choice = best(shape, 1 << 9 | 1 << 2 | 1 << 4, 2)
    assert (choice.gpus, choice.mask) == ((2, 9), 1 << 2 | 1 << 9)
    assert best(shape, 0xFFFF, 3).gpus == (2, 4, 9), "bits of GPUs that are not there are ignored"


def test_more_than_are_free_is_an_error_of_the_caller() -> None:
    shape = machine_shape(machine(full(4, "NV4"), [0] * 4))
    with pytest.raises(ValueError, match="3 GPUs asked of 2 free ones"):
        best(shape, 0b0101, 3)
    with pytest.raises(ValueError, match="0 GPUs asked"):
        best(shape, 0b0101, 0)
    empty = machine_shape(machine([], []))
    assert largest_in_domain(empty, 0) == ()
    assert best_in_domain(empty, 0, 1) is None


def test_sixteen_gpus() -> None:
    """Two islands, and one strange machine with more speeds than the table tells apart."""
    islands = machine_shape(machine(blocks([8, 8], "NV6", "SYS"), [0] * 8 + [1] * 8))
    assert best(islands, 0xFFFF, 8).gpus == tuple(range(8))
    assert best(islands, 0xFFFE, 8).gpus == tuple(range(8, 16))
    assert best(islands, 0xFFFE, 7).gpus == tuple(range(1, 8)), "what fits exactly leaves the other island whole"
    assert best(islands, 0xFFFF, 9).domains == 2
    rows = [["X" if a == b else f"NV{1 + (a + b + a * b) % 40}" for b in range(16)] for a in range(16)]
    strange = machine_shape(machine(rows, [0] * 16))
    choices = [best(strange, 0xFFFF, count) for count in range(2, 17)]
    assert choices[0].bandwidth_gbps <= strange.graph.fastest
    assert [choice.score for choice in choices] == [1.0] * 15
    assert [choice.bandwidth_gbps for choice in choices] == sorted((c.bandwidth_gbps for c in choices), reverse=True)


def tower(sizes: list[int], words: list[str]) -> list[list[str]]:
    """Islands inside islands: the first word joins the innermost."""

    def word(one: int, other: int) -> str:
        for size, said in zip(itertools.accumulate(sizes, operator.mul), words, strict=True):
            if one // size == other // size:
                return said
        return "SYS"

    count = math.prod(sizes)
    return [["X" if a == b else word(a, b) for b in range(count)] for a in range(count)]


@pytest.mark.parametrize(
    ("rows", "numa"),
    [
        (blocks([3, 2, 4], "NV4", "SYS"), [0] * 5 + [1] * 4),
        (full(9, "NV12"), [0, 1, 0, 1, 2, 2, 2, 1, 0]),
        (full(8, "PIX"), [0, 0, 0, 0, 1, 1, 1, 1]),
        (tower([2, 2, 2], ["NV4", "NV2", "NV1"]), [0] * 4 + [1] * 4),
        (tower([2, 4], ["XGMI", "PIX"]), [0] * 4 + [1] * 4),
        ([["X" if a == b else f"NV{1 + (a * b + a + b) % 3}" for b in range(7)] for a in range(7)], [0] * 7),
    ],
)
def test_choice_by_kinds_of_gpus_is_the_choice_of_all_sets(
    rows: list[list[str]], numa: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides on machines too large for a table of all sets, on machines that have one."""
    table = machine_shape(machine(rows, numa, "A100"))
    kinds = machine_shape(machine(rows, numa, "A100 by kinds"))
    chance = random.Random(7)
    asked = [(free, count) for free in [chance.randrange(1, 1 << len(rows)) for _ in range(60)]
             for count in range(1, free.bit_count() + 1)]  # fmt: skip
    expected = [(best(table, *ask), best_in_domain(table, *ask)) for ask in asked]
    monkeypatch.setattr(subset, "TABLE_GPUS_MAX", 0)
    assert [(best(kinds, *ask), best_in_domain(kinds, *ask)) for ask in asked] == expected


def test_large_machines_get_the_best_ring() -> None:
    """32 GPUs behind switches on four sockets, without NVLink: the socket that has enough free, not the first one."""
    rows = blocks([8, 8, 8, 8], "PIX", "SYS")
    shape = machine_shape(machine(rows, [at // 8 for at in range(32)], "L40S"))
    free = 0b1 | 0b11110 << 8 | 0xFF << 24
    assert best(shape, free, 4).gpus == (9, 10, 11, 12), "what fits leaves the whole socket"
    assert best(shape, free, 8).gpus == tuple(range(24, 32))
    assert best(shape, free, 5).bandwidth_gbps > best(shape, free, 9).bandwidth_gbps
    cube = machine_shape(machine(tower([4, 2, 3], ["NV4", "NV2", "PIX"]), [at // 8 for at in range(24)]))
    assert best(cube, (1 << 24) - 1, 8).gpus == tuple(range(8))
    assert best(cube, 0xF0F0F0, 8).bandwidth_gbps == 24.0, "no two of these halves are joined by NVLink"
    assert best(cube, 0xF0F0F0 | 0xF, 8).gpus == tuple(range(8))


def test_a_machine_of_many_kinds_is_filled_in_order() -> None:
    rows = [["X" if a == b else f"NV{1 + (a * a * b + b * b * a) % 50}" for b in range(24)] for a in range(24)]
    shape = machine_shape(machine(rows, [0] * 24))
    assert shape.twins is None
    assert best(shape, (1 << 24) - 1, 5).gpus == (0, 1, 2, 3, 4)


def test_of_equal_sets_the_one_next_to_a_network_card_is_taken() -> None:
    plain = machine(full(4, "NV12"), [0] * 4)
    near = replace(plain, nics=(Nic(name="mlx5_0", links=("NODE", "NODE", "PXB", "PXB")),))
    assert best(machine_shape(plain), 0xF, 2).gpus == (0, 1)
    assert best(machine_shape(near), 0xF, 2).gpus == (2, 3)
    assert machine_shape(near).id != machine_shape(plain).id


def test_machines_too_large_for_a_table() -> None:
    shape = machine_shape(machine(blocks([12, 8], "NV4", "SYS"), [0] * 12 + [1] * 8))
    everywhere = (1 << 20) - 1
    choice = best(shape, everywhere, 8)
    assert (choice.gpus, choice.domains, choice.score) == (tuple(range(12, 20)), 1, 1.0)
    assert best(shape, everywhere, 14).domains == 2
    assert best_in_domain(shape, everywhere, 13) is None
    assert largest_in_domain(shape, everywhere) == (12, 8)
    assert best(machine_shape(machine(full(20, "?"), [0] * 20)), everywhere, 1).score == 1.0


# ---- against measurements


def ranks(values: list[float]) -> list[float]:
    """Equal values share the mean of their places."""
    places = {value: [at for at, other in enumerate(sorted(values)) if other == value] for value in set(values)}
    return [sum(places[value]) / len(places[value]) for value in values]


def spearman(one: list[float], other: list[float]) -> float:
    a, b = ranks(one), ranks(other)
    mean = (len(a) - 1) / 2
    covariance = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    return covariance / (sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)) ** 0.5


@pytest.mark.parametrize("file", [CUBE_MESH, "dgx1_v100_4nic_tabs.txt"])
@pytest.mark.parametrize("count", [2, 3])
def test_the_score_ranks_sets_as_their_effective_bandwidth_does(file: str, count: int) -> None:
    """All pairs and triples of a DGX-1V, by the effective bandwidth published for them (MAPA)."""
    shape = machine_shape(real_machine(file))
    rows = [
        row for row in csv.DictReader(real("placement/mapa_dgx1v_k2_k3.csv").splitlines()) if int(row["k"]) == count
    ]
    sets = [tuple(map(int, row["gpus_0based"].split("-"))) for row in rows]
    assert sorted(sets) == sorted(itertools.combinations(range(8), count)), "all of them"
    choices = [best(shape, sum(1 << gpu for gpu in one), count) for one in sets]
    correlation = spearman([choice.score for choice in choices], [float(row["mapa_effbw_GBps"]) for row in rows])
    print(f"{file}, {count} GPUs: rank correlation {correlation:.3f}")  # noqa: T201
    assert correlation >= 0.9
    assert [choice.bandwidth_gbps for choice in choices] == [float(row["ring_bottleneck_GBps"]) for row in rows]
