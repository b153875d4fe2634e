"""What uses up the depth of backfill: jobs that wait for room, and nothing else."""

import pytest
from msgspec.structs import replace

from ares.model.profile import BackfillPolicy, Profile, Share
from tests.unit.core.reserve.booked import ALL, HOUR, book, wait
from tests.unit.core.world import NOW, cluster, node, placed, places, plan, spec, state

MORE_THAN_DEPTH = 1100
STRATEGIES = ("greedy", "easy", "conservative", "aggressive", "deadline")


@pytest.mark.parametrize("order", ["rank", "shortest"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_jobs_that_can_never_run_beside_a_reservation_stop_nobody(strategy: str, order: str) -> None:
    backfill = replace(BackfillPolicy(), strategy=strategy, order=order)
    made = cluster(node("a", gpus=4), node("b", cpu=8), profile=Profile(backfill=backfill))
    book(made, placed("a", gpus=ALL))
    for n in range(MORE_THAN_DEPTH):
        # Each is another class, and no node is that large.
        wait(made, f"never{n:04d}", NOW - 100, cpu=64 + n, expected_runtime_s=1.0)
    made.enqueue(state("other", NOW - 1, tenant="u"), spec(cpu=1, expected_runtime_s=10.0))
    assert places(plan(made)).keys() == {"other"}


def test_jobs_over_a_hard_limit_and_jobs_of_a_reservation_to_come_stop_nobody() -> None:
    profile = Profile(shares={"t": Share(hard={"cpu": 0})})
    made = cluster(node("a", gpus=4), node("b", cpu=8), profile=profile)
    book(made, placed("a", gpus=ALL))
    for n in range(MORE_THAN_DEPTH):
        wait(made, f"over{n:04d}", NOW - 100, memory=1 + n, expected_runtime_s=1.0)
        booked = spec(memory=1 + n, expected_runtime_s=1.0, reservation="demo")
        made.enqueue(state(f"booked{n:04d}", NOW - 100, tenant="v"), booked)
    made.enqueue(state("other", NOW - 1, tenant="u"), spec(cpu=1, expected_runtime_s=10.0))
    assert places(plan(made)).keys() == {"other"}


def test_jobs_that_wait_for_room_do_use_it_up() -> None:
    made = cluster(node("a", gpus=4), node("b", cpu=8), profile=Profile(backfill=BackfillPolicy(depth=3)))
    book(made, placed("a", gpus=ALL), start=NOW + HOUR)
    for n in range(4):
        wait(made, f"long{n}", NOW - 100, gpus=1 + n % 4, memory=1 + n, expected_runtime_s=2 * HOUR)
    wait(made, "behind", cpu=1, expected_runtime_s=10.0)
    assert places(plan(made)) == {}
