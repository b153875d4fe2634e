"""How much memory a job gets that does not say."""

from typing import Any

import pytest

from ares.core.admit.memory import MachineKind, MemoryShare, share_of, sized
from ares.model.job import JobSpec, Resources
from ares.model.node import Gpu, NodeInfo


def _node(cpus: int, memory_gib: float, gpus: int = 0) -> NodeInfo:
    cards = tuple(Gpu(index=n, uuid=f"g{n}", model="A100", memory_mib=1024) for n in range(gpus))
    return NodeInfo(name="n", cpu_milli=1000 * cpus, memory_mib=int(1024 * memory_gib), gpus=cards)


@pytest.mark.parametrize(
    ("nodes", "share"),
    [
        ([], (0, 0)),
        ([_node(8, 1)], (128, 0)),
        ([_node(8, 8)], (1024, 0)),
        ([_node(4, 64)], (4096, 0)),
        ([_node(8, 8), _node(8, 16), _node(8, 24)], (2048, 0)),
        ([_node(64, 512, gpus=8)], (4096, 32_768)),
        ([_node(8, 64, gpus=4), _node(2, 2)], (1024, 8192)),
    ],
)
def test_the_share_is_that_of_the_machine_in_the_middle_within_bounds(
    nodes: list[NodeInfo], share: tuple[int, int]
) -> None:
    assert share_of(nodes)[:2] == share


@pytest.mark.parametrize(
    ("asked", "mib"),
    [
        ({"cpu_milli": 1000}, 1024),
        ({"cpu_milli": 4000}, 4096),
        ({"cpu_milli": 100}, 256),
        ({"cpu_milli": 1100}, 1088),
        ({"cpu_milli": 1000, "gpus": 2}, 16_384),
        ({"cpu_milli": 1000, "gpus": 1, "gpu_milli": 250}, 2048),
    ],
)
def test_memory_goes_by_cpus_or_gpus(asked: dict[str, Any], mib: int) -> None:
    share = MemoryShare(1024, 8192, (MachineKind(8000, 4, 65_536),))
    job = JobSpec(command=("x",), resources=Resources(memory_mib=0, **asked))
    assert sized(job, share).resources.memory_mib == mib


def test_what_is_said_stays_and_each_alternative_has_its_own() -> None:
    said = JobSpec(command=("x",))
    assert sized(said, MemoryShare(1024, 8192)) is said
    ways = (Resources(memory_mib=0, gpus=1), Resources(memory_mib=300))
    share = share_of([_node(8, 64, gpus=4)])
    both = sized(JobSpec(command=("x",), alternatives=ways), share)
    assert [way.memory_mib for way in (both.resources, *both.alternatives)] == [256, 8192, 300]


@pytest.mark.parametrize(
    ("nodes", "cpus", "mib"),
    [
        # All CPUs of a small laptop.
        ([_node(8, 1)], 8, 1024),
        # The widest machine is not the usual one: what only it can run fits it.
        ([_node(2, 16), _node(2, 16), _node(8, 8)], 8, 8192),
        ([], 8, 256),
        # No machine is so wide: it waits for one, whatever it asks for.
        ([_node(2, 16)], 64, 256),
    ],
)
def test_no_job_asks_by_default_for_more_than_a_machine_has(nodes: list[NodeInfo], cpus: int, mib: int) -> None:
    job = JobSpec(command=("x",), resources=Resources(memory_mib=0, cpu_milli=1000 * cpus))
    assert sized(job, share_of(nodes)).resources.memory_mib == mib
