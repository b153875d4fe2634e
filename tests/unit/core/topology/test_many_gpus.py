"""A machine that claims very many GPUs costs no more than one that has as many as can be given away."""

from ares.core.topology.subset import machine_shape
from ares.model.node import GPUS_MAX, Gpu, NodeInfo


def test_links_are_looked_at_of_gpus_that_can_be_given_away() -> None:
    cards = tuple(Gpu(index=n, uuid=f"u{n}", model="m", memory_mib=1) for n in range(GPUS_MAX))
    info = NodeInfo(name="a", cpu_milli=1, memory_mib=1, gpus=cards, gpu_links=(("NV18",) * 60,) * 60)
    assert machine_shape(info).graph.indexes == tuple(range(62))
