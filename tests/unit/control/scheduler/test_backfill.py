"""Promises in the running services: who is held back, who slips in, and who has to leave when a gap ends."""

from msgspec.structs import replace

from ares.model.job import Preemption
from tests.agents import ScriptedAgent
from tests.world import World

SAVES = Preemption(checkpoint_signal="SIGUSR1", wait_s=20.0)
HALF, ALL = 2000, 4000


async def busy(world: World) -> tuple[ScriptedAgent, str, str]:
    """Half of the node is taken for 1000 s, and somebody waits for all of it."""
    agent = await world.agent("n1")
    first = await world.submit(cpu_milli=HALF, expected_runtime_s=1000.0)
    await world.settle()
    agent.started(agent.starts[first])
    await world.settle()
    waits = await world.submit(cpu_milli=ALL, expected_runtime_s=500.0)
    await world.settle()
    # Of jobs of one moment the id says which came first, and ids are drawn.
    await world.advance(0.5)
    return agent, first, waits


async def test_a_job_that_would_delay_the_first_is_held_back_and_a_short_one_slips_in() -> None:
    async with World() as world:
        _, first, waits = await busy(world)
        promise = world.one.planner.cluster.promises[waits]
        assert promise.start == (world.state(first).bound_at or 0.0) + 1000.0
        long = await world.submit(cpu_milli=HALF, expected_runtime_s=1200.0)
        short = await world.submit(cpu_milli=HALF, expected_runtime_s=600.0)
        silent = await world.submit(cpu_milli=HALF)
        await world.settle()
        assert [world.state(job).phase for job in (long, short, silent)] == ["PENDING", "STAGING", "PENDING"]
        world.agents[0].started(world.agents[0].starts[short])
        world.agents[0].exited(world.agents[0].starts[short])
        await world.settle()
        reason = world.one.planner.reason(long)
        assert reason is not None
        assert reason.code == "HELD_BACK"
        assert reason.numbers["runsS"] == 1200
        assert reason.numbers["heldForS"] <= 1000


async def test_a_job_in_a_gap_is_warned_in_time_and_its_place_is_free_when_the_promise_comes_due() -> None:
    async with World() as world:
        agent, first, waits = await busy(world)
        job = await world.submit(cpu_milli=HALF, gap_min_s=60.0, preemption=SAVES, grace_s=10.0)
        await world.settle()
        state = world.state(job)
        assert (state.phase, state.leaves_at) == ("STAGING", world.one.planner.cluster.promises[waits].start)
        agent.started(agent.starts[job])
        await world.settle()
        await world.advance(965)
        assert not agent.stops
        await world.advance(10)
        (stop,) = agent.stops
        assert (stop.checkpoint_signal, stop.wait_s, stop.grace_s) == ("SIGUSR1", 20.0, 10.0)
        agent.obey()
        await world.settle()
        assert world.state(job).phase == "PENDING"
        assert "the gap it ran in ends" in next(
            event.reason for event in world.audit.events[job] if event.kind == "preempted"
        )
        agent.exited(agent.starts[first])
        await world.settle()
        assert world.state(waits).phase == "STAGING"


async def test_a_gap_that_is_too_short_is_not_used() -> None:
    async with World() as world:
        await busy(world)
        job = await world.submit(cpu_milli=HALF, gap_min_s=1001.0)
        await world.settle()
        assert world.state(job).phase == "PENDING"


async def test_a_gap_is_used_only_if_it_lasts_as_long_beside_the_time_to_leave() -> None:
    async with World() as world:
        agent, _, _ = await busy(world)
        job = await world.submit(cpu_milli=HALF, gap_min_s=10.0, preemption=SAVES, grace_s=10.0)
        await world.settle()
        agent.started(agent.starts[job])
        await world.until(lambda: world.state(job).phase == "PREEMPTED", 1000)
        agent.obey()
        await world.advance(10)
        # It is gone early, and what is left of the gap is less than it takes to start and leave again.
        assert world.state(job).phase == "PENDING"
        assert len(agent.all_starts(job)) == 1


async def test_what_a_job_was_told_first_outlives_the_planner() -> None:
    """Also where the latest plan promised it nothing: a new planner is told that as well."""
    async with World() as world:
        _, _, waits = await busy(world)
        cluster = world.one.planner.cluster
        promise = cluster.promises[waits]
        # It was told an earlier start, and then nobody could say for a while.
        earlier = replace(promise, start=promise.start - 100.0, first_start=promise.start - 100.0)
        cluster.promise([earlier])
        cluster.promise([])
        assert cluster.told == {waits: earlier}
        await world.one.planning.close()
        await world.submit(cpu_milli=HALF, expected_runtime_s=5000.0)
        await world.settle()
        again = cluster.promises[waits]
        assert (again.start, again.first_start) == (promise.start, earlier.first_start)
        assert again.held_from == earlier.start
