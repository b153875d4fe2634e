"""Agents' streams: commands are repeated until heard, reports take effect once, nothing is freed too early."""

import asyncio

import msgspec
import pytest

from ares.adapters.store.memory import StoreFault
from ares.control.execution.enrolment import SessionRefused
from ares.core import keys
from ares.model.job import RetryPolicy
from ares.model.link import AttemptRef, Hello, Progress
from ares.model.state import Fence, JobState
from tests.agents import ScriptedAgent
from tests.world import ALICE, BOB, World


async def test_an_attempt_is_offered_once_per_session_and_again_after_a_reconnect() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent()
        job = await world.submit()
        await world.advance(3)
        assert len(agent.all_starts(job)) == 1
        await agent.connect(world.two.sessions)
        assert agent.incarnation == 1
        assert len(agent.all_starts(job)) == 1
        agent.exited(agent.starts[job])
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"


async def test_many_large_specifications_are_spread_over_frames_that_the_stream_can_carry() -> None:
    async with World() as world:
        agent = await world.agent()
        jobs = await world.submit_many(300, env={"DATA": "x" * 60_000}, cpu_milli=1, memory_mib=1)
        await world.advance(2)
        # All at once: what was offered and not reported is offered again.
        await agent.connect(world.one.sessions)
        assert agent.starts.keys() == set(jobs)
        assert max(len(msgspec.msgpack.encode(frame)) for frame in agent.frames) < 16 * 1024 * 1024


async def test_reports_that_come_twice_or_on_another_replica_are_acknowledged_and_change_nothing() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent()
        job = await world.submit()
        await world.settle()
        start = agent.starts[job]
        reports = [agent.start_report(start), agent.exit_report(start, value=b'{"loss": 1}')]
        agent.send(*reports, *reports)
        agent.send(*reports)
        await world.settle()
        assert sorted(agent.acked) == [1, 1, 1, 2, 2, 2]
        seq = world.state(job).seq
        await agent.connect(world.two.sessions)
        agent.send(*reports)
        await world.settle()
        assert sorted(agent.acked) == [1, 2]
        assert (world.state(job).phase, world.state(job).seq) == ("SUCCEEDED", seq)
        assert world.audit.results[job].value == {"loss": 1}


async def test_an_end_that_arrives_before_its_start_counts_and_the_start_does_not() -> None:
    async with World() as world:
        agent = await world.agent()
        job = await world.submit()
        await world.settle()
        start = agent.starts[job]
        late = agent.start_report(start)
        agent.exited(start)
        await world.settle()
        agent.send(late)
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        assert world.kinds(job) == ["submitted", "bound", "succeeded"]
        assert late.number in agent.acked


async def test_reports_for_what_is_not_on_this_node_are_acknowledged_without_effect() -> None:
    async with World() as world:
        owner, job = await world.running()
        stranger = await world.agent("n2")
        start = owner.starts[job]
        foreign = AttemptRef(job=job, tenant="beta", fence=start.ref.fence)
        stale = AttemptRef(job=job, tenant="alpha", fence=Fence(epoch=1, counter=99))
        number = [stranger.exited(start).number, stranger.fenced(start.ref).number]
        stranger.log(start, 0, b"not mine")
        stranger.progress(start, 0.9)
        mine = [owner.fenced(foreign).number, owner.fenced(stale).number]
        await world.advance(2)
        assert stranger.acked == number
        assert owner.acked[-2:] == mine
        assert world.state(job).phase == "RUNNING"
        assert world.logs.size("alpha", job, 1, 0) == 0
        detail = await world.one.jobs.get(ALICE, job)
        assert detail is not None
        assert detail.progress is None


async def test_a_superseded_incarnation_is_refused_and_a_wrong_name_too() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent()
        twin = ScriptedAgent(world.clock, "n1")
        world.agents.append(twin)
        await twin.connect(world.two.sessions)
        assert (agent.incarnation, twin.incarnation) == (1, 2)
        await agent.connect(world.one.sessions)
        assert isinstance(agent.refused, SessionRefused)
        assert "superseded" in str(agent.refused)
        assert not agent.connected


async def test_a_renewal_is_answered_only_when_durable_and_a_lost_lease_ends_the_session() -> None:
    async with World(replicas=2) as world:
        agent = await world.agent(renewing=False)
        world.faults(StoreFault("delayed", 0.5))
        nonce = agent.renew()
        await world.advance(0.4)
        assert agent.renewed == []
        await world.advance(0.2)
        assert agent.renewed == [nonce]
        elsewhere = ScriptedAgent(world.clock, "n1")
        elsewhere.incarnation = 1
        world.agents.append(elsewhere)
        await elsewhere.connect(world.two.sessions, renewing=False)
        agent.renew()
        await world.settle()
        assert not agent.connected
        assert agent.renewed == [nonce]


@pytest.mark.parametrize("fault", ["refused", "request_lost", "reply_lost"])
async def test_a_store_that_stumbles_over_a_renewal_delays_it_only(fault: str) -> None:
    """The next renewal would come too late for the agent's right to run."""
    async with World() as world:
        agent = await world.agent(renewing=False)
        world.faults(fault)
        nonce = agent.renew()
        await world.advance(1)
        assert agent.renewed == [nonce]


async def test_cancel_frees_resources_only_when_the_processes_are_gone() -> None:
    async with World() as world:
        agent, job = await world.running(cpu_milli=4000, grace_s=7.0)
        waiting = await world.submit(cpu_milli=4000)
        state = await world.one.jobs.cancel(ALICE, job, "enough")
        assert isinstance(state, JobState)
        assert (state.phase, state.lingering) == ("CANCELLED", True)
        await world.advance(3)
        (stop,) = agent.stops
        assert (stop.ref, stop.grace_s) == (agent.starts[job].ref, 7.0)
        assert world.state(waiting).phase == "PENDING"
        agent.fenced(stop.ref)
        await world.settle()
        assert world.state(job).lingering is False
        assert world.state(waiting).phase == "STAGING"
        assert world.kinds(job)[-2:] == ["cancelled", "released"]


async def test_a_cancelled_attempt_that_ends_by_itself_is_released_too() -> None:
    async with World() as world:
        agent, job = await world.running()
        await world.one.jobs.cancel(ALICE, job)
        agent.exited(agent.starts[job])
        await world.settle()
        assert (world.state(job).phase, world.state(job).lingering) == ("CANCELLED", False)
        assert job not in world.audit.results


async def test_an_end_that_races_with_a_cancel_elsewhere_still_releases() -> None:
    """The agent's replica has not seen the cancel when it takes the report."""
    async with World(replicas=2) as world:
        agent, job = await world.running(replica=world.two)
        world.two.wire.hold_watch()
        await world.one.jobs.cancel(ALICE, job)
        report = agent.exited(agent.starts[job])
        await world.settle()
        assert report.number in agent.acked
        world.two.wire.release_watch()
        await world.advance(1)
        assert (world.state(job).phase, world.state(job).lingering) == ("CANCELLED", False)


async def test_a_cancel_that_overtakes_the_binding_on_the_agents_replica_still_releases() -> None:
    """The replica learns of its own cancel before its watch shows the binding it revoked."""
    async with World(replicas=2) as world:
        agent = await world.agent(replica=world.two)
        world.faults(None, StoreFault("delayed", 1.0), StoreFault("delayed", 1.5))
        job = await world.submit()
        await world.settle()
        # The binding is on its way; the cancel is decided from a view without it, and written after it.
        world.two.wire.hold_watch()
        cancel = asyncio.create_task(world.two.jobs.cancel(ALICE, job))
        await world.advance(3)
        await cancel
        assert (world.state(job).phase, world.state(job).lingering) == ("CANCELLED", True)
        world.two.wire.release_watch()
        await world.settle()
        for stop in agent.stops:
            agent.fenced(stop.ref)
        await world.settle()
        assert world.state(job).lingering is False


async def test_an_agent_that_comes_back_with_the_cancelled_attempt_alive_keeps_its_resources_held() -> None:
    async with World() as world:
        agent, job = await world.running(cpu_milli=4000)
        ref = agent.starts[job].ref
        await agent.drop()
        await world.one.jobs.cancel(ALICE, job)
        await agent.connect(world.one.sessions, alive=(ref,))
        assert agent.welcome.keep == ()
        await world.advance(2)
        assert world.state(job).lingering is True
        agent.fenced(ref)
        await world.settle()
        assert world.state(job).lingering is False


async def test_an_agent_that_comes_back_without_the_cancelled_attempt_releases_it() -> None:
    async with World() as world:
        agent, job = await world.running()
        await agent.drop()
        await world.one.jobs.cancel(ALICE, job)
        assert world.state(job).lingering is True
        await agent.connect(world.one.sessions)
        assert world.state(job).lingering is False
        assert agent.stops == []


async def test_a_reconnect_to_a_replica_that_lags_keeps_what_runs_and_loses_no_report() -> None:
    async with World(replicas=2) as world:
        world.two.wire.hold_watch()
        agent, job = await world.running(replica=world.one)
        start = agent.starts[job]
        await agent.drop()
        hello = Hello(info=agent.info, incarnation=1, alive=(start.ref,))
        agent.open(world.two.sessions, hello, agent.exit_report(start))
        await world.advance(0.1)
        world.two.wire.release_watch()
        await world.settle()
        assert agent.welcome.keep == (start.ref,)
        assert agent.all_starts(job) == []
        assert world.state(job).phase == "SUCCEEDED"


async def test_attempts_taken_away_while_the_view_was_cut_off_are_stopped_after_the_relist() -> None:
    async with World(replicas=2) as world:
        agent, job = await world.running(replica=world.two)
        other = await world.submit()
        await world.settle()
        assert other in agent.starts
        world.two.wire.hold_watch()
        await world.one.jobs.cancel(ALICE, job)
        world.store.compact()
        world.two.wire.break_watch()
        await world.advance(1)
        assert [stop.ref.job for stop in agent.stops] == [job]
        assert world.state(job).lingering is True
        await world.advance(1)
        agent.fenced(agent.stops[0].ref)
        await world.settle()
        assert world.state(job).lingering is False
        assert len(agent.all_starts(other)) == 1


async def test_a_relist_during_the_grace_period_does_not_release_early() -> None:
    async with World() as world:
        agent, job = await world.running()
        await world.one.jobs.cancel(ALICE, job)
        await world.settle()
        assert len(agent.stops) == 1
        await _relist(world)
        assert world.state(job).lingering is True
        assert len(agent.stops) == 1


async def _relist(world: World) -> None:
    """Makes the first replica start over from a list, without having missed anything."""
    world.one.wire.hold_watch()
    await world.submit(who=BOB, cpu_milli=1_000_000)
    world.store.compact()
    world.one.wire.break_watch()
    await world.advance(1)


async def test_an_attempt_whose_end_was_reported_is_not_stopped() -> None:
    async with World() as world:
        agent, job = await world.running()
        agent.exited(agent.starts[job], 1)
        await world.settle()
        assert world.state(job).phase == "RETRYING"
        assert agent.stops == []


async def test_the_last_attempt_taken_from_a_silent_agent_is_stopped_as_well() -> None:
    """The job ends FAILED; the stream is still open and its process may still run."""
    async with World() as world:
        agent, job = await world.running(retry=RetryPolicy(class_limits={"node-lost": 0}))
        await agent.silent()
        await world.advance(10)
        assert world.state(job).phase == "FAILED"
        assert [stop.ref.job for stop in agent.stops] == [job]


async def test_a_report_nobody_can_read_fails_the_job_and_not_the_session() -> None:
    async with World() as world:
        agent = await world.agent()
        bad, huge, good = await world.submit_many(3)
        await world.settle()
        agent.exited(agent.starts[bad], value=b"{not json")
        agent.exited(agent.starts[huge], value=b'"' + b"x" * 2_000_000 + b'"')
        agent.exited(agent.starts[good], value=b"[" * 500 + b"]" * 500)
        await world.advance(5)
        assert len(agent.acked) == 3
        assert [world.kinds(job)[2] for job in (bad, huge)] == ["retrying"] * 2
        assert world.state(good).phase == "SUCCEEDED"


async def test_many_large_results_at_once_are_all_committed() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=64_000)
        jobs = await world.submit_many(40)
        await world.settle()
        value = b'"' + b"x" * 65_000 + b'"'
        agent.send(*(agent.exit_report(agent.starts[job], value=value) for job in jobs))
        await world.settle()
        assert {world.state(job).phase for job in jobs} == {"SUCCEEDED"}
        assert len(agent.acked) == 40


async def test_reports_survive_a_store_that_is_away() -> None:
    async with World() as world:
        agent, job = await world.running()
        world.one.wire.up = False
        report = agent.exited(agent.starts[job])
        await world.advance(1)
        assert report.number not in agent.acked
        world.one.wire.up = True
        await world.advance(1)
        assert report.number in agent.acked
        assert world.state(job).phase == "SUCCEEDED"


async def test_logs_with_gaps_and_repeats_come_out_whole() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.log(start, 0, b"one\n")
        agent.log(start, 8, b"three\n")
        agent.log(start, 0, b"one\ntwo\n")
        agent.log(start, 2, b"e\ntwo\nthree\n")
        await world.settle()
        assert agent.log_acks == [4, 4, 8, 14]
        piece = await world.one.logs.read(ALICE, job, attempt=None, rank=0, offset=4, limit=100)
        assert piece is not None
        assert (piece.data, piece.size, piece.complete) == (b"two\nthree\n", 14, False)
        assert await world.one.logs.tail_offset(ALICE, job, 1, 0, 2) == 4
        assert await world.one.logs.read(BOB, job, attempt=None, rank=0, offset=0, limit=9) is None
        agent.exited(start)
        await world.settle()
        end = await world.one.logs.read(ALICE, job, attempt=1, rank=0, offset=14, limit=9)
        assert end is not None
        assert end.complete


async def test_progress_is_the_newest_and_goes_with_the_job() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        for fraction in (0.1, 0.2, 0.3):
            agent.progress(start, fraction)
        await world.advance(2)
        detail = await world.one.jobs.get(ALICE, job)
        assert detail is not None
        assert detail.progress is not None
        assert detail.progress.fraction == 0.3
        agent.send(Progress(ref=start.ref, rank=0, fraction=0.4), agent.exit_report(start))
        await world.advance(2)
        assert await world.store.get(keys.progress("alpha", job)) is None


async def test_a_renewal_in_time_does_not_wait_for_a_view_that_lags() -> None:
    async with World(replicas=2) as world:
        agent, job = await world.running(replica=world.two)
        world.two.wire.hold_watch()
        for _ in range(3):
            await world.advance(4.5)
            assert agent.renewed, "its right to run would end, and nothing is wrong with it"
            agent.received.clear()
        assert world.state(job).phase == "RUNNING"


async def test_an_agent_that_was_silent_too_long_hears_of_its_losses_before_it_may_run_again() -> None:
    async with World(replicas=2, scheduling=False) as world:
        assert world.one.leader.leading
        agent = await world.agent(replica=world.two, renewing=False)
        agent.renew()
        await world.settle()
        # The agent's replica is cut off; the leader grants the node an attempt and then gives it up.
        world.two.wire.hold_watch()
        world.two.wire.up = False
        job = await world.submit()
        await world.bind(job, "n1")
        await world.until(lambda: world.state(job).phase == "RETRYING", within_s=15)
        nonce = agent.renew()
        world.two.wire.up = True
        await world.advance(1)
        assert nonce not in agent.renewed
        world.two.wire.release_watch()
        await world.advance(1)
        assert [type(message).__name__ for message in agent.received][-3:] == ["Start", "Stop", "Renewed"]
        assert agent.renewed[-1] == nonce
