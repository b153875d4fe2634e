"""GPUs that are held and not used: told first, stopped only where that is asked for, and few at a time."""

from collections.abc import Sequence

import pytest

from ares.control.execution.transitions import JobChange, Outcome
from ares.control.telemetry.gpu_readings import GpuLook
from ares.control.telemetry.idle_watch import BY, IdleWatch
from ares.core.idle import GpuUse, due, unused
from ares.core.lifecycle.inputs import LeaseLost
from ares.model.profile import IdlePolicy, Profile
from tests.world import ADMIN, World

IDLE, BUSY = GpuLook(0.01, 64 << 20, 0.0), GpuLook(0.9, 512 << 20, 0.0)


def test_a_gpu_that_is_full_counts_as_used_and_no_reading_says_nothing() -> None:
    policy = IdlePolicy()
    assert unused(policy, [GpuUse(0.01, 0.1)])
    assert not unused(policy, [GpuUse(0.01, 0.1), GpuUse(0.5, 0.1)])
    assert not unused(policy, [GpuUse(0.0, 0.95)])
    assert not unused(policy, [])
    assert due(policy, ran_s=300.0, idle_s=3600.0, told_s=None) == ""
    assert due(policy, ran_s=3600.0, idle_s=600.0, told_s=None) == ""
    assert due(policy, ran_s=3600.0, idle_s=1e6, told_s=None) == "tell"
    assert due(policy, ran_s=3600.0, idle_s=1e6, told_s=1e6) == ""
    assert due(IdlePolicy(stop_after_s=600.0), ran_s=3600.0, idle_s=1e6, told_s=None) == "tell"
    assert due(IdlePolicy(stop_after_s=600.0), ran_s=3600.0, idle_s=1e6, told_s=599.0) == ""
    assert due(IdlePolicy(stop_after_s=600.0), ran_s=3600.0, idle_s=1500.0, told_s=600.0) == "stop"


async def _held(world: World, jobs: int) -> tuple[IdleWatch, list[str]]:
    one = world.one
    agent = await world.agent("n1", gpus=4)
    found: list[str] = []
    for gpu in range(jobs):
        job = await world.submit(gpus=1)
        await world.bind(job, "n1", gpus=(gpu,))
        agent.started(agent.starts[job])
        await world.settle()
        found.append(job)
    return IdleWatch(one.view, one.gpu_readings, one.alerts, one.transitions, world.clock, one.telemetry), found


async def _looks(watch: IdleWatch, world: World, seconds: float) -> None:
    """Two looks, so long apart by all clocks."""
    await watch.look()
    await world.advance(seconds)
    await watch.look()
    await world.settle()


def _kinds(world: World) -> list[str]:
    return [f"{alert.kind} {alert.subject}" for alert in world.one.view.kept.alerts.values()]


async def test_an_idle_job_is_told_once_and_goes_on() -> None:
    async with World(scheduling=False) as world:
        watch, (idle, busy) = await _held(world, 2)
        world.one.gpu_readings.known = {("n1", 0): IDLE, ("n1", 1): BUSY}
        await _looks(watch, world, 600.0)
        assert _kinds(world) == []
        await _looks(watch, world, 400.0)
        assert _kinds(world) == [f"gpu-idle {idle}"]
        (alert,) = world.one.view.kept.alerts.values()
        assert (alert.tenant, alert.count, alert.numbers["gpus"]) == ("alpha", 1, 1.0)
        await _looks(watch, world, 4000.0)
        assert [world.state(job).phase for job in (idle, busy)] == ["RUNNING", "RUNNING"]
        # It computes again: the time begins anew.
        world.one.gpu_readings.known = {("n1", 0): BUSY, ("n1", 1): BUSY}
        await watch.look()
        world.one.gpu_readings.known = {("n1", 0): IDLE, ("n1", 1): BUSY}
        await _looks(watch, world, 600.0)
        (alert,) = world.one.view.kept.alerts.values()
        assert alert.count == 1


async def test_where_the_profile_asks_for_it_few_are_stopped_and_after_they_were_told() -> None:
    async with World(scheduling=False) as world:
        policy = IdlePolicy(stop_after_s=900.0, stops_per_hour=1)
        await world.one.profiles.put(ADMIN, Profile(idle=policy))
        watch, jobs = await _held(world, 3)
        world.one.gpu_readings.known = {("n1", gpu): IDLE for gpu in range(3)}
        await _looks(watch, world, 1000.0)
        assert sorted(_kinds(world)) == sorted(f"gpu-idle {job}" for job in jobs)
        assert all(world.state(job).phase == "RUNNING" for job in jobs)
        await world.advance(900.0)
        await watch.look()
        stopped = [job for job in jobs if world.state(job).phase == "CANCELLED"]
        assert len(stopped) == 1
        assert "without using them" in world.state(stopped[0]).reason
        assert BY in {event.by for event in world.audit.events[stopped[0]]}


async def test_no_job_is_stopped_in_the_moment_it_is_told_however_long_it_was_idle() -> None:
    async with World(scheduling=False) as world:
        watch, (idle,) = await _held(world, 1)
        world.one.gpu_readings.known = {("n1", 0): IDLE}
        await _looks(watch, world, 5000.0)
        # It was told when jobs were not stopped: now it is told that it is going to be.
        await world.one.profiles.put(ADMIN, Profile(idle=IdlePolicy(stop_after_s=900.0)))
        await world.advance(30.0)
        await watch.look()
        await world.settle()
        (alert,) = world.one.view.kept.alerts.values()
        assert "it is stopped in 15 min" in alert.text
        assert world.state(idle).phase == "RUNNING"
        await _looks(watch, world, 900.0)
        assert world.state(idle).phase == "CANCELLED"


async def test_an_attempt_that_was_not_looked_at_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(scheduling=False) as world:
        await world.one.profiles.put(ADMIN, Profile(idle=IdlePolicy(stop_after_s=900.0)))
        watch, jobs = await _held(world, 2)
        world.one.gpu_readings.known = {("n1", gpu): IDLE for gpu in range(2)}
        await _looks(watch, world, 1000.0)
        await world.advance(900.0)
        apply, stopped = world.one.transitions.apply, list[str]()

        async def loses(changes: Sequence[JobChange]) -> list[Outcome]:
            """While the first is stopped, the other loses its attempt."""
            if not stopped:
                stopped.append(changes[0].job)
                other = next(job for job in jobs if job not in stopped)
                await world.apply(other, LeaseLost(fence=world.state(other).fence, reason="it restarted"))
            return await apply(changes)

        monkeypatch.setattr(world.one.transitions, "apply", loses)
        await watch.look()
        assert len(stopped) == 1
        assert sorted(world.state(job).phase == "CANCELLED" for job in jobs) == [False, True]
