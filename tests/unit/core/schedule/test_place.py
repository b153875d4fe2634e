"""Many like jobs at once go where one after the other would, also where few of many nodes have a turn."""

import random

import pytest

from ares.core.ask import asks_of
from ares.core.capacity.transaction import Transaction
from ares.core.schedule.place import place_many, place_one
from tests.unit.core.world import NOW, cluster, node, placed, run, spec


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wanted", [1, 4, 12, 90])
@pytest.mark.parametrize("numa", ["none", "required"])
def test_many_at_once_as_one_after_the_other(seed: int, wanted: int, numa: str) -> None:
    chance = random.Random(seed)
    # Nodes alike, so that many are equally good; of some a part is taken.
    made = cluster(*(node(f"n{at}", cpu=8, memory=64, gpus=4, numa=2) for at in range(60)))
    for at in range(0, 60, 3):
        gpus = tuple(chance.sample(range(4), chance.randrange(4)))
        run(made, f"r{at}", spec(cpu=2, gpus=len(gpus)), placed(f"n{at}", cpu=2, gpus=gpus), since=NOW)
    made.prepare()
    ask = asks_of(spec(cpu=2, memory=8, gpus=1, numa=numa), "t")[0]
    txn = Transaction(made.evaluations)
    alone = [found for _ in range(wanted) if (found := place_one(made.evaluations, txn, ask)) is not None]
    txn.rollback(0)
    together = place_many(made.evaluations, txn, ask, wanted)
    txn.rollback(0)
    assert len(alone) == wanted
    assert together[:wanted] == alone
