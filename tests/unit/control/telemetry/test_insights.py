"""Insights: kept as episodes, quiet for known causes, and heeding what people say."""

import asyncio

import numpy as np
import pytest

from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.control.telemetry.insights import Insights
from ares.control.telemetry.series_history import SeriesHistory
from ares.core.series import SeriesKey
from tests.world import ADMIN, World

LATENCY: SeriesKey = ("ares_store_latency_seconds:p99", ())
QUEUE: SeriesKey = ("ares_queue_depth", ())


def _insights(world: World) -> tuple[Insights, SeriesHistory]:
    one = world.one
    history = SeriesHistory(one.measures, PrometheusTelemetry(world.rng), world.clock, one.name)
    return one.insights(history), history


def _filled(history: SeriesHistory, now: float, minutes: int, *, ends_odd: bool) -> None:
    rng = np.random.default_rng(1)
    for back in range(minutes, 0, -1):
        odd = ends_odd and back <= 2
        values = {LATENCY: 5.0 if odd else float(0.03 * np.exp(rng.normal(0, 0.3))), QUEUE: 9000.0 if odd else 3.0}
        history.rings.put(now - 60.0 * back, values)


async def test_an_episode_is_kept_once_told_and_ended_when_all_is_as_usual() -> None:
    async with World(scheduling=False) as world:
        insights, history = _insights(world)
        world.later(3600.0)
        await world.clock.advance(1000.0)
        now = world.clock.wall()
        _filled(history, now, 400, ends_odd=True)
        await insights.look()
        await insights.look()
        await world.settle()
        found = (await insights.listed()).insights
        assert sorted(record.series for record in found) == [QUEUE[0], LATENCY[0]]
        assert all(record.ended_at is None and record.probability <= 1e-6 for record in found)
        alerts = [alert.kind for alert in world.one.view.kept.alerts.values()]
        assert alerts.count("anomaly") == 2
        # Half an hour later it is over.
        world.later(2000.0)
        _filled(history, world.clock.wall(), 30, ends_odd=False)
        await insights.look()
        assert all(record.ended_at is not None for record in (await insights.listed()).insights)


async def test_a_known_cause_keeps_it_quiet_and_is_said() -> None:
    async with World(scheduling=False) as world:
        insights, history = _insights(world)
        world.later(3600.0)
        await world.clock.advance(1000.0)
        # An agent that was started lately explains the queue, and not the store.
        await world.agent("n1")
        _filled(history, world.clock.wall(), 400, ends_odd=True)
        await insights.look()
        (told,) = (await insights.listed()).insights
        assert told.series == LATENCY[0]
        every = await insights.listed(every=True)
        (quiet,) = [record for record in every.insights if record.series == QUEUE[0]]
        assert quiet.cause == "1 agents were started lately"
        assert "1 agents were started lately" in every.causes


async def test_what_outlasts_its_known_cause_is_told() -> None:
    async with World(scheduling=False) as world:
        insights, history = _insights(world)
        world.later(3600.0)
        await world.clock.advance(1000.0)
        await world.agent("n1")
        await world.clock.advance(870.0)
        _filled(history, world.clock.wall(), 400, ends_odd=True)
        await insights.look()
        assert QUEUE[0] not in [record.series for record in (await insights.listed()).insights]
        # The agent is no news any more, and the queue is as odd as before.
        await world.clock.advance(60.0)
        _filled(history, world.clock.wall(), 1, ends_odd=True)
        await insights.look()
        await world.settle()
        (told,) = [record for record in (await insights.listed()).insights if record.series == QUEUE[0]]
        assert told.cause == ""
        raised = [alert.subject for alert in world.one.view.kept.alerts.values() if alert.kind == "anomaly"]
        assert raised.count(QUEUE[0]) == 1


async def test_a_look_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(scheduling=False) as world:
        insights, history = _insights(world)
        # Such as a file of series that is not as it should be.
        monkeypatch.setattr(history.rings, "rings", ())
        running = asyncio.create_task(insights.run())
        await world.clock.advance(61.0)
        await world.settle()
        assert not running.done()
        running.cancel()


async def test_what_was_called_no_anomaly_is_kept_and_heeded() -> None:
    async with World(scheduling=False) as world:
        insights, history = _insights(world)
        world.later(3600.0)
        await world.clock.advance(1000.0)
        _filled(history, world.clock.wall(), 400, ends_odd=True)
        await insights.look()
        for record in (await insights.listed()).insights:
            judged = await insights.judge(ADMIN, record.id, "no-anomaly", "the import")
            assert judged is not None
            assert (judged.verdict, judged.note, judged.by) == ("no-anomaly", "the import", ADMIN.author)
        assert (await insights.listed()).insights == ()
        assert len((await insights.listed(every=True)).insights) == 2
        assert await insights.judge(ADMIN, "nothing", "useful", "") is None


async def test_without_gpus_nothing_is_said_of_demand() -> None:
    async with World(scheduling=False) as world:
        insights, history = _insights(world)
        silent = (await insights.listed()).forecasts
        assert {view.silent for view in silent} == {"there are no GPUs whose demand is known"}
        assert history.rings.rows == {}


async def test_the_first_numbers_of_gpus_are_heeded_at_once() -> None:
    async with World(scheduling=False) as world:
        insights, history = _insights(world)
        assert (await insights.listed()).forecasts[0].silent == "there are no GPUs whose demand is known"
        now = world.clock.wall()
        held: SeriesKey = ("ares_gpus", (("state", "held"),))
        history.rings.put(now, {held: 1.0, ("ares_pending_gpus", ()): 2.0})
        assert "14 days of numbers" in (await insights.listed()).forecasts[0].silent
