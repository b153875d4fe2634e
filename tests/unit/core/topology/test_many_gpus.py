"""A machine that claims very many GPUs costs no more than one that has as many as can be given away."""

from typing import Any

import pytest

from ares.core.topology import twins
from ares.core.topology.subset import best, machine_shape
from ares.model.node import GPUS_MAX, Gpu, NodeInfo


def test_links_are_looked_at_of_gpus_that_can_be_given_away() -> None:
    cards = tuple(Gpu(index=n, uuid=f"u{n}", model="m", memory_mib=1) for n in range(GPUS_MAX))
    info = NodeInfo(name="a", cpu_milli=1, memory_mib=1, gpus=cards, gpu_links=(("NV18",) * 60,) * 60)
    assert machine_shape(info).graph.indexes == tuple(range(62))


def machine(kinds: list[int], links: list[list[str]]) -> NodeInfo:
    """GPUs by their kind, which is their NUMA node; links by kinds."""
    cards = tuple(
        Gpu(index=at, uuid=f"u{at}", model="m", memory_mib=1, numa_node=kind) for at, kind in enumerate(kinds)
    )
    rows = tuple(tuple(links[one][other] for other in kinds) for one in kinds)
    return NodeInfo(name="a", cpu_milli=1, memory_mib=1, gpus=cards, gpu_links=rows)


def test_most_gpus_of_a_large_machine_are_chosen_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which to leave is the question, and few can be left: what cannot come to the wanted counts is not followed."""
    steps = 0
    keep = twins._keep  # pyright: ignore[reportPrivateUsage]

    def counted(*said: Any) -> None:
        nonlocal steps
        steps += 1
        keep(*said)

    monkeypatch.setattr(twins, "_keep", counted)
    links = [["NV4" if one == other else "SYS" for other in range(4)] for one in range(4)]
    found = best(machine_shape(machine([at % 4 for at in range(32)], links)), (1 << 32) - 1, 28)
    assert len(found.gpus) == 28
    assert 0 < steps < 50_000


def test_a_machine_of_gpus_that_are_all_unlike_has_no_table() -> None:
    """It would take 40 MB: a node that registers with one machine after the other would fill the memory."""
    links = [["NODE" if (one * other) % 3 else "SYS" for other in range(18)] for one in range(18)]
    shape = machine_shape(machine(list(range(18)), links))
    assert shape.rings is None
    assert shape.twins is None
    assert len(best(shape, (1 << 18) - 1, 9).gpus) == 9
