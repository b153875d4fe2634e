"""Machines to choose GPUs on: real ones where their topologies are at hand, and made ones."""

import itertools
from collections.abc import Sequence

import pytest

from ares.core.topology import parse_nvidia, parse_rocm
from ares.core.topology.cards import Matrix
from ares.core.topology.parse_nccl import parse_nccl
from ares.model.node import Gpu, NodeInfo
from tests import needs

# Each file, with a model of the right kind: topologies do not name one.
MODELS = {
    "a100_pcie_2x_cross_socket.txt": "NVIDIA A100-PCIE-40GB",
    "a100_sxm_8x_compact.txt": "NVIDIA A100-SXM4-80GB",
    "azure_ndv4-topo.xml": "NVIDIA A100-SXM4-40GB",
    "dgx1_v100_4nic_tabs.txt": "Tesla V100-SXM2-16GB",
    "dgx_a100_12nic_tabs.txt": "NVIDIA A100-SXM4-40GB",
    "h100_mig_ansi.txt": "NVIDIA H100 80GB HBM3",
    "h100_sxm_8x_2nic_niclegend.txt": "NVIDIA H100 80GB HBM3",
    "h100_sxm_8x_ht_affinity.txt": "NVIDIA H100 80GB HBM3",
    "l40s_single_ansi.txt": "NVIDIA L40S",
    "leonardo_4x_a100_4nic.txt": "NVIDIA A100-SXM-64GB",
    "mi300x_8x_xgmi_showtopo.txt": "AMD Instinct MI300X",
    "pcie_8x_plx_2socket_1nic.txt": "NVIDIA GeForce GTX 1080 Ti",
    "power9_ac922_4x_v100.txt": "Tesla V100-SXM2-32GB",
    "rccl_topo_8p6l.xml": "AMD Instinct MI100",
    "rtx6000ada_4x_dual_socket_4nic.txt": "NVIDIA RTX 6000 Ada Generation",
    "rtx6000pro_8x_cascaded_switches.txt": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "rtx6000pro_8x_dual_socket_ansi.txt": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "titanx_4x_dual_socket_mlx4.txt": "NVIDIA GeForce GTX TITAN X",
    "v100_sxm2_hybrid_cube_mesh_1nic.txt": "Tesla V100-SXM2-16GB",
}


def real(name: str) -> str:
    if not (path := needs.DATA / name).exists():
        pytest.skip(needs.data(name))
    return path.read_text()


def real_matrix(name: str) -> Matrix:
    text = real(f"topology/{name}")
    if name.endswith(".xml"):
        return parse_nccl(text)
    return parse_rocm.parse_topo(text) if "xgmi" in name else parse_nvidia.parse_topo(text)


def real_machine(name: str) -> NodeInfo:
    matrix = real_matrix(name)
    return machine(matrix.words, [node or 0 for node in matrix.numa], MODELS[name])


def machine(
    words: Sequence[Sequence[str]], numa: Sequence[int], model: str = "A100", indexes: Sequence[int] | None = None
) -> NodeInfo:
    gpus = tuple(
        Gpu(index=index, uuid=f"GPU-{index}", model=model, memory_mib=1, numa_node=node)
        for index, node in zip(indexes or range(len(words)), numa, strict=True)
    )
    return NodeInfo(
        name="n", cpu_milli=1000, memory_mib=1, gpus=gpus, gpu_links=tuple(tuple(row) for row in words)
    )  # fmt: skip


def full(count: int, word: str) -> list[list[str]]:
    """Every pair joined alike."""
    return [["X" if a == b else word for b in range(count)] for a in range(count)]


def blocks(sizes: Sequence[int], inside: str, across: str) -> list[list[str]]:
    """Islands of GPUs: one word inside each, another between them."""
    of = list(itertools.chain.from_iterable([number] * size for number, size in enumerate(sizes)))
    return [
        ["X" if a == b else inside if of[a] == of[b] else across for b in range(len(of))] for a in range(len(of))
    ]  # fmt: skip
