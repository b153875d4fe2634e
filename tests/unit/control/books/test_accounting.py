"""Daily books: closed once, whatever becomes of leaders and clocks, and kept when the jobs are forgotten."""

import msgspec

from ares.control.books.accounting import GRACE_S, SETTLE_S
from ares.core import keys
from ares.core.books.days import DAY_S, before, day_end, day_of
from ares.core.books.draft import DayDraft
from ares.core.lifecycle.inputs import Bind, Cancel
from ares.core.refusal import Refusal
from ares.model.books.book import PlatformBook
from ares.model.profile import Pool, Profile
from ares.model.quota import Limit, Limits, Quota
from ares.model.state import Rate
from ares.ports.store import Put
from tests.world import ADMIN, ALICE, KEEP_S, Replica, World

RATE = Rate(pool="default", gpu_model="A100", watts=400.0, per_hour=2.0)


async def _priced(world: World) -> None:
    await world.one.profiles.put(ADMIN, Profile(pools={"default": Pool(gpu_hour=2.0)}, currency="EUR"))
    await world.settle()


async def _held(world: World, hours: float, *, ends: bool = True) -> str:
    """A job that holds a GPU for so long."""
    job = await world.submit(gpus=1)
    await world.apply(job, Bind(placements=world.places("n1", gpus=(0,)), rates=(RATE,)))
    world.later(hours * 3600.0)
    if ends:
        await _end(world, job)
    return job


async def _end(world: World, job: str) -> None:
    await world.apply(job, Cancel(by="test"))
    # Its node says that nothing of it is left.
    world.agents[0].obey()
    await world.settle()


async def _look(world: World, replica: Replica | None = None) -> None:
    leader = replica or world.leading()[0]
    accounting = leader.accounting
    assert accounting is not None
    await accounting.look(leader.guards[-1])
    await world.settle()


async def _close(world: World, replica: Replica | None = None) -> None:
    """Lets the day end and closes it."""
    today = day_of(world.clock.wall())
    world.later(day_end(today) + GRACE_S + 1.0 - world.clock.wall())
    await _look(world, replica)
    # It is announced, and not closed before every replica has heard of it.
    await _look(world, replica)
    assert world.one.view.kept.closings["books"].day < today
    await world.advance(SETTLE_S + 1.0)
    await _look(world, replica)


async def test_a_day_is_closed_after_it_was_announced_and_counts_what_ended() -> None:
    async with World(scheduling=False, books=True) as world:
        await _priced(world)
        await world.agent("n1", gpus=1)
        today = day_of(world.clock.wall())
        await _held(world, 0.5)
        await _close(world)
        book = await world.one.books.costs.report(ADMIN, "day", today, today, None, 10)
        assert not isinstance(book, Refusal)
        assert book.closed_day == today
        assert book.total.jobs == 1
        assert round(book.total.lost_gpu_hours + book.total.useful_gpu_hours, 6) == 0.5
        assert round(book.total.cost, 6) == 1.0
        assert book.currency == "EUR"


async def test_a_job_over_midnight_counts_on_both_days_and_once_in_all() -> None:
    async with World(scheduling=False, books=True) as world:
        await _priced(world)
        await world.agent("n1", gpus=1)
        today = day_of(world.clock.wall())
        left_h = (day_end(today) - world.clock.wall()) / 3600.0
        job = await _held(world, left_h - 1.0, ends=False)
        ran_h = left_h - 1.0 + 1.0
        await _close(world)
        first = await world.one.books.costs.report(ADMIN, "tenant", today, today, None, 10)
        assert not isinstance(first, Refusal)
        (row,) = [row for row in first.rows if row.key == "alpha"]
        assert round(row.running_gpu_hours, 2) == round(ran_h, 2)
        world.later(2 * 3600.0)
        await _end(world, job)
        await _close(world)
        both = await world.one.books.costs.report(ADMIN, "tenant", today, day_of(world.clock.wall()), None, 10)
        assert not isinstance(both, Refusal)
        (row,) = [row for row in both.rows if row.key == "alpha"]
        used = world.state(job).gpu_s / 3600.0
        assert round(row.running_gpu_hours, 6) == 0.0
        assert abs(row.useful_gpu_hours + row.lost_gpu_hours - used) < 1e-6
        assert row.jobs == 1


async def test_another_leader_goes_on_where_one_left_off_and_writes_no_book_twice() -> None:
    async with World(replicas=2, scheduling=False, books=True) as world:
        await _priced(world)
        leader = world.leading()[0]
        other = world.two if leader is world.one else world.one
        await world.agent("n1", gpus=1, replica=other)
        today = day_of(world.clock.wall())
        await _held(world, 0.5)
        world.later(day_end(today) + GRACE_S + 1.0 - world.clock.wall())
        await _look(world, leader)
        await _look(world, leader)
        await world.clock.advance(SETTLE_S + 1.0)
        # The tenant's book is written, and the answer to the platform's is lost with the leader.
        accounting = leader.accounting
        assert accounting is not None
        world.faults(None, "reply_lost")
        await accounting.look(leader.guards[-1])
        before_ = await world.store.get(keys.book("alpha", today))
        assert before_ is not None
        await leader.crash()
        await world.until(lambda: other.leader.leading)
        await world.advance(2 * SETTLE_S + 61.0)
        await _look(world, other)
        after_ = await world.store.get(keys.book("alpha", today))
        assert after_ is not None
        assert (after_.version, after_.value) == (1, before_.value)
        platform = await world.store.get(keys.platform_book(today))
        assert platform is not None
        assert platform.version == 1
        assert msgspec.json.decode(platform.value, type=PlatformBook).tenants == ("alpha",)


async def test_a_book_that_is_written_before_its_day_is_closed_counts_once() -> None:
    async with World(scheduling=False, books=True) as world:
        await _priced(world)
        await world.agent("n1", gpus=1)
        today = day_of(world.clock.wall())
        await _look(world)
        job = await _held(world, 0.5)
        world.later(day_end(today) + 1.0 - world.clock.wall())
        # As a leader leaves it that has written the tenant's book, and has not moved the day.
        draft = DayDraft("alpha", today, day_end(today), None)
        draft.add([world.state(job)])
        await world.store.txn([], [Put(keys.book("alpha", today), msgspec.json.encode(draft.book()))])
        assert world.one.view.kept.closings["books"].day < today
        for who in (ADMIN, ALICE):
            report = await world.one.books.costs.report(who, "day", today, None, None, 10)
            assert not isinstance(report, Refusal)
            assert (report.total.jobs, round(report.total.cost, 6)) == (1, 1.0)
        (budget,) = (await world.one.books.costs.budgets(ALICE)).budgets
        assert round(budget.spent, 6) == 1.0


async def test_a_clock_that_lags_ends_no_job_on_a_day_that_is_closed() -> None:
    async with World(scheduling=False, books=True) as world:
        await _priced(world)
        await world.agent("n1", gpus=1)
        today = day_of(world.clock.wall())
        job = await _held(world, 0.25, ends=False)
        await _close(world)
        tomorrow = day_of(world.clock.wall())
        # Back to before midnight, as a replica with a wrong clock would have it.
        world.clock.jump_wall(-3600.0)
        assert day_of(world.clock.wall()) == today
        await _end(world, job)
        assert world.state(job).book_day == tomorrow
        world.clock.jump_wall(3600.0)
        await _close(world)
        report = await world.one.books.costs.report(ADMIN, "day", today, tomorrow, None, 10)
        assert not isinstance(report, Refusal)
        assert report.total.jobs == 1
        used = world.state(job).gpu_s / 3600.0
        assert abs(report.total.useful_gpu_hours + report.total.lost_gpu_hours - used) < 1e-6
        assert round(report.total.running_gpu_hours, 6) == 0.0


async def test_a_job_is_not_forgotten_before_its_day_is_closed_and_its_cost_stays() -> None:
    async with World(scheduling=False, books=True) as world:
        await _priced(world)
        await world.agent("n1", gpus=1)
        today = day_of(world.clock.wall())
        job = await _held(world, 0.5)
        await _look(world)
        world.later(KEEP_S + 2 * DAY_S)
        assert await world.one.retention.sweep() == 0
        # It is announced once for all days that are over, and then they are closed one after the other.
        for _ in range(2):
            await _look(world)
            await world.advance(SETTLE_S + 1.0)
        assert world.one.view.kept.closings["books"].day == before(day_of(world.clock.wall()))
        await world.one.retention.sweep()
        assert job not in world.one.view.entries
        report = await world.one.books.costs.report(ALICE, "day", today, today, None, 10)
        assert not isinstance(report, Refusal)
        assert round(report.total.cost, 6) == 1.0


async def test_idle_is_what_no_job_held_and_a_tenant_is_not_told() -> None:
    async with World(scheduling=False, books=True) as world:
        await _priced(world)
        await world.agent("n1", gpus=4)
        await _look(world)
        today = day_of(world.clock.wall())
        await _held(world, 1.0)
        await _look(world)
        whole = await world.one.books.costs.report(ADMIN, "pool", today, today, None, 10)
        assert not isinstance(whole, Refusal)
        total = whole.total
        assert round(total.capacity_gpu_hours, 2) == 4.0
        assert round(total.idle_gpu_hours, 2) == 3.0
        assert abs(total.cost + total.idle_cost - total.capacity_cost) < 1e-6
        assert round(total.capacity_cost, 2) == 8.0
        mine = await world.one.books.costs.report(ALICE, "pool", today, today, None, 10)
        assert not isinstance(mine, Refusal)
        assert not mine.whole
        assert mine.total.capacity_gpu_hours == mine.total.idle_gpu_hours == 0.0
        assert round(mine.total.cost, 2) == 2.0


async def test_a_projection_needs_days_and_says_when_the_budget_is_used_up() -> None:
    async with World(scheduling=False, books=True) as world:
        await _priced(world)
        await world.agent("n1", gpus=1)
        limits = Limits(amounts={"budget": Limit(hard=40.0)})
        await world.one.quotas.put(ADMIN, "alpha", Quota(own=limits))
        (none,) = (await world.one.books.costs.budgets(ALICE)).budgets
        assert (none.projected, none.budget) == (None, 40.0)
        assert "needs 3 closed days, there are 0" in none.why
        for _ in range(3):
            await _held(world, 1.0)
            await _close(world)
        (budget,) = (await world.one.books.costs.budgets(ALICE)).budgets
        assert budget.days_seen == 3
        assert budget.per_day is not None
        assert round(budget.per_day, 6) == 2.0
        assert budget.projected is not None
        assert budget.spent < budget.projected < 40.0
        assert budget.used_up_on is None
        assert before(day_of(world.clock.wall()))[:7] == budget.month


async def test_days_that_are_none_are_refused() -> None:
    async with World(scheduling=False, books=True) as world:
        for first, last, said in (
            ("2026-02-30", None, "no day of the calendar"),
            ("2026-03-02", "2026-03-01", "is after the last"),
            ("2020-01-01", "2026-01-01", "too many"),
        ):
            found = await world.one.books.costs.report(ALICE, "day", first, last, None, 10)
            assert isinstance(found, Refusal)
            assert said in found.message


async def test_books_that_are_too_old_go_also_those_that_were_left_behind() -> None:
    """A leader that ended between closing a day and deleting old books left them there for ever."""
    async with World(scheduling=False, books=True) as world:
        await world.agent("n1", gpus=1)
        today = day_of(world.clock.wall())
        old, older, young = (day_of(world.clock.wall() - days * DAY_S) for days in (800, 805, 799))
        for day in (old, older, young):
            book = PlatformBook(day=day, tenants=("acme",))
            puts = [Put(keys.platform_book(day), msgspec.json.encode(book)), Put(keys.book("acme", day), b"{}")]
            await world.store.txn([], puts)
        await _close(world)
        assert world.one.view.kept.closings["books"].day == today
        left = [day for day in (old, older, young) if await world.store.get(keys.platform_book(day)) is not None]
        assert left == [young]
        assert await world.store.get(keys.book("acme", older)) is None
        assert await world.store.get(keys.book("acme", young)) is not None


async def test_cost_by_job_is_of_the_pool_and_the_days_that_were_asked_for() -> None:
    async with World(scheduling=False, books=True) as world:
        await world.agent("n1", gpus=1)
        await _priced(world)
        early = await _held(world, 1.0)
        first = day_of(world.clock.wall())
        world.later(2 * DAY_S)
        late = await _held(world, 1.0)
        costs = world.one.books.costs

        async def jobs(*days: str | None, pool: str | None = None) -> set[str]:
            found = await costs.report(ADMIN, "job", *days, pool, 100)
            assert not isinstance(found, Refusal)
            assert found.total.cost == sum(row.cost for row in found.rows)
            return {row.key for row in found.rows}

        assert await jobs(first, None) == {early, late}
        assert await jobs(first, first) == {early}
        assert await jobs(None, None, pool="default") == {early, late}
        assert await jobs(None, None, pool="another") == set()
