"""Prices of machines by a catalogue: read again and again, and the last one that could be read counts."""

import json

import pytest

from ares.control.autoscale.prices import Prices
from ares.control.autoscale.standing import ScalingState
from ares.model.access import Principal
from ares.model.scaling import NodeShape, ScalingPool
from tests.clocks import ManualClock
from tests.world import World

POOL = ScalingPool(name="gold", shape=NodeShape(cpu_milli=8000, memory_mib=8192), price="g5", after_s=0.0)
OPERATOR = Principal(token_id="op", tenant="acme", role="operator")


class Source:
    place = "prices.json"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.text = b""
        self.reads = 0

    def write(self, version: str, **hours: float) -> None:
        machines = [{"name": name, "nodeHour": hour} for name, hour in hours.items()]
        self.text = json.dumps({"version": version, "at": self._clock.wall(), "machines": machines}).encode()

    async def read(self) -> bytes:
        self.reads += 1
        if not self.text:
            raise OSError("no such file")
        return self.text


async def test_the_last_catalogue_that_could_be_read_counts_and_its_age_is_shown() -> None:
    clock = ManualClock()
    source = Source(clock)
    prices = Prices(source, clock)
    await prices.refresh()
    assert prices.lacking(POOL) == "prices.json cannot be read: no such file"
    source.write("v1", g5=1.5)
    await prices.refresh()
    # Not at every look.
    assert source.reads == 1
    await clock.advance(31.0)
    await prices.refresh()
    assert (prices.priced(POOL).node_hour, prices.lacking(POOL)) == (1.5, "")
    source.text = b"{"
    await clock.advance(301.0)
    await prices.refresh()
    view = prices.view(POOL)
    assert view is not None
    assert (prices.priced(POOL).node_hour, view.version, round(view.age_s)) == (1.5, "v1", 332)
    assert "prices.json cannot be read" in view.trouble
    source.write("v2", p4=9.0)
    await clock.advance(31.0)
    await prices.refresh()
    assert prices.lacking(POOL) == "the catalogue of version v2 has no price 'g5'"


@pytest.mark.parametrize(
    "text",
    [
        b'{"version": "v1", "at": 1, "machines": [{"name": "g5", "nodeHour": -1}]}',
        b'{"version": "v1", "at": 1, "machines": [{"name": "g5", "nodeHour": 1e99}]}',
        b'{"version": "", "at": 1}',
        b"[" * 100_000,
    ],
)
async def test_a_catalogue_that_makes_no_sense_is_none(text: bytes) -> None:
    clock = ManualClock()
    source = Source(clock)
    source.text = text
    prices = Prices(source, clock)
    await prices.refresh()
    assert "cannot be read" in prices.lacking(POOL)


async def test_nothing_is_bought_for_a_pool_whose_price_is_not_known() -> None:
    async with World(scheduling=False) as world:
        source = Source(world.clock)
        state = ScalingState(world.store, world.one.view, world.one.planner, world.clock, [POOL], source)
        await world.submit()
        plan = await state.plan(OPERATOR)
        assert (plan.purchases, plan.message) == ((), "prices.json cannot be read: no such file")
        source.write("v1", g5=0.0)
        await world.advance(31.0)
        plan = await state.plan(OPERATOR)
        assert [purchase.pool for purchase in plan.purchases] == ["gold"]
        (shown,) = await state.list(OPERATOR)
        assert shown.price is not None
        assert (shown.price.name, shown.price.version) == ("g5", "v1")
