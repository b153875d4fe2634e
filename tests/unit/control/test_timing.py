"""Timing: what is told to an agent, written in its lease and judged by the leader is one value."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ares.app.config import ConfigError, load
from ares.control.execution.enrolment import Enrolled, Enrolment
from ares.core import keys
from ares.model.link import Hello, Renew, Renewed
from ares.model.timing import DEFAULT, Timing, broken
from tests.agents import ScriptedAgent
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


# ---- longer for a while


async def _stopping(world: World, lasts_s: float) -> tuple[ScriptedAgent, str]:
    """An agent that states its terms, with a running job; its server announces that it stops."""
    agent, job = await world.running()
    agent.send(Renew(nonce=1000, dead_after_s=9.0))
    await world.settle()
    await world.one.sessions.announce(lasts_s)
    await world.settle()
    return agent, job


async def test_a_server_that_stops_makes_leases_longer_and_says_so_when_it_is_written() -> None:
    async with World() as world:
        agent, job = await _stopping(world, 20.0)
        assert [m for m in agent.received if isinstance(m, Renewed)][-1] == Renewed(nonce=0, dead_after_s=20.0)
        assert (world.one.view.leases["n1"].lease.dead_after_s, world.one.view.leases["n1"].lease.replica) == (20.0, "")
        await world.one.crash()
        await world.add_replica()
        await world.advance(19)
        assert world.state(job).phase == "RUNNING"
        await world.advance(3)
        assert "lease-lost" in world.kinds(job)


async def test_a_lease_is_short_again_once_the_agent_holds_by_that() -> None:
    async with World() as world:
        agent, job = await _stopping(world, 20.0)
        await world.one.crash()
        fresh = await world.add_replica()
        hello = Hello(info=agent.info, incarnation=agent.incarnation, alive=(agent.starts[job].ref,))
        agent.open(fresh.sessions, hello, Renew(nonce=2000, dead_after_s=20.0), renewing=False)
        await world.settle()
        # It may not have heard yet.
        assert fresh.view.leases["n1"].lease.dead_after_s == 20.0
        assert [m for m in agent.received if isinstance(m, Renewed)][-1] == Renewed(nonce=2000, dead_after_s=9.0)
        agent.send(Renew(nonce=2001, dead_after_s=20.0))
        await world.settle()
        assert fresh.view.leases["n1"].lease.dead_after_s == 20.0
        agent.send(Renew(nonce=2002, dead_after_s=9.0))
        await world.settle()
        assert fresh.view.leases["n1"].lease.dead_after_s == 9.0
        assert world.state(job).phase == "RUNNING"


async def test_an_agent_that_cannot_say_how_long_it_holds_is_not_given_longer_leases() -> None:
    async with World() as world:
        agent, _ = await world.running()
        await world.one.sessions.announce(20.0)
        await world.settle()
        assert world.one.view.leases["n1"].lease.dead_after_s == 9.0
        assert not [m for m in agent.received if isinstance(m, Renewed) and not m.nonce]


async def test_a_renewal_that_raced_an_extension_does_not_undo_it() -> None:
    """An older session of the node still had a renewal to write."""
    async with World() as world:
        agent, _ = await world.running()
        enrolment = Enrolment(world.store, world.clock, "r1")
        kv = await world.store.get(keys.lease("n1"))
        assert kv is not None
        held = Enrolled("n1", agent.incarnation, kv.mod_revision, 9.0)
        assert await enrolment.renew(replace(held, dead_after_s=20.0), kv.mod_revision) is not None
        assert await enrolment.renew(held, kv.mod_revision) is not None
        await world.settle()
        assert world.one.view.leases["n1"].lease.dead_after_s == 20.0


@pytest.mark.parametrize("timing", [DEFAULT, SLOW, QUICK])
def test_the_longest_lease_covers_a_restart_and_its_right_ends_before_it(timing: Timing) -> None:
    right_s = timing.longest_s * timing.self_fence_ratio
    assert right_s >= timing.renew_every_s + timing.restart_s
    assert right_s * 1.01 + timing.kill_s < timing.longest_s
    assert replace(timing, restart_s=0.0).longest_s == timing.dead_after_s
