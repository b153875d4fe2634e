"""Storms of retries: a floor under every delay, a cap for each tenant, a breaker that says so."""

from ares.control.scheduler.retries import RETRIES_PER_MINUTE, STORM
from ares.core import keys
from ares.core.lifecycle.retry import FLOOR_S, Breaker, ask, closed
from ares.model.access import Principal
from ares.model.alert import AlertRecord
from ares.model.job import RetryPolicy
from ares.model.link import Start
from tests.agents import ScriptedAgent
from tests.world import ALICE, World

HASTY = RetryPolicy(limit=100, base_s=0.0, max_s=0.0)


async def _fail(world: World, agent: ScriptedAgent, seconds: float) -> int:
    """Lets every attempt fail as soon as it is started. Returns how many there were."""
    ended = 0
    for _ in range(round(seconds / 0.1)):
        starts = _starts(agent)[ended:]
        for start in starts:
            agent.started(start)
            agent.exited(start, 1)
        ended += len(starts)
        await world.advance(0.1)
    return ended


def _starts(agent: ScriptedAgent) -> list[Start]:
    return [message for message in agent.received if isinstance(message, Start)]


def _storm(world: World, tenant: str) -> AlertRecord | None:
    alerts = world.one.view.kept.alerts.items()
    return next((one for key, one in alerts if one.kind == STORM and key.startswith(keys.scoped(tenant, ""))), None)


async def test_jobs_that_fail_at_once_do_not_run_thousands_of_attempts() -> None:
    """40 of them with no delay ran 4,040 attempts in 12 s."""
    async with World() as world:
        agent = await world.agent(cpu_milli=100_000, memory_mib=100_000)
        jobs = await world.submit_many(40, retry=HASTY)
        ran = await _fail(world, agent, 12.0)
        assert 40 < ran <= 40 * (1 + 12 / FLOOR_S)
        assert ran <= 40 + RETRIES_PER_MINUTE + 40
        assert {world.state(job).phase for job in jobs} <= {"RETRYING", "PENDING", "STAGING", "RUNNING"}


async def test_beyond_the_cap_a_tenants_retries_pause_with_an_alert_and_a_reason() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=1_000_000, memory_mib=1_000_000)
        jobs = await world.submit_many(400, retry=HASTY)
        ran = await _fail(world, agent, 3.0)
        assert ran <= 400 + RETRIES_PER_MINUTE + 40
        alert = _storm(world, "alpha")
        assert alert is not None
        assert "more than 600 times a minute" in alert.text
        waiting = [job for job in jobs if world.state(job).phase == "RETRYING"]
        assert waiting
        explained = await world.one.explain.job(ALICE, waiting[0])
        assert explained is not None
        assert explained.reason is not None
        assert (explained.reason.code, explained.remedy) == ("RETRIES_PAUSED", "yours")
        # Nothing begins while it lasts, and it ends by itself.
        assert await _fail_more(world, agent, 5.0) == 0
        assert await _fail_more(world, agent, 10.0) > 0


async def _fail_more(world: World, agent: ScriptedAgent, seconds: float) -> int:
    before = len(_starts(agent))
    await world.advance(seconds)
    return len(_starts(agent)) - before


async def test_what_is_lost_with_a_node_is_not_its_tenants_doing() -> None:
    async with World() as world:
        agent = await world.agent("n1", cpu_milli=1_000_000, memory_mib=1_000_000)
        jobs = await world.submit_many(700)
        await world.settle()
        await agent.connect(world.one.sessions, fresh=True)
        await world.advance(2.0)
        assert {world.state(job).attempt for job in jobs} == {2}
        assert _storm(world, "alpha") is None


async def test_other_tenants_do_not_wait_for_a_storm() -> None:
    async with World() as world:
        agent = await world.agent(cpu_milli=1_000_000, memory_mib=1_000_000)
        await world.submit_many(400, retry=HASTY)
        await _fail(world, agent, 3.0)
        assert _storm(world, "alpha") is not None
        other = Principal(token_id="bob", tenant="beta", role="submitter")
        (job,) = await world.submit_many(1, who=other, retry=HASTY)
        await world.settle()
        start = agent.starts[job]
        agent.exited(start, 1)
        await world.advance(2 * FLOOR_S + 0.1)
        assert world.state(job).attempt == 2


def test_pauses_grow_until_it_was_calm() -> None:
    breaker, pauses, now = closed(0.0, 60), list[float](), 0.0
    for _ in range(8):
        goes = True
        while goes:
            breaker, goes = ask(breaker, now, 60)
        pauses.append(breaker.open_until - now)
        now = breaker.open_until
    assert pauses == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]
    assert ask(breaker, now - 1.0, 60) == (breaker, False)
    calm = Breaker(at=now + 600.0, left=59.0, open_until=now, trips=0)
    assert ask(breaker, now + 600.0, 60) == (calm, True)


async def test_a_retry_avoids_the_nodes_that_failed_it() -> None:
    """As long as there is another: a node that breaks everything must not get it again and again."""
    async with World() as world:
        agents = {name: await world.agent(name) for name in ("n1", "n2", "n3")}
        job = await world.submit(retry=RetryPolicy(limit=10, base_s=0.0, max_s=0.0))
        await world.settle()
        where: list[str] = []
        for _ in range(5):
            (place,) = world.state(job).placements
            where.append(place.node)
            agents[place.node].exited(agents[place.node].starts[job], 1)
            await world.advance(2 * FLOOR_S + 0.2)
        assert len(set(where[:3])) == 3
        # All have failed it: it is tried all the same, and where it failed the longest ago.
        assert len(where) == 5
        assert world.state(job).attempt == 6


async def test_a_retry_goes_to_the_only_node_there_is() -> None:
    async with World() as world:
        agent, job = await world.running(retry=HASTY)
        agent.exited(agent.starts[job], 1)
        await world.advance(2 * FLOOR_S + 0.2)
        assert world.state(job).avoid == ("n1",)
        assert (world.state(job).placements[0].node, world.state(job).attempt) == ("n1", 2)
