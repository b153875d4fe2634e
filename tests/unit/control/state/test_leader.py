"""Leadership, scheduling and backoff timers: one decides, and the others' decisions bounce off."""

import asyncio
from typing import Any

import pytest

from ares.adapters.store.memory import StoreFault
from ares.control.execution.transitions import GuardFailed, JobChange, Written
from ares.core import keys
from ares.core.lifecycle.inputs import Bind
from ares.model.job import RetryPolicy
from ares.model.state import Placement
from ares.ports.store import KV, Page, Put, StoreUnavailable
from tests.world import ADMIN, ALICE, World


async def test_one_leads_at_a_time_and_another_takes_over_after_a_crash() -> None:
    async with World(replicas=3) as world:
        (first,) = world.leading()
        await world.advance(60)
        assert world.leading() == [first]
        agent = await world.agent(replica=world.replicas[2], auto=True)
        await first.crash()
        job = await world.submit(replica=world.replicas[2])
        await world.advance(3)
        assert world.state(job).phase == "PENDING"
        await world.until(world.leading, within_s=6)
        assert world.leading() != [first]
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        assert agent.connected


async def test_a_leader_that_leaves_in_order_is_replaced_at_once() -> None:
    async with World(replicas=2) as world:
        (first,) = world.leading()
        await first.stop()
        await world.advance(0.2)
        (second,) = world.leading()
        assert second is not first


async def test_a_leader_that_cannot_reach_the_store_stops_deciding_before_its_lease_ends() -> None:
    async with World(replicas=2) as world:
        (first,) = world.leading()
        first.wire.up = False
        await world.advance(4.9)
        assert not first.leader.leading
        await world.advance(2)
        (second,) = world.leading()
        first.wire.up = True
        await world.advance(20)
        assert world.leading() == [second]


async def test_bindings_of_a_deposed_leader_are_refused() -> None:
    async with World(replicas=2) as world:
        (old,) = world.leading()
        await world.agent()
        # Nobody else will place this one.
        job = await world.submit(cpu_milli=64_000)
        kv = await world.store.get(keys.leader("local"))
        assert kv is not None
        await world.store.revoke_lease(kv.lease)
        # The old leader has not noticed yet when the other one is elected.
        new = world.two
        await world.until(lambda: new.guards, within_s=1)
        assert old.leader.leading
        place = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=64)
        for guard, expected in ((old.guards[0], GuardFailed), (new.guards[-1], Written)):
            binding = JobChange(job, "alpha", (Bind(placements=(place,)),), (guard,))
            (outcome,) = await old.transitions.apply([binding])
            assert type(outcome) is expected
        assert len(world.audit.grants[job]) == 1


async def test_an_embedded_store_has_one_process_so_a_restart_leads_at_once() -> None:
    async with World(exclusive=True) as world:
        await world.one.crash()
        fresh = await world.add_replica()
        await world.advance(0.5)
        assert fresh.leader.leading


async def test_a_submitted_job_is_bound_without_any_time_passing() -> None:
    async with World(replicas=2) as world:
        await world.agent()
        await world.advance(10)
        before = world.clock.monotonic()
        job = await world.submit(replica=world.two)
        await world.settle()
        assert world.state(job).phase == "STAGING"
        assert world.clock.monotonic() == before


async def test_a_renewal_wakes_the_scheduler_only_when_the_node_was_not_ready() -> None:
    async with World(scheduling=False) as world:
        agent, changed = await world.agent(), world.one.planner.changed
        changed.clear()
        agent.renew()
        await world.settle()
        assert not changed.is_set()
        await agent.drop()
        await world.settle()
        assert changed.is_set()
        changed.clear()
        await agent.connect(world.one.sessions)
        assert changed.is_set()


async def test_freed_resources_go_to_the_next_in_line_by_priority_and_then_by_submission() -> None:
    async with World() as world:
        agent, job = await world.running(cpu_milli=4000)
        low = await world.submit(cpu_milli=4000, priority="LOW")
        first = await world.submit(cpu_milli=4000)
        await world.advance(0.1)
        second = await world.submit(cpu_milli=4000)
        high = await world.submit(cpu_milli=4000, priority="HIGH")
        positions = [await world.one.jobs.get(ALICE, each) for each in (high, first, second, low)]
        assert [detail and detail.queue_position for detail in positions] == [0, 1, 2, 3]
        ran: list[str] = []
        while len(ran) < 4:
            agent.exited(agent.starts[job])
            await world.settle()
            (job,) = [each for each, state in world.audit.states.items() if state.phase == "STAGING"]
            ran.append(job)
        assert ran == [high, first, second, low]


async def test_a_cordoned_node_gets_nothing_new_and_keeps_what_it_has() -> None:
    async with World() as world:
        agent, job = await world.running()
        view = await world.one.nodes.cordon(ADMIN, "n1", True)
        assert view is not None
        assert view.cordoned
        waiting = await world.submit()
        await world.advance(2)
        assert world.state(waiting).phase == "PENDING"
        await agent.connect(world.one.sessions, alive=(agent.starts[job].ref,))
        await world.advance(2)
        assert (world.state(job).phase, world.state(waiting).phase) == ("RUNNING", "PENDING")
        await world.one.nodes.cordon(ADMIN, "n1", False)
        await world.settle()
        assert world.state(waiting).phase == "STAGING"
        assert await world.one.nodes.cordon(ADMIN, "n9", True) is None


async def test_a_silent_node_gets_nothing_new_however_busy_the_others_are() -> None:
    """Changes arrive all the time, so the idle look at the clock never comes."""
    async with World() as world:
        dead = await world.agent("n1", cpu_milli=64_000)
        alive = await world.agent("n2", auto=True, cpu_milli=1000)
        await dead.drop()
        for _ in range(60):
            await world.submit(cpu_milli=1000)
            await world.advance(0.25)
        late = {
            job: [event for event in events if event.kind == "bound" and event.data["node"] == "n1"]
            for job, events in world.audit.events.items()
        }
        assert alive.connected
        died_at = 1_700_000_000.0 + 1_000.0
        assert [e.at for events in late.values() for e in events if e.at > died_at + 9.0] == []


async def test_a_node_that_went_is_no_capacity_and_one_that_comes_back_is() -> None:
    async with World() as world:
        agent = await world.agent()
        await agent.drop()
        await world.advance(12)
        job = await world.submit()
        await world.advance(5)
        assert world.state(job).phase == "PENDING"
        await agent.connect(world.one.sessions)
        assert world.state(job).phase == "STAGING"


async def test_a_refused_binding_is_seen_again() -> None:
    async with World() as world:
        await world.agent()
        world.faults(None, "refused", "request_lost", "reply_lost")
        job = await world.submit()
        await world.until(lambda: world.state(job).phase == "STAGING", within_s=2)
        assert len(world.audit.grants[job]) == 1


async def test_a_thousand_jobs_on_three_nodes_never_take_more_than_there_is() -> None:
    """The auditor adds up every commit by itself."""
    async with World(replicas=2) as world:
        agents = [
            await world.agent(f"n{n}", replica=world.replicas[n % 2], auto=True, cpu_milli=2500, gpus=2)
            for n in range(3)
        ]
        jobs: list[str] = []
        for gpus, cpu_milli in ((0, 1000), (1, 500), (2, 1500), (0, 700)):
            jobs += await world.submit_many(250, gpus=gpus, cpu_milli=cpu_milli)
        await world.until(lambda: all(world.state(job).phase == "SUCCEEDED" for job in jobs))
        assert {len(grants) for grants in world.audit.grants.values()} == {1}
        assert all(len(agent.starts) > 100 for agent in agents)
        nodes = await world.two.nodes.nodes(ADMIN)
        assert [(n.cpu_milli_free, n.gpus_free, n.running) for n in nodes] == [(2500, 2, 0)] * 3


async def test_a_new_leader_whose_view_lags_gives_no_place_away_twice() -> None:
    async with World(replicas=2) as world:
        await world.agent(cpu_milli=1000)
        world.faults(None, "refused")
        known = await world.submit()
        await world.settle()
        # The other replica sees a job that waits and a node that is free, and then nothing more.
        world.two.wire.hold_watch()
        urgent = await world.submit(priority="CRITICAL")
        await world.advance(0.5)
        assert world.state(urgent).phase == "STAGING"
        await world.one.crash()
        await world.until(lambda: world.two.leader.leading, within_s=12)
        await world.advance(0.5)
        assert world.state(known).phase == "PENDING"
        world.two.wire.release_watch()
        await world.settle()
        assert world.audit.grants.keys() == {urgent}


@pytest.mark.parametrize("fault", [StoreFault("reply_lost"), StoreFault("late", 0.01)])
async def test_a_binding_whose_answer_was_lost_holds_its_place_at_once(fault: StoreFault) -> None:
    """The watch lags, so nothing but its own reading tells the leader that the binding landed."""
    async with World() as world:
        await world.agent(cpu_milli=1000)
        job = await world.submit(cpu_milli=64_000)
        await world.settle()
        world.one.wire.hold_watch()
        world.faults(fault, StoreFault("delayed", 0.02))
        place = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=64)
        call = asyncio.create_task(world.one.transitions.apply([JobChange(job, "alpha", (Bind(placements=(place,)),))]))
        await world.advance(0.1)
        assert isinstance(call.result()[0], Written)
        free = world.one.planner.cluster.free("n1")
        assert free is not None
        assert free.cpu_milli == 0
        world.one.wire.release_watch()


async def test_a_binding_nobody_can_find_out_about_ends_the_reign() -> None:
    """It may still land: under the old leader's fence, which no longer counts."""
    async with World() as world:
        await world.agent(cpu_milli=1000)
        world.faults(None, StoreFault("late", 3.0))
        job = await world.submit()
        reading = world.one.wire.get

        async def away(key: str) -> KV | None:
            if key.startswith(keys.STATE):
                raise StoreUnavailable("gone for a moment")
            return await reading(key)

        world.one.wire.get = away
        await world.advance(0.05)
        world.one.wire.get = reading
        await world.until(lambda: len(world.one.guards) == 2, within_s=2)
        await world.advance(5)
        assert len(world.audit.grants[job]) == 1
        assert world.one.leader.leading


async def test_a_relist_does_not_forget_a_grant_made_while_it_was_read() -> None:
    async with World() as world:
        await world.agent(cpu_milli=1000)
        await world.submit(cpu_milli=64_000)
        small = await world.submit(cpu_milli=64_000)
        await world.settle()
        read, inner = asyncio.Event(), world.one.wire.range

        async def slow(prefix: str, **rest: int) -> Page:
            page = await inner(prefix, **rest)  # type: ignore[arg-type]
            await read.wait()
            return page

        world.one.wire.range = slow  # type: ignore[method-assign,assignment]
        world.one.wire.break_watch()
        await world.store.txn([], [Put("/poke", b"")])
        await world.advance(0.3)
        # The states are read; the grant that follows is known to this process alone, until the watch runs again.
        place = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=64)
        await world.one.transitions.apply([JobChange(small, "alpha", (Bind(placements=(place,)),))])
        world.one.wire.hold_watch()
        read.set()
        await world.settle()
        assert world.one.view.entries[small].state.phase == "STAGING"
        free = world.one.planner.cluster.free("n1")
        assert free is not None
        assert free.cpu_milli == 0
        world.one.wire.release_watch()


# ---- backoff


async def _failed_once(world: World, **changes: Any) -> str:
    agent, job = await world.running(retry=RetryPolicy(base_s=100.0), **changes)
    world.rng.fixed = 0.5
    agent.exited(agent.starts[job], 1)
    await world.settle()
    assert (world.state(job).phase, world.state(job).retry_delay_s) == ("RETRYING", 50.25)
    return job


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
async def test_a_wall_clock_that_jumps_changes_no_backoff(jump_s: float) -> None:
    async with World() as world:
        job = await _failed_once(world)
        world.clock.jump_wall(jump_s)
        await world.advance(50.1)
        assert world.state(job).phase == "RETRYING"
        await world.advance(0.3)
        assert world.state(job).phase == "STAGING"


async def test_a_new_leader_waits_the_whole_backoff_again_and_no_more() -> None:
    async with World(replicas=2) as world:
        job = await _failed_once(world)
        await world.advance(30)
        await world.one.stop()
        await world.until(lambda: world.two.leader.leading)
        await world.advance(48)
        assert world.state(job).phase == "RETRYING"
        await world.advance(4)
        assert world.kinds(job)[-1] in ("requeued", "bound")


async def test_followers_keep_no_timers() -> None:
    async with World(replicas=2) as world:
        await _failed_once(world)
        assert len(world.one.requeue._due) == 1
        assert world.two.requeue._due == []


async def test_a_store_that_is_away_when_the_backoff_ends_delays_it_only() -> None:
    async with World() as world:
        job = await _failed_once(world)
        await world.advance(49)
        world.faults("refused", "request_lost")
        await world.advance(60)
        assert world.kinds(job).count("requeued") == 1
