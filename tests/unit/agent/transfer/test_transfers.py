"""The door for bulk bytes on a node, on a clock that is moved by hand."""

import asyncio

import pytest

from ares.agent.transfer.transfers import CONTROL_PLANE, Transfers
from ares.core.transfer.breaker import REQUESTS_MIN
from ares.core.transfer.turns import BURST_S, CHUNK_BYTES
from tests.clocks import ManualClock, settle

MIB = 1 << 20


async def flood(transfers: Transfers, tenant: str) -> None:
    while True:
        await transfers.take(tenant, "fetch", MIB)


async def test_without_limits_nothing_waits_and_all_is_counted() -> None:
    transfers = Transfers(ManualClock())
    await transfers.take("a", "fetch", 10 * MIB)
    assert not transfers.limited("a")
    assert transfers.moved() == {("a", "fetch"): 10 * MIB}
    assert transfers.moved() == {}


async def test_two_floods_share_the_link_and_a_third_keeps_to_its_rate() -> None:
    clock = ManualClock()
    transfers = Transfers(clock, 100 * MIB)
    transfers.set_rate("c", 9 * MIB)
    floods = [asyncio.create_task(flood(transfers, tenant)) for tenant in ("a", "b", "c")]
    try:
        await clock.advance(1.0)
        transfers.moved()
        await clock.advance(5.0)
        moved = {tenant: size for (tenant, _), size in transfers.moved().items()}
    finally:
        for task in floods:
            task.cancel()
        await asyncio.gather(*floods, return_exceptions=True)
    assert moved["c"] == pytest.approx(45 * MIB, rel=0.05)
    assert moved["a"] == pytest.approx(moved["b"], rel=0.05)
    assert sum(moved.values()) == pytest.approx(450 * MIB, rel=0.02)
    assert transfers.waiting() == {}


class WallThrottled(ManualClock):
    """The seeded bug: a throttle that goes by the wall clock."""

    def monotonic(self) -> float:
        return self.wall()


@pytest.mark.parametrize("clock", [ManualClock(), WallThrottled()])
async def test_a_wall_clock_that_is_set_lets_nothing_through(clock: ManualClock) -> None:
    transfers = Transfers(clock)
    transfers.set_rate("a", MIB)
    floods = [asyncio.create_task(flood(transfers, "a")) for _ in range(4)]
    try:
        for _ in range(10):
            await clock.advance(0.5)
            clock.jump_wall(300.0)
            # A rate that is told again makes the door look at its clock.
            transfers.set_rate("a", MIB)
        await settle()
        moved = transfers.moved()["a", "fetch"]
    finally:
        for task in floods:
            task.cancel()
        await asyncio.gather(*floods, return_exceptions=True)
    within = moved <= (5.0 + BURST_S) * MIB + CHUNK_BYTES
    assert within is not isinstance(clock, WallThrottled)


async def test_who_gives_up_waiting_holds_up_no_other() -> None:
    clock = ManualClock()
    transfers = Transfers(clock)
    transfers.set_rate("a", float(MIB))
    first = asyncio.create_task(transfers.take("a", "fetch", 1000 * MIB))
    await clock.advance(1.0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = asyncio.create_task(transfers.take("a", "fetch", CHUNK_BYTES))
    await clock.advance(1.0)
    assert second.done()
    assert transfers.waiting() == {}


async def test_a_rate_that_is_taken_away_lets_what_waits_go() -> None:
    clock = ManualClock()
    transfers = Transfers(clock)
    transfers.set_rate("a", 1.0)
    waits = asyncio.create_task(transfers.take("a", "fetch", 100 * MIB))
    await clock.advance(1.0)
    assert not waits.done()
    transfers.set_rate("a", None)
    await clock.advance(0.1)
    assert waits.done()


async def fails(transfers: Transfers, tenant: str = "a") -> None:
    with pytest.raises(OSError, match="503"):
        async with transfers.turn(tenant, "store", job="j1", failures=(OSError,)):
            raise OSError("503")


async def test_a_storm_of_errors_pauses_the_tenant_there_and_no_other() -> None:
    clock = ManualClock()
    transfers = Transfers(clock)
    for _ in range(REQUESTS_MIN):
        await fails(transfers)
    assert transfers.stays_away("a", "store")
    assert [(seen.endpoint, seen.tenant, seen.phase) for seen in transfers.breakers()] == [("store", "a", "open")]
    paused = asyncio.create_task(fails(transfers))
    await clock.advance(1.0)
    assert transfers.paused() == {"j1": "store"}
    async with transfers.turn("b", "store"):
        assert not transfers.stays_away("b", "store")
    await clock.advance(5.0)
    assert paused.done()
    assert transfers.paused() == {}
    # It failed again: the next probe comes after twice the time.
    good = asyncio.create_task(_good(transfers))
    await clock.advance(8.0)
    assert not good.done()
    await clock.advance(3.0)
    assert good.done()
    assert transfers.breakers()[0].phase == "ramping"
    await clock.advance(11.0)
    assert transfers.breakers() == ()


async def _good(transfers: Transfers) -> None:
    async with transfers.turn("a", "store"):
        pass


async def test_answers_of_an_endpoint_that_works_open_nothing() -> None:
    transfers = Transfers(ManualClock())
    for _ in range(2 * REQUESTS_MIN):
        with pytest.raises(FileNotFoundError):
            async with transfers.turn("a", "store", failures=(ConnectionError,)):
                raise FileNotFoundError("404")
    assert transfers.breakers() == ()


async def test_what_only_tells_how_requests_ended_is_held_back_too() -> None:
    transfers = Transfers(ManualClock())
    transfers.ended("a", CONTROL_PLANE, ok=True)
    assert transfers.turn_now("a", CONTROL_PLANE) == 0.0
    for _ in range(REQUESTS_MIN):
        transfers.ended("a", CONTROL_PLANE, ok=False)
    assert transfers.turn_now("a", CONTROL_PLANE) == pytest.approx(5.0)
    transfers.given_up("a", CONTROL_PLANE)
    assert transfers.turn_now("b", CONTROL_PLANE) == 0.0
