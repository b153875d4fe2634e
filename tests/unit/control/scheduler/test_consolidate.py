"""Consolidation: a plan with its cost, carried out as it was shown or not at all."""

from ares.model.job import Preemption
from tests.agents import ScriptedAgent
from tests.world import ADMIN, World

# Long enough for the peace that running jobs are given.
LATER_S = 120.0


async def split(world: World) -> tuple[list[ScriptedAgent], list[str]]:
    """Two nodes of four GPUs, each with a job on two of them: four are free, and no node has four."""
    agents = [await world.agent(name, gpus=4) for name in ("n1", "n2")]
    jobs = await world.submit_many(2, gpus=2)
    for job, node in zip(jobs, ("n1", "n2"), strict=True):
        await world.bind(job, node, gpus=(0, 1))
    for agent in agents:
        for start in agent.starts.values():
            agent.started(start)
    await world.advance(LATER_S)
    return agents, jobs


async def test_a_plan_is_shown_with_its_cost_and_changes_nothing() -> None:
    async with World(scheduling=False) as world:
        _, jobs = await split(world)
        plan = await world.one.consolidate.plan(ADMIN, gpus=4)
        (move,) = plan.moves
        assert move.job in jobs
        assert {*move.origin, *move.to} == {"n1", "n2"}
        assert move.lost_gpu_s == 2 * LATER_S
        assert (plan.before, plan.after, plan.applied, plan.lost_gpu_s) == (0, 1, False, 2 * LATER_S)
        assert [world.state(job).phase for job in jobs] == ["RUNNING", "RUNNING"]
        again = await world.one.consolidate.plan(ADMIN, gpus=4)
        assert again.revision == plan.revision


async def test_the_plan_that_was_shown_is_carried_out_and_the_job_goes_where_it_was_said() -> None:
    async with World() as world:
        agents = {name: await world.agent(name, gpus=4, cpu_milli=8000) for name in ("n1", "n2")}
        await world.submit_many(4, gpus=2)
        await world.settle()
        for agent in agents.values():
            for start in agent.starts.values():
                agent.started(start)
        await world.advance(LATER_S)
        # One job of each node ends: two and two GPUs are free.
        for agent in agents.values():
            agent.exited(next(iter(agent.starts.values())))
        await world.settle()
        plan = await world.one.consolidate.plan(ADMIN, gpus=4)
        (move,) = plan.moves
        done = await world.one.consolidate.apply(ADMIN, 4, 1, plan.revision)
        assert (done.applied, done.message) == (
            True, "1 job is on its way; its new place is kept for it",
        )  # fmt: skip
        state = world.state(move.job)
        assert (state.phase, tuple(place.node for place in state.hold)) == ("PREEMPTED", move.to)
        # What is kept for it is nobody else's, though it is free.
        free = world.one.planner.cluster.free(move.to[0])
        assert free is not None
        assert free.gpus == ()
        large = await world.submit(gpus=4)
        await world.advance(2)
        assert world.state(large).phase == "PENDING"
        agents[move.origin[0]].obey()
        await world.settle()
        moved = world.state(move.job)
        assert (moved.phase, tuple(place.node for place in moved.placements)) == ("STAGING", move.to)
        assert moved.hold == ()
        assert world.state(large).placements[0].node == move.origin[0]
        (told,) = [event for event in world.audit.events[move.job] if event.kind == "preempted"]
        assert (told.data["rule"], told.data["to"]) == ("consolidate", list(move.to))


async def test_a_plan_the_world_has_broken_is_not_carried_out_and_the_new_one_is_shown() -> None:
    async with World(scheduling=False) as world:
        agents, _ = await split(world)
        plan = await world.one.consolidate.plan(ADMIN, gpus=4)
        (move,) = plan.moves
        # Somebody takes a GPU of the room the job was to move to.
        taker = await world.submit(gpus=1)
        await world.bind(taker, move.to[0], gpus=(2,))
        answer = await world.one.consolidate.apply(ADMIN, 4, 1, plan.revision)
        assert not answer.applied
        assert f"the room for job {move.job} on {move.to[0]} is taken" in answer.message
        assert answer.revision != plan.revision
        assert all(not agent.stops for agent in agents)
        # The new plan is as good as any: it can be carried out.
        assert [one.to for one in answer.moves] != [move.to]


async def test_another_replica_carries_out_the_same_plan_and_not_another() -> None:
    async with World(replicas=2, scheduling=False) as world:
        await split(world)
        plan = await world.one.consolidate.plan(ADMIN, gpus=4)
        wrong = await world.two.consolidate.apply(ADMIN, 4, 1, "0" * 16)
        assert (wrong.applied, wrong.revision) == (False, plan.revision)
        done = await world.two.consolidate.apply(ADMIN, 4, 1, plan.revision)
        assert done.applied
        assert world.state(plan.moves[0].job).phase == "PREEMPTED"


async def test_what_may_not_be_moved_is_left_alone_and_said() -> None:
    async with World(scheduling=False) as world:
        agents = [await world.agent(name, gpus=4) for name in ("n1", "n2")]
        jobs = await world.submit_many(2, gpus=2, preemption=Preemption(allowed=False))
        for job, node in zip(jobs, ("n1", "n2"), strict=True):
            await world.bind(job, node, gpus=(0, 1))
        await world.advance(LATER_S)
        plan = await world.one.consolidate.plan(ADMIN, gpus=4)
        assert (plan.moves, plan.before, plan.after) == ((), 0, 0)
        assert "none of the other 0 jobs that may move makes more room" in plan.message
        assert not (await world.one.consolidate.apply(ADMIN, 4, 1, plan.revision)).applied
        assert not any(agent.stops for agent in agents)


async def test_room_kept_for_a_job_that_is_cancelled_on_its_way_is_free_again() -> None:
    async with World(scheduling=False) as world:
        await split(world)
        plan = await world.one.consolidate.plan(ADMIN, gpus=4)
        await world.one.consolidate.apply(ADMIN, 4, 1, plan.revision)
        (move,) = plan.moves
        assert set(world.one.planner.cluster.reserved) == {move.job}
        await world.one.jobs.cancel(ADMIN, move.job)
        await world.settle()
        assert world.one.planner.cluster.reserved == {}
        assert world.state(move.job).hold == ()
