"""What clusters used, at their global plane: by books that they tell, whatever becomes of the link."""

from typing import Any

import pytest
from msgspec.structs import replace

from ares.api.books.costs import CostReport
from ares.control.books.accounting import GRACE_S
from ares.core.books.days import before, day_end, day_of
from ares.core.refusal import Refusal
from ares.model.books.told import ToldBook, ToldDay, ToldLine
from ares.model.cluster_link import BooksKnown, BookTold, ClusterHello, DayTold
from tests.federated_worlds import FederatedWorlds
from tests.world import ADMIN, ALICE, World

_HOUR_S = 3600.0


async def _cost(world: World, by: Any = "cluster", **changes: Any) -> CostReport:
    asked: dict[str, Any] = {"first": None, "last": None, "pool": None, "limit": 100}
    found = await world.one.books.costs.report(ADMIN, by, **{**asked, **changes})
    assert not isinstance(found, Refusal)
    return found


def _held(report: CostReport, key: str) -> float:
    """GPU-hours that jobs held there."""
    rows = [row for row in report.rows if row.key == key]
    return sum(row.useful_gpu_hours + row.lost_gpu_hours + row.running_gpu_hours for row in rows)


async def _told(fed: FederatedWorlds, name: str) -> None:
    """Open days were told anew."""
    so_far = fed.plane.one.view.kept.tellings.get(name)
    await fed.until(lambda: fed.plane.one.view.kept.tellings.get(name) not in (None, so_far), 180.0)


async def test_a_global_plane_knows_what_each_cluster_had_and_used() -> None:
    async with FederatedWorlds("east", "west", books=True) as fed:
        job, there = await fed.running(gpus=4)
        name = fed.owner(job)
        await _told(fed, name)
        fed.later(_HOUR_S)
        await _told(fed, name)
        found = await _cost(fed.plane)
        mine = await _cost(there, "day")
        assert _held(found, name) == pytest.approx(4.0, rel=0.05)
        # As the cluster itself says, and the parts are the whole.
        assert _held(found, name) == pytest.approx(_held(mine, mine.rows[0].key), rel=0.05)
        for row in (*found.rows, found.total):
            parts = row.useful_gpu_hours + row.lost_gpu_hours + row.running_gpu_hours + row.idle_gpu_hours
            assert parts == pytest.approx(row.capacity_gpu_hours + row.over_gpu_hours)
        assert {row.key for row in found.rows} >= {"east", "west"}
        assert found.total.over_gpu_hours == pytest.approx(0.0, abs=1e-6)
        # Every grouping sums up to the same, and a tenant is shown its own.
        for by in ("day", "tenant", "team", "pool", "gpu-model"):
            other = await _cost(fed.plane, by)
            assert other.total.running_gpu_hours == pytest.approx(found.total.running_gpu_hours, rel=0.01)
        seen = await fed.plane.one.books.costs.report(ALICE, "cluster", None, None, None, 100)
        assert not isinstance(seen, Refusal)
        assert _held(seen, name) == pytest.approx(4.0, rel=0.05)


async def test_nothing_of_cost_usage_and_promises_is_lost_while_a_cluster_is_away_for_an_hour() -> None:
    async with FederatedWorlds("east", books=True) as fed:
        job, there = await fed.running(gpus=8, deadline_at=fed.clock.wall() + 2 * _HOUR_S)
        await _told(fed, "east")
        held = _held(await _cost(fed.plane), "east")
        fed.links["east"].cut()
        await fed.clock.advance(30.0)
        fed.later(_HOUR_S)
        # The job ends while its cluster is away.
        agent = there.agents[0]
        agent.exited(agent.starts[job])
        await fed.until(lambda: there.state(job).phase == "SUCCEEDED")
        away = await _cost(fed.plane)
        (age,) = away.clusters
        assert age.silent
        assert age.told_at is not None
        assert fed.clock.wall() - age.told_at >= _HOUR_S
        assert any("east is silent since" in remark for remark in away.remarks)
        assert _held(away, "east") == pytest.approx(held)
        assert (await _sla(fed.plane)) == (0, 0)
        fed.links["east"].mend()
        await fed.until(lambda: fed.plane.state(job).phase == "SUCCEEDED", 180.0)
        await _told(fed, "east")
        back = await _cost(fed.plane)
        assert not any("silent" in remark for remark in back.remarks)
        mine = await _cost(there, "day")
        assert back.total.useful_gpu_hours == mine.total.useful_gpu_hours >= 8.0
        assert (await _sla(fed.plane)) == (1, 0)
        usage = await fed.plane.one.spending.report(ADMIN, "cluster", None, 10)
        assert [(row.key, row.gpu_hours) for row in usage.rows] == [
            ("east", pytest.approx(mine.total.useful_gpu_hours))
        ]


async def _sla(world: World) -> tuple[int, int]:
    classes = await world.one.deadlines.classes_seen(ADMIN, "cluster")
    assert {seen.cluster for seen in classes} <= {"east"}
    return sum(seen.met for seen in classes), sum(seen.missed for seen in classes)


async def _close_day(fed: FederatedWorlds) -> None:
    """Lets the day end everywhere, and waits until the clusters have closed it."""
    today = day_of(fed.clock.wall())
    fed.later(day_end(today) + GRACE_S + 1.0 - fed.clock.wall())
    await fed.until(lambda: all(_closed_day(world) >= today for world in fed.clusters.values()), 300.0)


def _closed_day(world: World) -> str:
    return world.one.view.kept.closings["books"].day


async def test_days_that_are_closed_while_a_cluster_is_away_are_told_in_order_when_it_is_back() -> None:
    async with FederatedWorlds("east", books=True) as fed:
        job, there = await fed.running(gpus=2)
        await _told(fed, "east")
        link = fed.links["east"]
        link.cut()
        await _close_day(fed)
        await _close_day(fed)
        agent = there.agents[0]
        agent.exited(agent.starts[job])
        await fed.until(lambda: there.state(job).phase == "SUCCEEDED")
        link.said.clear()
        link.mend()
        await fed.until(lambda: fed.plane.one.view.kept.tellings["east"].closed_day == _closed_day(there), 120.0)
        await _told(fed, "east")
        closed = [said.day.day for said in link.said if isinstance(said, DayTold) and said.closed]
        assert len(closed) == 2
        assert closed == sorted(closed)
        found, mine = await _cost(fed.plane, "day"), await _cost(there, "day")
        assert found.total.useful_gpu_hours == mine.total.useful_gpu_hours > 40.0
        used = {row.key: row.useful_gpu_hours + row.running_gpu_hours for row in mine.rows}
        assert {row.key: row.useful_gpu_hours + row.running_gpu_hours for row in found.rows} == used
        # A closed day is told once, also over a link that broke since.
        link.said.clear()
        link.cut()
        link.mend()
        await _told(fed, "east")
        assert not [said for said in link.said if isinstance(said, DayTold) and said.closed]


async def test_of_a_cluster_that_was_restored_each_counter_keeps_the_greater_value() -> None:
    async with FederatedWorlds("east", books=True) as fed:
        await fed.running(gpus=8)
        fed.later(_HOUR_S)
        await _told(fed, "east")
        held = _held(await _cost(fed.plane), "east")
        # What a store with a later epoch tells of the same day: less, for the backup was older.
        told = [said.book for said in fed.links["east"].said if isinstance(said, BookTold)][-1]
        half = tuple(replace(line, gpu_ms=line.gpu_ms // 2) for line in told.accrued)
        hello = ClusterHello(name="east", incarnation=2**60, store_epoch=2)
        day = DayTold(day=ToldDay(day=told.day, tenants=(told.tenant,)))
        await fed.plane.one.federation.told.take(hello, [BookTold(book=replace(told, accrued=half)), day])
        assert _held(await _cost(fed.plane), "east") == pytest.approx(held)
        # What an earlier leader of the cluster says late counts no more.
        late = replace(hello, incarnation=1, store_epoch=1)
        assert await fed.plane.one.federation.told.take(late, [BookTold(book=replace(told, accrued=())), day]) is None
        assert _held(await _cost(fed.plane), "east") == pytest.approx(held)


async def test_a_day_that_no_clock_shows_or_that_is_closed_is_not_taken() -> None:
    async with FederatedWorlds("east", books=True) as fed:
        await _told(fed, "east")
        told, now = fed.plane.one.federation.told, fed.clock.wall()
        hello = ClusterHello(name="east", incarnation=2**60, store_epoch=1)
        for day in ("9999-12-31", "2023-13-45", "1970-01-01"):
            await told.take(hello, [DayTold(day=ToldDay(day=day, tenants=("alpha",)))])
        yesterday = before(day_of(now))
        assert await told.take(hello, [DayTold(day=ToldDay(day=yesterday), closed=True)]) == BooksKnown(day=yesterday)
        line = ToldLine(gpu_ms=1)
        await told.take(hello, [BookTold(book=ToldBook(tenant="alpha", day=yesterday, settled=(line,)))])
        assert [day.day for day in await told.days("1970-01-01", "9999-12-31")] == [yesterday, day_of(now)]
        assert [book async for book in told.books("alpha", "1970-01-01", yesterday)] == []
