"""Moves of running jobs, where somebody who should be gone still holds what one of them leaves."""

from typing import Any

import pytest

from ares.core.ask import Ask
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.consolidation import Relocation, consolidation, still_fit
from ares.model.job import Gang
from tests.unit.core.world import NOW, cluster, node, placed, run, spec

GPU: dict[str, Any] = {"gpus": (0,)}
DEVICE: dict[str, Any] = {"devices": {"fpga": ("f0",)}}


def _held_twice(on: str, held: dict[str, Any]) -> Cluster:
    """A gang on both nodes; on one of them, a job on its way out holds the same."""
    made = cluster(*(node(name, gpus=2, devices={"fpga": ("f0", "f1")}) for name in ("n1", "n2")))
    gang = spec(gang=Gang(ranks=2))
    run(made, "gang", gang, placed("n1", **held), placed("n2", rank=1, **held))
    run(made, "lingers", spec(), placed(on, **held), phase="PREEMPTED")
    return made


@pytest.mark.parametrize("held", [GPU, DEVICE])
def test_what_somebody_else_still_holds_is_not_free_once_the_job_has_left_it(held: dict[str, Any]) -> None:
    made = _held_twice("n1", held)
    origin = made.holdings["gang"].placements
    other: dict[str, Any] = {"gpus": (1,)} if held is GPU else {"devices": {"fpga": ("f1",)}}
    move = Relocation("gang", origin, (placed("n1", **held), placed("n1", rank=1, **other)), 0.0, "guaranteed")
    assert still_fit(made, (move,)) == "the room for job gang on n1 is taken"
    made.release("lingers")
    assert still_fit(made, (move,)) == ""


def test_no_plan_counts_on_a_gpu_that_somebody_else_still_holds() -> None:
    made = _held_twice("n2", GPU)
    asks = {"gang": Ask(cpu_milli=1000, memory_mib=1, gpus=1, ranks=2, min_ranks=2)}
    assert consolidation(made, asks.get, 2, 1, NOW).moves == ()
    made.release("lingers")
    # The rank on the first node goes to the second, where the other one stays.
    (move,) = consolidation(made, asks.get, 2, 1, NOW).moves
    assert [(place.node, place.gpus) for place in move.hold] == [("n2", (1,)), ("n2", (0,))]
