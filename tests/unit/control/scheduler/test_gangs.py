"""Attempts of several ranks, in real services with scripted agents: together or not at all, and nothing freed early."""

from typing import Any

from ares.control.execution.transitions import Written
from ares.core.lifecycle.inputs import RanksResized
from ares.core.refusal import Refusal
from ares.model.job import Gang, RetryPolicy
from ares.model.state import JobState
from tests.agents import ScriptedAgent
from tests.world import ALICE, World

PAIR = Gang(ranks=2)
ELASTIC = Gang(ranks=4, min_ranks=2)


async def nodes(world: World, *names: str) -> list[ScriptedAgent]:
    return [await world.agent(name, address=f"10.0.0.{n}") for n, name in enumerate(names, start=1)]


async def running(world: World, *names: str, gang: Gang, **changes: Any) -> tuple[list[ScriptedAgent], str]:
    """An agent on each different node, and a gang with one rank for each name, all started."""
    agents = await nodes(world, *dict.fromkeys(names))
    job = await world.submit(gang=gang, **changes)
    await world.bind(job, *names)
    for agent in agents:
        for start in agent.ranks(job).values():
            agent.started(start)
    await world.settle()
    assert world.state(job).phase == "RUNNING"
    return agents, job


def held(world: World, job: str) -> list[int]:
    return sorted(world.audit.alive[job])


def on(state: JobState) -> list[tuple[int, str]]:
    return [(place.rank, place.node) for place in state.placements]


# ---- starting and ending


async def test_a_gang_runs_when_all_ranks_have_started_and_everyone_knows_where_the_others_are() -> None:
    async with World(scheduling=False) as world:
        one, two = await nodes(world, "n1", "n2")
        job = await world.submit(gang=Gang(ranks=3))
        await world.bind(job, "n1", "n1", "n2")
        assert (sorted(one.ranks(job)), sorted(two.ranks(job))) == ([0, 1], [2])
        world_info = two.ranks(job)[2].world
        assert [(peer.rank, peer.node, peer.address) for peer in world_info.peers] == [
            (0, "n1", "10.0.0.1"), (1, "n1", "10.0.0.1"), (2, "n2", "10.0.0.2"),
        ]  # fmt: skip
        assert (world_info.generation, world_info.master_port) == (0, 29500)
        one.send(*(one.start_report(start) for start in one.ranks(job).values()))
        await world.settle()
        assert world.state(job).phase == "STAGING"
        two.started(two.ranks(job)[2])
        await world.settle()
        assert world.state(job).phase == "RUNNING"
        assert world.kinds(job) == ["submitted", "bound", *["rank-started"] * 3, "started"]


async def test_a_gang_succeeds_when_all_ranks_have_and_each_frees_its_place_as_it_ends() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", gang=PAIR)
        one.exited(one.ranks(job)[0], value=b'{"loss": 0.5}')
        await world.settle()
        assert (world.state(job).phase, held(world, job)) == ("RUNNING", [1])
        assert list(world.one.view.by_node["n1"]) == []
        two.exited(two.ranks(job)[1], value=b'"of rank 1"')
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        assert world.audit.results[job].value == {"loss": 0.5}
        assert world.state(job).value is None


async def test_one_failing_rank_ends_the_attempt_and_nothing_is_repeated_before_the_others_are_gone() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", gang=PAIR, grace_s=5.0)
        one.exited(one.ranks(job)[0], 3)
        await world.settle()
        assert (world.state(job).phase, two.stops) == ("RUNNING", []), "which rank failed first is not known yet"
        await world.until(lambda: world.state(job).phase != "RUNNING", within_s=5)
        state = world.state(job)
        assert (state.phase, state.lingering, held(world, job)) == ("RETRYING", True, [1])
        assert "rank 0 on n1" in state.reason
        assert one.stops == []
        assert [(stop.ranks, stop.grace_s) for stop in two.stops] == [((1,), 5.0)]
        await world.advance(400)
        assert world.state(job).phase == "RETRYING"
        two.obey()
        await world.until(lambda: world.state(job).phase == "PENDING", within_s=5)
        await world.bind(job, "n2", "n1")
        assert one.ranks(job)[1].attempt == 2


async def test_the_end_of_a_rank_that_was_being_stopped_counts_as_its_release() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", gang=PAIR, retry=RetryPolicy(limit=0))
        one.exited(one.ranks(job)[0], 1)
        await world.until(lambda: world.state(job).phase != "RUNNING", within_s=5)
        assert (world.state(job).phase, held(world, job)) == ("FAILED", [1])
        two.exited(two.ranks(job)[1])
        await world.settle()
        assert (world.state(job).phase, world.state(job).lingering, held(world, job)) == ("FAILED", False, [])
        assert world.kinds(job)[-2:] == ["failed", "released"]


async def test_a_gang_that_does_not_assemble_in_time_is_given_up_by_name() -> None:
    async with World(scheduling=False) as world:
        one, two = await nodes(world, "n1", "n2")
        job = await world.submit(gang=Gang(ranks=2, assembly_s=20.0))
        await world.bind(job, "n1", "n2")
        one.started(one.ranks(job)[0])
        await world.advance(19)
        assert world.state(job).phase == "STAGING"
        await world.advance(2)
        state = world.state(job)
        assert (state.phase, held(world, job)) == ("RETRYING", [0, 1])
        assert state.exit is not None
        assert state.exit.failure == "staging"
        assert "rank 1 on n2" in state.reason
        one.obey()
        two.obey()
        await world.until(lambda: world.state(job).phase == "PENDING", within_s=5)


async def test_a_new_leader_gives_a_gang_its_whole_time_again() -> None:
    async with World(replicas=2, scheduling=False) as world:
        agents = await nodes(world, "n1", "n2")
        job = await world.submit(gang=Gang(ranks=2, assembly_s=20.0))
        await world.bind(job, "n1", "n2")
        await world.advance(15)
        await world.one.crash()
        for agent in agents:
            await agent.connect(world.two.sessions)
        await world.until(lambda: world.two.leader.leading, within_s=10)
        await world.advance(15)
        assert world.state(job).phase == "STAGING"
        await world.advance(8)
        assert world.state(job).phase == "RETRYING"


async def test_many_ranks_of_one_node_that_report_at_once_fit_into_transactions() -> None:
    async with World(scheduling=False) as world:
        agent = await world.agent("n1", cpu_milli=100_000, memory_mib=100_000)
        job = await world.submit(gang=Gang(ranks=80))
        await world.bind(job, *["n1"] * 80)
        agent.send(*(agent.start_report(start) for start in agent.ranks(job).values()))
        await world.settle()
        assert world.state(job).phase == "RUNNING"
        agent.send(*(agent.exit_report(start) for start in agent.ranks(job).values()))
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        assert len(agent.acked) == 160


# ---- losing nodes


async def test_more_nodes_lost_at_once_than_one_transaction_compares_are_lost_in_steps() -> None:
    async with World(scheduling=False) as world:
        agents, job = await running(world, *(f"n{n}" for n in range(63)), gang=Gang(ranks=63, min_ranks=1))
        for agent in agents[1:]:
            await agent.drop()
        # So many at once are a storm, which is waited out first.
        await world.advance(22)
        state = world.state(job)
        assert (state.phase, state.generation, held(world, job)) == ("RUNNING", 2, [0])


async def test_a_lost_rank_ends_a_gang_of_fixed_size_and_the_others_are_stopped() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", "n2", gang=Gang(ranks=3))
        await two.silent()
        await world.advance(10)
        assert world.kinds(job)[-2:] == ["lease-lost", "retrying"]
        assert held(world, job) == [0]
        assert one.stopped == [(job, (0,))]
        # Its stream is open, and its processes may be: it is told as well.
        assert sorted(two.stopped) == [(job, (1,)), (job, (2,))]
        one.obey()
        await world.until(lambda: world.state(job).phase == "PENDING", within_s=15)


async def test_two_nodes_lost_in_one_look_are_one_loss() -> None:
    async with World(scheduling=False) as world:
        (_, two, three), job = await running(world, "n1", "n2", "n3", gang=Gang(ranks=3))
        await two.silent()
        await three.silent()
        await world.advance(10)
        lost = [event for event in world.audit.events[job] if event.kind == "lease-lost"]
        assert [event.data for event in lost] == [{"nodes": ["n2", "n3"], "ranks": [1, 2]}]
        assert held(world, job) == [0]


async def test_a_renewal_of_one_of_two_silent_nodes_saves_its_rank() -> None:
    async with World(scheduling=False) as world:
        (_, two, three), job = await running(world, "n1", "n2", "n3", gang=Gang(ranks=3, min_ranks=2))
        await two.silent()
        await three.silent()
        await world.advance(8.8)
        world.one.wire.hold_watch()
        # The leader cannot see this renewal, but its judgement is compared with it.
        three.renew()
        await world.advance(1)
        assert on(world.state(job)) == [(0, "n1"), (1, "n2"), (2, "n3")]
        world.one.wire.release_watch()
        await world.advance(1)
        assert on(world.state(job)) == [(0, "n1"), (2, "n3")]


async def test_a_node_that_dies_while_its_rank_lingers_releases_it() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", gang=PAIR)
        one.exited(one.ranks(job)[0], 1)
        await two.silent()
        await world.advance(8)
        assert held(world, job) == [1]
        await world.advance(2)
        assert held(world, job) == []
        await world.until(lambda: world.state(job).phase == "PENDING", within_s=5)


async def test_an_agent_that_restarts_loses_its_ranks_at_once() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", gang=PAIR)
        await two.connect(world.one.sessions, fresh=True)
        await world.advance(1)
        assert (world.state(job).phase, held(world, job)) == ("RETRYING", [0])
        assert one.stopped == [(job, (0,))]


# ---- elastic


async def test_an_elastic_gang_goes_on_without_a_lost_node_and_tells_those_that_stay() -> None:
    async with World(scheduling=False) as world:
        (one, two, three), job = await running(world, "n1", "n2", "n3", gang=ELASTIC)
        ref = two.ranks(job)[1].ref
        await two.drop()
        await world.advance(10)
        state = world.state(job)
        assert (state.phase, state.generation, on(state)) == ("RUNNING", 1, [(0, "n1"), (2, "n3")])
        assert state.fence == one.ranks(job)[0].ref.fence
        for agent in (one, three):
            (told,) = agent.resizes
            assert (told.world.generation, [peer.rank for peer in told.world.peers]) == (1, [0, 2])
            assert agent.stops == []
        # It comes back, and is told that it takes no part any more.
        await two.connect(world.one.sessions, alive=(ref,))
        assert two.welcome.keep == ()
        assert two.all_starts(job) == []


async def test_a_gang_with_too_few_ranks_left_is_repeated() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", "n2", gang=ELASTIC)
        await two.drop()
        await world.advance(10)
        assert (world.state(job).phase, held(world, job)) == ("RETRYING", [0])
        assert one.stopped == [(job, (0,))]


async def test_a_growing_gang_starts_only_what_is_new_under_the_same_fence() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", gang=ELASTIC)
        three = await world.agent("n3")
        state = world.state(job)
        places = (*state.placements, *world.places("n3", "n1", first_rank=2))
        await world.apply(job, RanksResized(fence=state.fence, placements=places, reason="n3 came"))
        assert (sorted(one.ranks(job)), sorted(two.ranks(job)), sorted(three.ranks(job))) == ([0, 3], [1], [2])
        assert [len(agent.all_starts(job)) for agent in (one, two, three)] == [2, 1, 1]
        assert [len(agent.resizes) for agent in (one, two, three)] == [1, 1, 0]
        grown = three.ranks(job)[2]
        assert (grown.ref.fence, grown.world.generation, len(grown.world.peers)) == (state.fence, 1, 4)
        three.started(grown)
        await world.settle()
        assert (world.state(job).phase, world.kinds(job)[-2:]) == ("RUNNING", ["resized", "rank-started"])


async def test_a_rank_that_is_let_go_holds_its_place_until_it_is_gone_and_its_number_is_not_given_again() -> None:
    async with World(scheduling=False) as world:
        (one, two, three), job = await running(world, "n1", "n2", "n3", gang=ELASTIC, grace_s=4.0)
        state = world.state(job)
        await world.apply(job, RanksResized(fence=state.fence, placements=state.placements[:2], reason="less"))
        assert [(stop.ranks, stop.grace_s) for stop in three.stops] == [((2,), 4.0)]
        assert (one.stops, two.stops, held(world, job)) == ([], [], [0, 1, 2])
        again = (*state.placements[:2], *world.places("n3", first_rank=2))
        refused = await world.apply(job, RanksResized(fence=state.fence, placements=again, reason="more"))
        assert isinstance(refused, Refusal)
        # The new rank is placed beside the one that is still ending.
        anew = (*state.placements[:2], *world.places("n3", first_rank=3))
        assert isinstance(
            await world.apply(job, RanksResized(fence=state.fence, placements=anew, reason="more")), Written
        )
        assert held(world, job) == [0, 1, 2, 3]
        three.exited(three.ranks(job)[2], 143)
        await world.settle()
        assert (world.state(job).phase, held(world, job)) == ("RUNNING", [0, 1, 3])


async def test_an_agent_that_comes_back_with_a_rank_that_was_let_go_is_told_again() -> None:
    async with World(scheduling=False) as world:
        (_, two), job = await running(world, "n1", "n2", "n2", gang=ELASTIC)
        ref = two.ranks(job)[1].ref
        await two.drop()
        state = world.state(job)
        await world.apply(job, RanksResized(fence=state.fence, placements=state.placements[:2], reason="less"))
        await two.connect(world.one.sessions, alive=(ref,))
        assert two.welcome.keep == (ref,)
        assert two.stopped == [(job, (2,))]
        # It may have missed that the gang changed, and commands may be repeated.
        assert [resize.world.generation for resize in two.resizes] == [1]
        assert sorted(two.ranks(job)) == [1]
        two.obey()
        await world.settle()
        assert (world.state(job).phase, held(world, job)) == ("RUNNING", [0, 1])


async def test_an_agent_that_comes_back_without_a_rank_that_was_let_go_releases_it() -> None:
    async with World(scheduling=False) as world:
        (_, _, three), job = await running(world, "n1", "n2", "n3", gang=ELASTIC)
        await three.drop()
        state = world.state(job)
        await world.apply(job, RanksResized(fence=state.fence, placements=state.placements[:2], reason="less"))
        assert held(world, job) == [0, 1, 2]
        await three.connect(world.one.sessions)
        assert held(world, job) == [0, 1]


async def test_an_agent_may_have_kept_a_rank_that_was_lost_beside_one_that_is_new() -> None:
    """Its list of what is alive names attempts, not ranks."""
    async with World(scheduling=False) as world:
        (_, _, three), job = await running(world, "n1", "n2", "n3", gang=ELASTIC)
        ref = three.ranks(job)[2].ref
        await three.drop()
        await world.advance(10)
        await three.connect(world.one.sessions)
        state = world.state(job)
        places = (*state.placements, *world.places("n3", first_rank=3))
        await world.apply(job, RanksResized(fence=state.fence, placements=places, reason="n3 is back"))
        await three.connect(world.one.sessions, alive=(ref,))
        assert three.stopped == [(job, (2,))]
        assert sorted(three.ranks(job)) == [3]
        # That it is not there any more is nothing new.
        three.obey()
        await world.settle()
        assert held(world, job) == [0, 1, 3]


async def test_a_gang_of_which_a_start_was_lost_gets_it_again() -> None:
    async with World(scheduling=False) as world:
        (one,) = await nodes(world, "n1")
        job = await world.submit(gang=PAIR)
        await world.bind(job, "n1", "n1")
        ref = one.ranks(job)[0].ref
        one.started(one.ranks(job)[0])
        await world.settle()
        # Only rank 0 was begun when the stream broke: the attempt is alive, and yet one rank is missing.
        await one.connect(world.one.sessions, alive=(ref,))
        assert sorted(one.ranks(job)) == [0, 1]
        one.started(one.ranks(job)[1])
        await world.settle()
        assert world.state(job).phase == "RUNNING"


# ---- who may say what, and what is kept of it


async def test_an_agent_speaks_only_for_the_ranks_on_its_node() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", gang=PAIR)
        mine, theirs = one.ranks(job)[0], two.ranks(job)[1]
        forged = [one.exited(theirs, 1), one.fenced(theirs.ref, rank=1), one.fenced(mine.ref, rank=7)]
        one.log(theirs, 0, b"not mine")
        await world.settle()
        assert {report.number for report in forged} <= set(one.acked)
        assert (world.state(job).phase, world.logs.size("alpha", job, 1, 1)) == ("RUNNING", 0)


async def test_each_rank_has_its_own_output_and_the_first_speaks_of_progress() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", gang=PAIR)
        one.log(one.ranks(job)[0], 0, b"zero\n")
        two.log(two.ranks(job)[1], 0, b"one\n")
        one.progress(one.ranks(job)[0], 0.25)
        two.progress(two.ranks(job)[1], 0.75)
        one.exited(one.ranks(job)[0])
        await world.advance(2)
        assert await world.one.logs.ranks(ALICE, job, None) == (0, 1)
        pieces = [await world.one.logs.read(ALICE, job, attempt=None, rank=rank, offset=0, limit=99) for rank in (0, 1)]
        shown = [(piece.data, piece.complete) for piece in pieces if piece is not None]
        assert shown == [(b"zero\n", True), (b"one\n", False)]
        assert world.one.view.progress[job].fraction == 0.25


async def test_a_cancelled_gang_is_final_at_once_and_frees_each_place_when_it_is_empty() -> None:
    async with World(scheduling=False) as world:
        (one, two), job = await running(world, "n1", "n2", gang=PAIR)
        await world.one.jobs.cancel(ALICE, job)
        await world.settle()
        assert (world.state(job).phase, held(world, job)) == ("CANCELLED", [0, 1])
        two.obey()
        await world.settle()
        assert held(world, job) == [0]
        one.obey()
        await world.settle()
        assert (world.state(job).lingering, held(world, job)) == (False, [])
