"""Timing: what is told to an agent, written in its lease and judged by the leader is one value."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ares.app.config import ConfigError, load
from ares.model.timing import DEFAULT, Timing, broken
from tests.world import World

SLOW = Timing(renew_every_s=15.0, self_fence_s=24.0, kill_s=2.0, dead_after_s=30.0)
QUICK = Timing(renew_every_s=0.9, self_fence_s=1.4, kill_s=0.2, dead_after_s=1.8, scan_every_s=0.1)


async def test_an_agent_is_told_the_timing_and_judged_by_it() -> None:
    async with World(timings=[QUICK]) as world:
        agent, job = await world.running(lease_s=1.8)
        assert (agent.welcome.renew_every_s, agent.welcome.dead_after_s) == (0.9, 1.8)
        assert agent.welcome.self_fence_ratio * agent.welcome.dead_after_s == pytest.approx(1.4)
        await agent.silent()
        await world.advance(1.5)
        assert world.state(job).phase == "RUNNING"
        await world.advance(0.5)
        assert "lease-lost" in world.kinds(job)


async def test_no_job_gets_a_lease_shorter_than_the_platforms() -> None:
    async with World(timings=[SLOW]) as world:
        agent, job = await world.running()
        await agent.silent()
        await world.advance(29)
        assert world.state(job).phase == "RUNNING"
        await world.advance(2)
        assert "lease-lost" in world.kinds(job)


async def test_a_leader_with_another_timing_goes_by_what_the_agent_was_told() -> None:
    async with World(replicas=2, timings=[DEFAULT, SLOW]) as world:
        (leader,) = world.leading()
        assert leader is world.one
        agent = await world.agent("n1")
        await agent.connect(world.two.sessions, fresh=True)
        job = await world.submit()
        await world.until(lambda: job in agent.starts)
        agent.started(agent.starts[job])
        await world.settle()
        await agent.silent()
        # Its slot may run the attempt for 24 s.
        await world.advance(29)
        assert world.state(job).phase == "RUNNING"
        await world.advance(2)
        assert "lease-lost" in world.kinds(job)


async def test_what_runs_keeps_the_longer_lease_when_the_timing_is_shortened() -> None:
    async with World(replicas=2, timings=[DEFAULT, SLOW]) as world:
        agent = await world.agent("n1")
        await agent.connect(world.two.sessions, fresh=True)
        # The same process, at a replica that gives shorter leases: its attempts may hold a right for the longer one.
        await agent.connect(world.one.sessions)
        assert agent.welcome.dead_after_s == 30.0
        await world.advance(6)
        assert world.one.view.leases["n1"].lease.dead_after_s == 30.0
        await agent.connect(world.one.sessions, fresh=True)
        assert agent.welcome.dead_after_s == 9.0


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"self_fence_s": 8.0}, "dead_after_s = 9"),
        ({"kill_s": 2.0}, "dead_after_s = 9"),
        ({"renew_every_s": 5.0}, "renew_every_s = 5"),
        ({"scan_every_s": 3.0}, "scan_every_s = 3"),
        ({"leader_ttl_s": 4.0}, "leader_ttl_s = 4"),
    ],
)
def test_timing_that_breaks_a_promise_is_refused(tmp_path: Path, wrong: dict[str, float], named: str) -> None:
    assert named in broken(replace(DEFAULT, **wrong))
    flags = {f"timing.{key}": str(value) for key, value in wrong.items()}
    with pytest.raises(ConfigError, match="timing from command line") as refused:
        load(None, flags, {"ARES_HOME": str(tmp_path)})
    assert named in str(refused.value)


def test_timing_comes_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "ares.toml").write_text(
        "[timing]\nrenew_every_s = 15\nself_fence_s = 24\nkill_s = 2\ndead_after_s = 30\n"
    )
    assert load(None, {}, {"ARES_HOME": str(tmp_path)}).timing == SLOW
    assert not any(broken(one) for one in (DEFAULT, SLOW, QUICK))
