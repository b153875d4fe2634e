"""Worlds in which healthy nodes are watched."""

import pytest

from ares.sim.world.suspicion import LOADS, NODES, under


@pytest.mark.parametrize("load", LOADS)
def test_every_load_makes_a_world_without_faults(load: str) -> None:
    shape = under(LOADS[load], 60.0)
    assert (shape.nodes, shape.families, shape.beside) == (NODES, (), False)
