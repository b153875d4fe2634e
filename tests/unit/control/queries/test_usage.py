"""What jobs cost by the services that bind and end them, at the prices of when they were bound."""

import pytest

from ares.control.queries.pending_metrics import PendingMetrics
from ares.control.queries.usage import Spending
from ares.core.lifecycle.usage_report import use_of
from ares.model.access import Principal
from tests.world import ADMIN, World

PRICES = {"pools.default.cpu_hour": "3.6", "pools.default.cpu_watts": "10"}


async def test_a_price_that_changes_does_not_change_what_runs() -> None:
    async with World() as world:
        await world.one.profiles.change(ADMIN, PRICES)
        agent = await world.agent()
        job = await world.submit(cpu_milli=2_000)
        await world.settle()
        bound_at = world.one.view.entries[job].state.bound_at
        assert bound_at is not None
        agent.started(agent.starts[job])
        await world.advance(60)
        tally = PendingMetrics(world.one.planner, world.clock, world.one.telemetry)
        await tally.look()
        assert b'ares_pool_power_watts{pool="default"} 20.0' in world.one.telemetry.render()
        await world.one.profiles.change(ADMIN, {"pools.default.cpu_hour": "7.2"})
        await world.advance(40)
        running = use_of([world.one.view.entries[job].state], bound_at + 100)
        assert (running.watts, running.per_hour, running.cost) == (20.0, 7.2, pytest.approx(0.2))
        agent.exited(agent.starts[job])
        await world.settle()
        await tally.look()
        assert b'ares_pool_power_watts{pool="default"} 0.0' in world.one.telemetry.render()

        later = await world.submit(cpu_milli=1_000)
        await world.settle()
        rates = world.one.view.entries[later].state.rates
        assert [(rate.pool, rate.watts, rate.per_hour) for rate in rates] == [("default", 10.0, 7.2)]
        ended = world.one.view.entries[job].state
        assert ended.ended_at is not None
        used = use_of([ended], world.clock.wall())
        assert used.cost == pytest.approx((ended.ended_at - bound_at) * 7.2 / 3600)
        assert used.energy_wh * 3600 == pytest.approx((ended.ended_at - bound_at) * 20.0)

        spending = Spending(world.one.view, world.clock, "here")
        nobody = Principal(tenant="beta", role="viewer", name="b", token_id="t")
        assert (await spending.report(nobody, "tenant", None, 10)).rows == ()
        everybody = await spending.report(ADMIN, "job", 3600.0, 10)
        assert {row.key for row in everybody.rows} >= {job}
