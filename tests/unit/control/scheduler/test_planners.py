"""Several planners in the running services: whose jobs wait with which, and what holds across them."""

import asyncio
from collections import Counter
from math import inf

import msgspec
import pytest

from ares.control.planner.messages import News, PlannerRules, Question
from ares.control.planner.mirror import Mirror
from ares.control.scheduler.planner_link import PlannerLink
from ares.core.ask import asks_of
from ares.model.job import JobSpec
from ares.model.node import NodeInfo, NodeRecord
from ares.model.profile import Profile
from tests.world import ADMIN, ALICE, BOB, World

HALF, ALL = 2000, 4000


def counted(world: World, name: str) -> float:
    lines = world.one.telemetry.render().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


async def test_jobs_of_tenants_wait_with_planners_of_their_own_and_all_run() -> None:
    async with World(planners=2) as world:
        for number in range(4):
            await world.agent(f"n{number}")
        jobs = [await world.submit(cpu_milli=ALL, who=who) for who in (ALICE, BOB, ALICE, BOB)]
        await world.until(lambda: all(world.state(job).phase == "STAGING" for job in jobs))
        assert len({world.state(job).placements[0].node for job in jobs}) == 4
        by_planner = [f'ares_plan_parts_total{{planner="{number}"}} 2.0' for number in (0, 1)]
        assert set(by_planner) <= set(world.one.telemetry.render().decode().splitlines())


async def test_a_tenant_has_every_node_when_no_other_wants_it() -> None:
    """Half of the nodes are another planner's own: jobs spill to them."""
    async with World(planners=2) as world:
        for number in range(8):
            await world.agent(f"n{number}")
        jobs = await world.submit_many(8, cpu_milli=ALL)
        await world.until(lambda: all(world.state(job).phase == "STAGING" for job in jobs))


async def test_room_that_two_want_goes_to_the_higher_priority_and_the_other_is_counted() -> None:
    async with World(planners=2) as world:
        agent = await world.agent("n1")
        first = await world.submit(cpu_milli=ALL)
        await world.settle()
        agent.started(agent.starts[first])
        await world.settle()
        low = await world.submit(cpu_milli=ALL, who=ALICE, priority="LOW")
        high = await world.submit(cpu_milli=ALL, who=BOB, priority="HIGH")
        await world.settle()
        agent.exited(agent.starts[first])
        await world.until(lambda: world.state(high).phase == "STAGING")
        assert world.state(low).phase == "PENDING"
        assert counted(world, "ares_plan_conflicts_total") >= 1
        facts = (await world.one.health.ready())[1]
        assert (facts["planners"], facts["planners_lost"]) == ("2", "0")
        assert int(facts["plan_conflicts"]) == counted(world, "ares_plan_conflicts_total")


@pytest.mark.parametrize("lag_s", [inf, -1.0, 3.0])
async def test_a_planner_that_hangs_dies_or_is_slow_concerns_its_own_jobs_alone(lag_s: float) -> None:
    async with World(planners=2) as world:
        for number in range(4):
            await world.agent(f"n{number}")
        world.one.lags_s[0] = lag_s
        theirs = await world.submit(cpu_milli=ALL, who=ALICE)
        await world.settle()
        for _ in range(2):
            job = await world.submit(cpu_milli=ALL, who=BOB)
            await world.until(lambda job=job: world.state(job).phase == "STAGING", within_s=1.0)
        assert world.state(theirs).phase == "PENDING"
        world.one.lags_s[0] = 0.0
        await world.until(lambda: world.state(theirs).phase == "STAGING", within_s=20.0)


async def test_a_start_that_one_planner_promised_is_not_delayed_by_jobs_of_another() -> None:
    async with World(planners=2) as world:
        agent = await world.agent("n1")
        first = await world.submit(cpu_milli=HALF, expected_runtime_s=1000.0)
        await world.settle()
        agent.started(agent.starts[first])
        waits = await world.submit(cpu_milli=ALL, expected_runtime_s=500.0)
        await world.until(lambda: waits in world.one.planner.cluster.promises)
        promise = world.one.planner.cluster.promises[waits]
        long = await world.submit(cpu_milli=HALF, expected_runtime_s=1200.0, who=BOB)
        short = await world.submit(cpu_milli=HALF, expected_runtime_s=600.0, who=BOB)
        await world.until(lambda: world.state(short).phase == "STAGING")
        await world.advance(5.0)
        assert world.state(long).phase == "PENDING"
        assert world.one.planner.cluster.promises[waits].start == promise.start


async def test_both_heads_are_promised_starts_that_go_together() -> None:
    """The bound on waiting: the first job of each planner has a start that no other planner can put off."""
    async with World(planners=2) as world:
        agent = await world.agent("n1")
        first = await world.submit(cpu_milli=HALF, expected_runtime_s=1000.0)
        await world.settle()
        agent.started(agent.starts[first])
        heads = [await world.submit(cpu_milli=ALL, expected_runtime_s=500.0, who=who) for who in (ALICE, BOB)]
        await world.until(lambda: all(head in world.one.planner.cluster.promises for head in heads))
        starts = sorted(world.one.planner.cluster.promises[head].start for head in heads)
        assert starts[1] - starts[0] >= 500.0


@pytest.mark.parametrize("planners", [1, 2])
async def test_where_no_job_may_pass_another_all_wait_with_one_planner(planners: int) -> None:
    actions = tuple(name for name in Profile().actions if name != "backfill")
    async with World(planners=planners) as world:
        await world.one.profiles.put(ADMIN, Profile(actions=actions), "no backfill")
        agent = await world.agent("n1")
        first = await world.submit(cpu_milli=HALF)
        await world.settle()
        agent.started(agent.starts[first])
        head = await world.submit(cpu_milli=ALL, who=ALICE, priority="HIGH")
        await world.settle()
        behind = await world.submit(cpu_milli=HALF, who=BOB, priority="LOW")
        await world.advance(5.0)
        assert [world.state(job).phase for job in (head, behind)] == ["PENDING", "PENDING"]


async def test_a_new_leader_and_new_planners_know_it_all() -> None:
    async with World(planners=2, replicas=2) as world:
        for number in range(2):
            await world.agent(f"n{number}")
        jobs = [await world.submit(cpu_milli=ALL, who=who) for who in (ALICE, BOB)]
        await world.until(lambda: all(world.state(job).phase == "STAGING" for job in jobs))
        (leader,) = world.leading()
        await leader.crash()
        other = next(replica for replica in world.replicas if replica is not leader)
        more = [await world.submit(cpu_milli=ALL, who=who, replica=other) for who in (ALICE, BOB)]
        await world.until(lambda: other.leader.leading)
        await world.advance(2.0)
        assert {world.state(job).phase for job in more} == {"PENDING"}
        world.replicas.remove(leader)


@pytest.mark.parametrize("planners", [1, 2])
async def test_a_long_plan_is_written_in_parts_and_needs_no_other_plan(planners: int) -> None:
    async with World(planners=planners) as world:
        for number in range(50):
            await world.agent(f"n{number}")
        before = counted(world, "ares_cycle_seconds_count")
        jobs = await world.submit_many(200, cpu_milli=1000)
        await world.until(lambda: all(world.state(job).phase == "STAGING" for job in jobs))
        bound = [next(event for event in world.audit.events[job] if event.kind == "bound") for job in jobs]
        decisions = {event.data["decision"] for event in bound}
        assert max(Counter(event.data["decision"] for event in bound).values()) <= 64
        assert counted(world, "ares_cycle_seconds_count") - before < len(decisions)
        assert counted(world, "ares_plans_dropped_total ") == 0


async def test_a_fault_of_our_own_is_not_taken_for_a_planner_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(planners=2, scheduling=False) as world:
        await world.agent("n1")
        await world.submit(cpu_milli=ALL)
        await world.settle()

        async def broken(_link: PlannerLink, *, gentle: bool) -> None:
            raise ValueError(f"no answer at all, {gentle}")

        monkeypatch.setattr(PlannerLink, "ask", broken)
        proposing = asyncio.ensure_future(world.one.proposer.propose(gentle=True))
        await world.advance(1.0)
        assert await proposing is None
        with pytest.raises(ValueError, match="no answer at all"):
            await world.one.proposer.propose(gentle=True)


async def test_a_job_that_is_dealt_to_another_planner_is_not_refused_its_own_room() -> None:
    async with World(planners=2) as world:
        agent = await world.agent("n1")
        first = await world.submit(cpu_milli=HALF, expected_runtime_s=1000.0, who=BOB)
        await world.settle()
        agent.started(agent.starts[first])
        pool = {"pool": world.one.view.nodes["n1"].info.pool}
        job = await world.submit(cpu_milli=ALL, expected_runtime_s=2000.0, who=BOB, selector=pool)
        await world.until(lambda: job in world.one.planner.cluster.promises)
        # A second pool: all jobs of the first wait with its planner from now on.
        await world.agent("x1", pool="zz")
        await world.advance(2.0)
        agent.exited(agent.starts[first])
        await world.until(lambda: world.state(job).phase == "STAGING", within_s=30.0)


async def test_what_a_lost_planner_promised_keeps_no_room_from_others() -> None:
    async with World(planners=2) as world:
        agent = await world.agent("n1")
        first = await world.submit(cpu_milli=HALF, expected_runtime_s=1000.0, who=BOB)
        await world.settle()
        agent.started(agent.starts[first])
        promised = await world.submit(cpu_milli=ALL, expected_runtime_s=500.0, who=BOB)
        await world.until(lambda: promised in world.one.planner.cluster.promises)
        world.one.lags_s[1] = -1.0
        other = await world.submit(cpu_milli=HALF, expected_runtime_s=2000.0, who=ALICE)
        await world.advance(5.0)
        agent.exited(agent.starts[first])
        await world.until(lambda: world.state(other).phase == "STAGING", within_s=60.0)
        assert world.state(promised).phase == "PENDING"


def test_rows_that_changed_are_scored_with_their_home_too() -> None:
    mirror = Mirror(lambda: 0.0)
    names = [f"n{number:02d}" for number in range(16)]
    info = [NodeInfo(name=name, cpu_milli=16_000, memory_mib=65_536) for name in names]
    nodes = tuple(NodeRecord(info=each, incarnation=1, registered_at=0.0) for each in info)
    homes = {name: number % 2 for number, name in enumerate(names)}
    rules = PlannerRules(Profile(), planners=2)
    news = News(0.0, rules, nodes, ready=dict.fromkeys(names, True), homes=homes)
    mirror.handle(msgspec.msgpack.encode(Question(news)))
    evaluations = mirror._cluster.evaluations  # pyright: ignore[reportPrivateUsage]
    ask = asks_of(JobSpec(command=("true",)), "t")[0]
    whole = evaluations.of(ask).score[:16].tolist()
    evaluations.touch(0)
    assert evaluations.of(ask).score[:16].tolist() == whole


async def test_no_plan_is_made_where_jobs_go_on_as_planned() -> None:
    """Only an end makes room for what waits: neither a binding nor a start is followed by a plan in vain."""
    async with World() as world:
        agent = await world.agent("n1")
        first, second = await world.submit_many(2, cpu_milli=ALL)
        await world.settle()
        planned = counted(world, "ares_cycle_seconds_count")
        running, waiting = (first, second) if world.state(first).phase == "STAGING" else (second, first)
        assert (world.state(running).phase, world.state(waiting).phase, planned) == ("STAGING", "PENDING", 1)
        agent.started(agent.starts[running])
        await world.settle()
        assert (world.state(running).phase, counted(world, "ares_cycle_seconds_count")) == ("RUNNING", planned)
        agent.exited(agent.starts[running])
        await world.settle()
        assert (world.state(waiting).phase, counted(world, "ares_cycle_seconds_count")) == ("STAGING", planned + 1)
