"""What a replica remembers of itself: gauges, rates and quantiles, over a restart too."""

import asyncio
from pathlib import Path

import pytest

from ares.adapters.disk import Reserve
from ares.adapters.telemetry.series_file import SeriesFile
from ares.control.telemetry.gpu_readings import GpuLook
from ares.control.telemetry.measures import LEADER_GAUGES
from ares.control.telemetry.series_history import GAUGES, MEANS, QUANTILES, RATES, TOLD, SeriesHistory, quantile
from tests.world import World


async def test_graphs_without_any_other_program(tmp_path: Path) -> None:
    async with World() as world:
        replica, kept = world.one, SeriesFile(tmp_path / "series.npz", Reserve(tmp_path, 0, 0).take)
        history = SeriesHistory(replica.measures, replica.telemetry, world.clock, "r1", kept)
        await history.look()
        agent = await world.agent()
        jobs = [await world.submit() for _ in range(3)]
        await world.settle()
        for job in jobs:
            agent.started(agent.starts[job])
        await world.settle()
        await world.advance(10)
        await history.look()
        found = await history.answer(
            ("ares_jobs_running", "ares_jobs_total:rate", "ares_start_latency_seconds:p95"), 600
        )
        latest = {(each.name, *each.labels.values()): each.latest for each in found.series}
        assert latest["ares_jobs_running", "default"] == 3.0
        assert (latest["ares_jobs_total:rate", "running"] or 0.0) > 0
        assert latest["ares_jobs_total:rate", "failed"] == 0.0
        assert latest["ares_start_latency_seconds:p95",] is not None
        assert found.step_s == 10
        assert all(len(each.points) == 61 for each in found.series)
        kept.save(history.rings)
        again = kept.load()
        assert again is not None
        assert again.rows == history.rings.rows


async def test_a_follower_has_the_same_graphs_and_exposes_none_of_the_leaders_gauges() -> None:
    async with World() as world:
        follower = await world.add_replica()
        await world.submit()
        await world.settle()
        history = SeriesHistory(follower.measures, follower.telemetry, world.clock, "r2")
        await history.look()
        (depth,) = (await history.answer(("ares_queue_depth",), 600)).series
        assert depth.latest == 1.0
        for replica, leads in ((world.one, True), (follower, False)):
            await replica.measures.take(replica.telemetry)
            page = replica.telemetry.render().decode()
            assert ("\nares_queue_depth 1.0" in page) == leads
            assert leads or not any(f"\n{name}{sign}" in page for name in LEADER_GAUGES for sign in " {")


async def test_of_single_gpus_the_mean_is_remembered() -> None:
    async with World() as world:
        now = world.clock.monotonic()
        busy = {("a", 0): GpuLook(0.2, 0, now), ("a", 1): GpuLook(0.6, 0, now)}
        world.one.gpu_readings.known = busy
        history = SeriesHistory(world.one.measures, world.one.telemetry, world.clock, "r1")
        await history.look()
        (mean,) = (await history.answer(("ares_gpu_utilization:mean",), 600)).series
        assert mean.latest == pytest.approx(0.4)


async def test_a_look_that_fails_is_counted_and_the_next_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        history = SeriesHistory(world.one.measures, world.one.telemetry, world.clock, "r1")
        looks: list[str] = []

        async def broken(*_: object, **__: object) -> None:
            looks.append("look")
            raise RuntimeError("a number that no code expected")

        monkeypatch.setattr(world.one.measures, "take", broken)
        monkeypatch.setattr(world.one.gpu_readings, "look", broken)
        loops = [asyncio.create_task(history.run()), asyncio.create_task(world.one.gpu_readings.run())]
        for _ in range(3):
            await world.settle()
            await world.advance(10)
        assert not any(loop.done() for loop in loops)
        failed = {
            reading.labels[0][1]: reading.value
            for reading in world.one.telemetry.readings(("ares_look_failures_total",))
        }
        assert sum(failed.values()) == len(looks)
        assert min(failed["series"], failed["gpus"]) >= 2
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


def test_all_that_is_remembered_is_declared() -> None:
    from ares.adapters.telemetry.metrics import METRICS

    kinds = {"gauge": (*GAUGES, *MEANS, *TOLD), "counter": RATES, "histogram": QUANTILES}
    assert [name for kind, names in kinds.items() for name in names if METRICS[name].kind != kind] == []


@pytest.mark.parametrize(("part", "value"), [(0.5, 1.5), (0.25, 1.0), (1.0, 4.0), (0.0, 0.0)])
def test_quantiles_are_those_of_prometheus(part: float, value: float) -> None:
    assert quantile((1.0, 2.0, 4.0), [2, 4, 2, 0], part) == pytest.approx(value)


def test_beyond_the_last_bound_is_that_bound() -> None:
    assert quantile((1.0, 2.0), [0, 0, 5], 0.5) == 2.0
