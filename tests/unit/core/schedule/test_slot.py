"""When a gang can start: found by columns it is what going through the nodes one by one finds."""

import random

import pytest

from ares.core.ask import Ask
from ares.core.capacity.claims import Claim, Claims
from ares.core.capacity.transaction import Allocation, Transaction
from ares.core.schedule import slot
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.slot import Slot, earliest
from tests.unit.core.world import cluster, node, placed, run, spec

NOW = 10_000.0


def busy(chance: random.Random, nodes: int) -> Cluster:
    """Nodes in racks, each with some GPUs taken by jobs of which most say how long they run."""
    made = cluster(*(node(f"n{at}", cpu=16, gpus=4, rack=f"r{at % 3}", region="x", zone="z") for at in range(nodes)))
    for at in range(nodes):
        taken = chance.randint(0, 4)
        for gpu in range(taken):
            runs = chance.choice([None, 500.0, 900.0, 2000.0])
            place = placed(f"n{at}", cpu=chance.choice([1, 3]), gpus=(gpu,))
            run(made, f"j{at}-{gpu}", spec(expected_runtime_s=runs), place, since=NOW - 100)
    return made


def found(made: Cluster, ask: Ask, claim: Claim | None, few: int, monkeypatch: pytest.MonkeyPatch) -> Slot | None:
    monkeypatch.setattr(slot, "_FEW", few)
    txn = Transaction(made.evaluations)
    claims = Claims(made, txn, NOW)
    if claim is not None:
        claims.add(claim)
    opening = earliest(made, txn, claims, ask, NOW, 300.0)
    claims.lift()
    txn.rollback(0)
    return opening


@pytest.mark.parametrize("seed", range(60))
def test_by_columns_it_is_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    made = busy(chance, chance.randint(3, 8))
    level = chance.choice([None, "rack", "node"])
    ask = Ask(
        cpu_milli=chance.choice([1000, 4000]),
        memory_mib=1,
        gpus=chance.choice([0, 1, 2, 4]),
        ranks=chance.randint(2, 6),
        level=level,
        level_required=level is not None,
        per_node=chance.choice([0, 1, 2]),
    )
    ask = ask._replace(min_ranks=chance.randint(2, ask.ranks))
    row = made.rows["n0"]
    claim = chance.choice(
        [None, Claim("x", NOW + 450.0, NOW + 1000.0, (Allocation(row, 1000, 1, (3,), 1000, (), None),))]
    )
    one_by_one = found(made, ask, claim, 1000, monkeypatch)
    by_columns = found(made, ask, claim, 0, monkeypatch)
    assert (by_columns and by_columns.start) == (one_by_one and one_by_one.start)
