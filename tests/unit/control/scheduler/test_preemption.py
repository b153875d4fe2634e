"""Taking an attempt away for another job: time to save its work, then its place, then its turn again."""

from typing import Any

import pytest

from ares.core.lifecycle.inputs import Bind, Nominate, Preempt
from ares.core.refusal import Refusal
from ares.model.job import Gang, Preemption
from tests.agents import ScriptedAgent
from tests.world import ALICE, World

SAVES = Preemption(checkpoint_signal="SIGUSR2", wait_s=12.0)
RECORD = {"preemptor": "j9", "lostGpuS": 3.5}


async def preempt(world: World, job: str) -> object:
    fence = world.state(job).fence
    return await world.apply(job, Preempt(fence=fence, by="scheduler", reason="job j9 is CRITICAL", record=RECORD))


async def running(world: World, **changes: Any) -> tuple[ScriptedAgent, str]:
    agent = await world.agent("n1")
    job = await world.submit(**changes)
    await world.bind(job, "n1")
    agent.started(agent.starts[job])
    await world.settle()
    return agent, job


async def test_a_preempted_job_may_save_its_work_and_waits_for_a_place_again_when_it_is_gone() -> None:
    async with World(scheduling=False) as world:
        agent, job = await running(world, preemption=SAVES, grace_s=3.0)
        submitted_at = world.state(job).submitted_at
        await world.advance(5)
        await preempt(world, job)
        (stop,) = agent.stops
        assert (stop.checkpoint_signal, stop.wait_s, stop.grace_s, stop.ranks) == ("SIGUSR2", 12.0, 3.0, (0,))
        await world.advance(14)
        state = world.state(job)
        assert (state.phase, state.lingering, state.preemptions) == ("PREEMPTED", True, 1)
        assert state.cpu_s == pytest.approx(5.0)
        # Whatever it says of its end, it is repeated.
        agent.exited(agent.starts[job])
        await world.settle()
        state = world.state(job)
        assert (state.phase, state.placements, state.submitted_at) == ("PENDING", (), submitted_at)
        assert world.kinds(job)[-2:] == ["preempted", "requeued"]
        (told,) = [event for event in world.audit.events[job] if event.kind == "preempted"]
        assert told.data.items() >= RECORD.items()


async def test_an_agent_that_reconnects_while_its_job_saves_keeps_it_and_is_told_again() -> None:
    async with World(scheduling=False) as world:
        agent, job = await running(world, preemption=SAVES)
        ref = agent.starts[job].ref
        await preempt(world, job)
        await agent.connect(world.one.sessions, alive=(ref,))
        assert agent.welcome.keep == (ref,)
        (stop,) = agent.stops
        assert stop.checkpoint_signal == "SIGUSR2"
        assert world.state(job).phase == "PREEMPTED"
        await agent.connect(world.one.sessions)
        assert world.state(job).phase == "PENDING"


async def test_a_job_cancelled_while_it_is_being_preempted_stays_cancelled_and_keeps_its_place_until_gone() -> None:
    async with World(scheduling=False) as world:
        agent, job = await running(world, preemption=SAVES)
        await preempt(world, job)
        await world.one.jobs.cancel(ALICE, job)
        await world.settle()
        assert (world.state(job).phase, world.state(job).lingering) == ("CANCELLED", True)
        # Nobody needs what it saves: it is told to end without.
        assert [(stop.checkpoint_signal, stop.wait_s) for stop in agent.stops] == [("SIGUSR2", 12.0), (None, 0.0)]
        agent.obey()
        await world.settle()
        assert (world.state(job).phase, world.state(job).lingering) == ("CANCELLED", False)


async def test_a_preempted_gang_waits_until_its_last_rank_is_gone_also_when_that_node_dies() -> None:
    async with World(scheduling=False) as world:
        one, two = await world.agent("n1"), await world.agent("n2")
        job = await world.submit(gang=Gang(ranks=2))
        await world.bind(job, "n1", "n2")
        one.started(one.ranks(job)[0])
        await world.settle()
        await preempt(world, job)
        assert (one.stopped, two.stopped) == ([(job, (0,))], [(job, (1,))])
        one.obey()
        await two.drop()
        await world.advance(5)
        assert (world.state(job).phase, sorted(world.audit.alive[job])) == ("PREEMPTED", [1])
        await world.advance(5)
        assert world.state(job).phase == "PENDING"


async def test_a_failover_in_the_middle_of_a_preemption_loses_nothing() -> None:
    async with World(replicas=2, scheduling=False) as world:
        agent, job = await running(world, preemption=SAVES)
        ref = agent.starts[job].ref
        # The plane takes it away and dies before the agent hears of it.
        await agent.drop()
        await preempt(world, job)
        await world.one.crash()
        await agent.connect(world.two.sessions, alive=(ref,))
        (stop,) = agent.stops
        assert (stop.ref, stop.checkpoint_signal) == (ref, "SIGUSR2")
        await world.until(lambda: world.two.leader.leading, within_s=10)
        assert world.state(job).phase == "PREEMPTED"
        agent.obey()
        await world.settle()
        assert world.state(job).phase == "PENDING"


@pytest.mark.parametrize(
    "changes", [{"effects": "unsafe"}, {"restart": "never"}, {"preemption": Preemption(allowed=False)}]
)
async def test_what_may_not_be_taken_away_is_not(changes: dict[str, object]) -> None:
    async with World(scheduling=False) as world:
        agent, job = await running(world, **changes)
        refused = await preempt(world, job)
        assert isinstance(refused, Refusal)
        assert (world.state(job).phase, agent.stops) == ("RUNNING", [])


async def test_an_end_that_lands_first_is_not_taken_away() -> None:
    async with World(scheduling=False) as world:
        agent, job = await running(world)
        fence = world.state(job).fence
        agent.exited(agent.starts[job])
        await world.settle()
        late = await world.apply(job, Preempt(fence=fence, by="scheduler", reason="too late"))
        assert isinstance(late, Refusal)
        assert world.state(job).phase == "SUCCEEDED"


async def test_room_is_held_for_the_preemptor_until_it_is_bound_or_no_longer_wants_it() -> None:
    async with World(scheduling=False) as world:
        agent, victim = await running(world, cpu_milli=4000)
        big, other = await world.submit_many(2, cpu_milli=4000)
        places = world.places("n1", cpu_milli=4000)
        for job in (big, other):
            await world.apply(
                job, Nominate(hold=places, evicting=(victim,), reason="room is made on n1", record=RECORD)
            )
        assert (world.state(big).hold, world.state(big).evicting) == (places, (victim,))
        assert (world.state(big).phase, world.one.view.by_node["n1"].keys()) == ("PENDING", {victim})
        await world.one.jobs.cancel(ALICE, other)
        assert (world.state(other).hold, world.state(other).evicting) == ((), ())
        await preempt(world, victim)
        agent.obey()
        await world.settle()
        await world.apply(big, Bind(placements=places))
        assert (world.state(big).phase, world.state(big).hold) == ("STAGING", ())
        assert world.kinds(big) == ["submitted", "preempting", "bound"]
