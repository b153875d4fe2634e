"""Wrong clocks: what expired stays so over a restart, and a month ahead is not a month later."""

from ares.core.access.tokens import denied
from ares.core.lifecycle.inputs import Cancel
from ares.core.refusal import Refusal
from tests.world import ADMIN, KEEP_S, World

DAY_S = 86_400.0


async def test_a_token_that_expired_stays_so_when_a_server_starts_with_its_clock_set_back() -> None:
    async with World() as world:
        await world.one.tenants.ensure({"alpha"})
        made = await world.one.tokens.create(ADMIN, tenant="alpha", role="viewer", name="", ttl_s=600.0)
        assert not isinstance(made, Refusal)
        text, _ = made
        await world.advance(700)
        assert await world.one.tokens.authenticate(text) == denied("expired")
        await world.one.crash()
        world.clock.jump_wall(-3600)
        fresh = await world.add_replica()
        assert await fresh.tokens.authenticate(text) == denied("expired")
        # Nor do new ones last longer once the clock is right again.
        assert fresh.time.ending.wall() >= world.clock.wall() + 3500


async def test_a_server_that_starts_a_month_ahead_forgets_nothing_at_once() -> None:
    async with World() as world:
        job = await world.submit()
        await world.apply(job, Cancel(by="x", reason=""))
        await world.advance(120)
        world.clock.jump_wall(max(36 * DAY_S, 2 * KEEP_S))
        assert await world.one.retention.sweep() == 0
        # Nor when it looks again, nor after a restart.
        await world.advance(1200)
        assert await world.one.retention.sweep() == 0
        await world.one.crash()
        fresh = await world.add_replica()
        assert fresh.time.keeping.wall() < world.clock.wall() - 30 * DAY_S
        assert await fresh.retention.sweep() == 0
        assert job in fresh.view.entries
        assert "clock-jumped" in [alert.kind for alert in fresh.view.kept.alerts.values()]
        # Once somebody is sure of it.
        fresh.time.keeping.begin(world.clock.wall())
        assert await fresh.retention.sweep() == 1
