"""Pools: what is held in them now and later, and by whom one may know."""

from ares.api.reservations import ReservationView
from ares.control.scheduler.reservations import ReservationWish
from ares.model.reservation import RoomAsked
from tests.world import ADMIN, ALICE, BOB, World


async def test_a_pool_counts_who_holds_books_and_waits() -> None:
    async with World() as world:
        agent = await world.agent("n1", gpus=4, pool="gold")
        await world.agent("n2", gpus=0, pool="tin")
        await world.one.nodes.cordon(ADMIN, "n2", True)
        running = await world.submit(gpus=2, expected_runtime_s=600.0)
        await world.settle()
        agent.started(agent.starts[running])
        made = await world.one.reservations.reserve(
            ADMIN, ReservationWish(asked=RoomAsked(gpus=1), length_s=900.0, tenant="alpha", name="demo")
        )
        assert isinstance(made, ReservationView)
        waiting = await world.submit(gpus=3, expected_runtime_s=100.0)
        await world.submit(cpu_milli=64_000, memory_mib=1)
        await world.settle()
        await world.advance(1)
        gold, tin = await world.one.pools.list(ALICE)
        assert (gold.nodes, gold.ready_nodes, tin.cordoned_nodes, tin.drained_nodes) == (1, 1, 1, 0)
        assert (gold.gpus, gold.gpus_free, gold.gpus_held, gold.gpus_kept, gold.gpus_reserved) == (4, 2, 2, 0, 1)
        assert (gold.running_jobs, gold.pending_jobs, tin.pending_jobs) == (1, 1, 0)
        assert [(one.name, one.state, one.gpus) for one in gold.reservations] == [("demo", "active", 1)]
        assert tin.reservations == ()
        (promise,) = gold.promises
        assert (promise.job, promise.gpus, promise.nodes) == (waiting, 3.0, 1)
        assert promise.start >= world.clock.wall() + 590
        (theirs,) = [pool for pool in await world.one.pools.list(BOB) if pool.name == "gold"]
        assert (theirs.reservations[0].name, theirs.promises[0].job) == ("", "")
        assert theirs.promises[0].start == promise.start


async def test_one_pool_by_name_and_one_that_is_not_there() -> None:
    async with World() as world:
        await world.agent("n1", gpus=1, pool="gold")
        (one,) = await world.one.pools.list(ALICE, name="gold")
        assert [(each.shape.words, each.never) for each in one.shapes] == [("1 GPU", ""), ("1 whole node", "")]
        assert await world.one.pools.list(ALICE, name="none") == ()
