"""Room made by the real scheduler: who is told what and when, and what happens when something else comes first."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ares.control.execution.transitions import JobChange, Outcome, Transitions
from ares.control.queries.job_list import JobQuery
from ares.core.lifecycle.inputs import Nominate
from ares.model.job import Gang
from ares.model.profile import PreemptionPolicy, Profile
from tests.agents import ScriptedAgent
from tests.world import ADMIN, ALICE, BOB, Replica, World

# Room is made at most this often.
SOON_S = 2.0
EAGER = Profile(preemption=PreemptionPolicy(gap=1, min_runtime_s=0.0, cooldown_s=0.0, cap=2))


async def eager(world: World) -> None:
    await world.one.profiles.put(ADMIN, EAGER)


async def full(world: World, *names: str) -> tuple[list[ScriptedAgent], list[str]]:
    """Nodes that each run one job of the lowest priority, which takes all of it."""
    await eager(world)
    agents = [await world.agent(name) for name in names]
    jobs = await world.submit_many(len(names), cpu_milli=4000, priority="BEST_EFFORT")
    await world.settle()
    for agent in agents:
        for start in agent.starts.values():
            agent.started(start)
    await world.settle()
    assert all(world.state(job).phase == "RUNNING" for job in jobs)
    return agents, jobs


async def elastic(world: World) -> tuple[ScriptedAgent, str]:
    """A node that an elastic gang of two ranks fills; one would do."""
    await eager(world)
    agent = await world.agent("n1", cpu_milli=2000)
    gang = await world.submit(gang=Gang(ranks=2, min_ranks=1), priority="BEST_EFFORT")
    await world.settle()
    agent.send(*(agent.start_report(start) for start in agent.ranks(gang).values()))
    await world.settle()
    return agent, gang


class Interfered(Transitions):
    """Something happens right after a change of this kind was written."""

    def __init__(self, replica: Replica, kind: type, deed: Callable[[], Awaitable[None]]) -> None:
        self.__dict__ = dict(replica.transitions.__dict__)
        self._kind, self._deed = kind, deed

    async def apply(self, changes: Sequence[JobChange]) -> list[Outcome]:
        outcomes = await super().apply(changes)
        if any(isinstance(what, self._kind) for change in changes for what in change.inputs):
            await self._deed()
        return outcomes


async def test_nobody_leaves_for_a_job_that_was_cancelled_when_room_had_just_been_kept_for_it() -> None:
    async with World() as world:
        (agent,), (victim,) = await full(world, "n1")

        async def cancel() -> None:
            (waiting,) = [state.id for state in world.audit.states.values() if state.hold]
            await world.one.jobs.cancel(ALICE, waiting)

        world.one.schedule._transitions = Interfered(world.one, Nominate, cancel)
        job = await world.submit(cpu_milli=4000, priority="HIGH")
        await world.advance(3)
        assert (world.state(job).phase, world.state(victim).phase, agent.stops) == ("CANCELLED", "RUNNING", [])


async def test_no_gang_gives_up_ranks_for_a_job_that_was_cancelled_when_room_had_just_been_kept_for_it() -> None:
    async with World() as world:
        agent, gang = await elastic(world)

        async def cancel() -> None:
            (waiting,) = [state.id for state in world.audit.states.values() if state.hold]
            await world.one.jobs.cancel(ALICE, waiting)

        world.one.schedule._transitions = Interfered(world.one, Nominate, cancel)
        job = await world.submit()
        await world.advance(3)
        assert (world.state(job).phase, world.state(gang).generation, agent.stops) == ("CANCELLED", 0, [])


async def test_room_is_given_up_when_the_leader_dies_before_anybody_was_told_to_leave() -> None:
    async with World(replicas=2) as world:
        (agent,), (victim,) = await full(world, "n1")

        async def crash() -> None:
            world.one.wire.up = False

        world.one.schedule._transitions = Interfered(world.one, Nominate, crash)
        job = await world.submit(cpu_milli=4000, priority="HIGH", replica=world.two)
        await world.advance(SOON_S)
        assert (bool(world.state(job).hold), world.state(victim).phase) == (True, "RUNNING")
        await agent.connect(world.two.sessions, alive=(agent.starts[victim].ref,))
        await world.until(lambda: world.state(victim).phase == "PREEMPTED", within_s=15)
        agent.obey()
        await world.until(lambda: world.state(job).phase == "STAGING", within_s=5)
        assert world.kinds(job) == ["submitted", "preempting", "preempting", "preempting", "bound"]


async def test_a_victim_that_ends_before_it_is_told_leaves_its_place_all_the_same() -> None:
    async with World() as world:
        (agent,), (victim,) = await full(world, "n1")

        async def ends() -> None:
            agent.exited(agent.starts[victim])
            while world.state(victim).phase != "SUCCEEDED":
                await asyncio.sleep(0)

        world.one.schedule._transitions = Interfered(world.one, Nominate, ends)
        job = await world.submit(cpu_milli=4000, priority="HIGH")
        await world.advance(2)
        assert (world.state(victim).phase, world.state(job).phase) == ("SUCCEEDED", "STAGING")


async def test_a_victim_whose_preemptor_is_cancelled_goes_on_when_it_is_gone() -> None:
    async with World() as world:
        (agent,), (victim,) = await full(world, "n1")
        job = await world.submit(cpu_milli=4000, priority="HIGH")
        await world.advance(SOON_S)
        assert world.state(victim).phase == "PREEMPTED"
        await world.one.jobs.cancel(ALICE, job)
        agent.obey()
        await world.until(lambda: world.state(victim).attempt == 2, within_s=5)
        assert not world.one.planner.cluster.reserved


async def test_room_kept_on_a_node_that_restarts_is_found_anew() -> None:
    async with World() as world:
        (agent,), (victim,) = await full(world, "n1")
        job = await world.submit(cpu_milli=4000, priority="HIGH")
        await world.advance(SOON_S)
        assert world.state(job).hold
        await agent.connect(world.one.sessions, fresh=True)
        await world.until(lambda: world.state(job).phase == "STAGING", within_s=5)
        assert (world.state(job).placements[0].incarnation, world.state(victim).phase) == (2, "PENDING")


async def test_nobody_is_told_of_another_tenants_jobs() -> None:
    async with World() as world:
        (agent,), (victim,) = await full(world, "n1")
        job = await world.submit(cpu_milli=4000, priority="HIGH", who=BOB)
        await world.advance(SOON_S)
        assert world.state(victim).phase == "PREEMPTED"
        for mine, other, who in ((job, victim, BOB), (victim, job, ALICE)):
            detail = await world.one.jobs.get(who, mine)
            events = await world.one.jobs.events(who, mine)
            page = await world.one.jobs.list(who, JobQuery())
            assert other.encode() not in msgspec.json.encode((detail, events, page))
        agent.obey()
        await world.until(lambda: world.state(job).phase == "STAGING", within_s=5)


async def test_its_own_victims_are_named() -> None:
    async with World() as world:
        _, (victim,) = await full(world, "n1")
        job = await world.submit(cpu_milli=4000, priority="HIGH")
        await world.advance(SOON_S)
        detail = await world.one.jobs.get(ALICE, job)
        assert detail is not None
        assert detail.state.evicting == (victim,)


async def test_many_like_jobs_do_not_wait_for_each_others_victims() -> None:
    async with World() as world:
        _, victims = await full(world, "n1", "n2", "n3", "n4")
        jobs = await world.submit_many(4, cpu_milli=4000, priority="HIGH")
        await world.advance(5)
        assert [world.state(victim).phase for victim in victims] == ["PREEMPTED"] * 4
        assert all(world.state(job).hold for job in jobs)


async def test_an_elastic_gang_that_lost_a_node_returns_to_its_full_size_when_there_is_room() -> None:
    async with World() as world:
        one, two = await world.agent("n1", cpu_milli=1000), await world.agent("n2", cpu_milli=1000)
        job = await world.submit(gang=Gang(ranks=2, min_ranks=1))
        await world.settle()
        one.started(one.starts[job])
        two.started(two.starts[job])
        await world.settle()
        await two.drop()
        await world.until(lambda: len(world.state(job).placements) == 1, within_s=15)
        await two.connect(world.one.sessions, fresh=True)
        await world.until(lambda: len(world.state(job).placements) == 2, within_s=5)
        assert [place.rank for place in world.state(job).placements] in ([0, 2], [1, 2])


async def test_a_gang_that_gave_up_ranks_for_another_job_takes_them_back_when_that_has_ended() -> None:
    async with World() as world:
        agent, gang = await elastic(world)
        job = await world.submit()
        await world.advance(SOON_S)
        agent.obey()
        await world.until(lambda: world.state(job).phase == "STAGING", within_s=5)
        agent.exited(agent.starts[job])
        await world.until(lambda: len(world.state(gang).placements) == 2, within_s=5)
        assert world.state(gang).preemptions == 0


async def test_a_gang_that_loses_its_node_with_a_rank_on_its_way_out_says_so_of_every_rank() -> None:
    async with World() as world:
        agent, gang = await elastic(world)
        await world.submit()
        await world.advance(SOON_S)
        assert len(world.state(gang).leaving) == 1
        await agent.connect(world.one.sessions, fresh=True)
        await world.until(lambda: world.state(gang).phase == "RETRYING", within_s=5)
        (lost,) = [event for event in world.audit.events[gang] if event.kind == "lease-lost"]
        assert lost.data["ranks"] == [0, 1]


async def test_room_stays_kept_while_its_node_connects_again() -> None:
    async with World() as world:
        (agent,), (victim,) = await full(world, "n1")
        job = await world.submit(cpu_milli=4000, priority="HIGH")
        await world.advance(SOON_S)
        kept, ref = world.state(job).hold, agent.starts[victim].ref
        assert kept
        await agent.drop()
        await world.advance(SOON_S)
        assert world.state(job).hold == kept
        await agent.connect(world.one.sessions, alive=(ref,))
        agent.obey()
        await world.until(lambda: world.state(job).phase == "STAGING", within_s=5)
        assert world.kinds(job) == ["submitted", "preempting", "bound"]


async def test_room_kept_on_a_node_that_is_cordoned_or_dies_is_given_up() -> None:
    async with World() as world:
        (agent, *_), _ = await full(world, "n1")
        job = await world.submit(cpu_milli=4000, priority="HIGH")
        await world.advance(SOON_S)
        assert world.state(job).hold
        await world.one.nodes.cordon(ADMIN, "n1", True)
        await world.until(lambda: not world.state(job).hold, within_s=SOON_S)
    async with World() as world:
        (agent, *_), _ = await full(world, "n1")
        job = await world.submit(cpu_milli=4000, priority="HIGH")
        await world.advance(SOON_S)
        await agent.drop()
        await world.until(lambda: not world.state(job).hold, within_s=12)
