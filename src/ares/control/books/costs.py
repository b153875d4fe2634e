"""What the platform cost, by day, tenant, team, pool and GPU model; budgets and where they are going; charges."""

from collections.abc import AsyncGenerator, Iterable
from typing import Final

from msgspec.structs import replace

from ares.api.books.costs import BudgetList, BudgetProjection, CostBy, CostReport, CostRow, FocusExport, FocusRow
from ares.control.books.shelf import BookShelf
from ares.control.books.told import ToldBooks
from ares.control.governance.quotas import Quotas
from ares.control.queries.usage import Spending
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import View
from ares.core.access.table import sees_all
from ares.core.books.ages import silences
from ares.core.books.budget import DAYS_MAX, DAYS_MIN, month_ahead
from ares.core.books.costs import CostSum, PoolDays, spent_on
from ares.core.books.days import DAY_S, between, count, day_end, day_of, day_start, is_day
from ares.core.books.focus import focus_rows
from ares.core.lifecycle.usage_report import UsageSum
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.books.book import PlatformBook, TenantBook
from ares.model.profile import Profile
from ares.ports.clock import Clock

_MICRO: Final = 1_000_000
_HOUR_S: Final = 3600.0
# Days of one answer.
DAYS_SHOWN_MAX: Final = 400
_CHARGES_MAX: Final = 100_000
_MODELLED: Final = "energy is by a model: what was held, at full load; nothing of it was measured"


class Costs:
    """A tenant's members see their own; roles that see all of them also what stood idle."""

    def __init__(
        self, view: View, shelf: BookShelf, told: ToldBooks, quotas: Quotas, spending: Spending, clock: Clock
    ) -> None:
        self._view = view
        self._shelf = shelf
        self.told = told
        self._quotas = quotas
        self._spending = spending
        self._clock = clock

    # ---- what days cost

    async def report(
        self, who: Principal, by: CostBy, first: str | None, last: str | None, pool: str | None, limit: int
    ) -> CostReport | Refusal:
        """Of these days; without them, of the last seven."""
        await self._view.catch_up()
        period = self.period(first, last)
        if isinstance(period, Refusal):
            return period
        if by == "job":
            return await self._by_job(who, *period, pool, limit)
        first, last = period
        wide = is_wide(who)
        found = CostSum(by, self._shelf.cluster, pool)
        async for book in self.books(who, first, last):
            found.add(book)
        remarks: list[str] = []
        if wide:
            remarks += await self._add_capacity(found, first, last)
        rows, total, groups = found.rows(limit)
        return self._answer(by, first, last, rows, total, groups, whole=wide, remarks=(*remarks, *self._known(first)))

    def _answer(
        self,
        by: CostBy,
        first: str,
        last: str,
        rows: tuple[CostRow, ...],
        total: CostRow,
        groups: int,
        *,
        whole: bool,
        remarks: tuple[str, ...],
    ) -> CostReport:
        closing, clusters = self._shelf.closing, self.told.ages()
        priced = any(pool.gpu_hour or pool.cpu_hour or pool.memory_gib_hour for pool in self._profile.pools.values())
        unpriced = () if priced else ("no pool has a price: `ares profile set pools.NAME.gpu_hour=2.5` sets one",)
        return CostReport(
            cluster=self._shelf.cluster,
            incarnation=self._shelf.incarnation,
            by=by,
            currency=self._profile.currency,
            first_day=first,
            last_day=last,
            closed_day="" if closing is None else closing.day,
            books_since="" if closing is None else closing.first_day,
            at=self._clock.wall(),
            rows=rows,
            total=total,
            groups=groups,
            whole=whole,
            remarks=(*remarks, *silences(clusters, self._clock.wall()), *unpriced, _MODELLED),
            clusters=clusters,
        )

    @property
    def _profile(self) -> Profile:
        return self._view.profile.profile

    def _known(self, first: str) -> Iterable[str]:
        closing = self._shelf.closing
        if closing is None:
            yield "no book was begun yet: the leader does so within a minute"
        elif first < closing.first_day:
            yield f"books begin on {closing.first_day}: nothing is known of the days before"

    async def _by_job(self, who: Principal, first: str, last: str, pool: str | None, limit: int) -> CostReport:
        """Jobs that ended in these days or have not ended, with all they cost; jobs that were forgotten are not told
        apart any more."""
        sums = UsageSum("job", day_start(first), self._clock.wall(), until=day_end(last), pool=pool)
        found = await self._spending.summed(who, sums, limit)
        rows = tuple(
            CostRow(
                key=row.key,
                name=row.name,
                useful_gpu_hours=row.gpu_hours - row.wasted_gpu_hours,
                lost_gpu_hours=row.wasted_gpu_hours,
                cpu_hours=row.cpu_hours,
                energy_kwh=row.energy_kwh,
                useful_cost=row.cost - row.wasted_cost,
                lost_cost=row.wasted_cost,
                cost=row.cost,
                jobs=row.jobs,
            )
            for row in (*found.rows, found.total)
        )
        remarks = ("jobs count with all they cost, also on other days; jobs that were forgotten are not in it",)
        return self._answer("job", first, last, rows[:-1], rows[-1], found.groups, whole=False, remarks=remarks)

    def period(self, first: str | None, last: str | None) -> tuple[str, str] | Refusal:
        for day in (first, last):
            if day is not None and not is_day(day):
                message = f"{day} is no day of the calendar"
                return Refusal(code="invalid", message=message, fix="write it as in 2026-11-17")
        last = day_of(self._clock.wall()) if last is None else last
        first = day_of(day_start(last) - 6 * DAY_S) if first is None else first
        if first > last:
            return Refusal(
                code="invalid", message=f"the first day, {first}, is after the last, {last}", fix="swap the two"
            )
        if count(first, last) > DAYS_SHOWN_MAX:
            message = f"{count(first, last)} days are too many for one answer: at most {DAYS_SHOWN_MAX}"
            return Refusal(code="invalid", message=message, fix="ask for fewer days at a time")
        return first, last

    async def books(
        self, who: Principal, first: str, last: str, *, told: bool = True
    ) -> AsyncGenerator[TenantBook, None]:
        """All that `who` may see of these days: closed books, drafts of days that are not closed, and what clusters
        told of theirs. Without `told`, as promises are counted: those of all jobs that are known here, which the books
        here have."""
        platform: list[PlatformBook] = []
        if is_wide(who):
            platform += await self._shelf.platform(first, last)
            platform += await self.told.days(first, last) if told else []
        tenants = {tenant for book in platform for tenant in book.tenants} | set(self._view.order)
        number = 0
        for tenant in sorted(tenants) if is_wide(who) else (who.tenant,):
            async for book in self._of_tenant(tenant, first, last, told=told):
                yield book
                number += 1
                if number % WORKED_ON == 0:
                    await breathe()

    async def _of_tenant(
        self, tenant: str, first: str, last: str, *, told: bool = True
    ) -> AsyncGenerator[TenantBook, None]:
        here = self._shelf.cluster
        async for book in self._shelf.books(tenant, first, last):
            yield book if book.cluster == here else replace(book, cluster=here)
        if told:
            async for book in self.told.books(tenant, first, last):
                yield book

    def is_complete(self, first: str, last: str) -> bool:
        """Whether every day is closed, here and in the clusters that told theirs, so that none of it changes."""
        closing = self._shelf.closing
        mine = closing is not None and closing.first_day <= first and last <= closing.day
        return mine and all(age.closed_day >= last for age in self.told.ages())

    async def capacities(self, first: str, last: str) -> tuple[list[PoolDays], float]:
        """What pools had, by day and cluster, and for how much of the time that is assumed."""
        closed = {book.day: book for book in await self._shelf.platform(first, last)}
        found: list[PoolDays] = []
        assumed_s = 0.0
        for day in between(first, last):
            record = closed.get(day) or self._shelf.capacity(day)
            # A day of which nothing is known had nothing, as far as is known.
            found.append(PoolDays(day, self._shelf.cluster, {} if record is None else record.pools))
            assumed_s += 0.0 if record is None else record.assumed_s
        for told in await self.told.days(first, last):
            found.append(PoolDays(told.day, told.cluster, told.pools))
            assumed_s += told.assumed_s
        return found, assumed_s

    async def _add_capacity(self, found: CostSum, first: str, last: str) -> list[str]:
        days, assumed_s = await self.capacities(first, last)
        for had in days:
            found.add_capacity(had.day, had.pools, had.cluster)
        if assumed_s < 1.0:
            return []
        return [f"for {assumed_s / _HOUR_S:,.1f} h no replica looked: pools are taken to have had what they had before"]

    # ---- budgets

    async def budgets(self, who: Principal) -> BudgetList:
        """Of the caller's tenant, or of every tenant that has a budget or has spent something this month."""
        await self._view.catch_up()
        if not is_wide(who):
            return BudgetList(budgets=(await self._budget(who.tenant),))
        found: list[BudgetProjection] = []
        for tenant in sorted({*self._view.order, *self._view.kept.quotas}):
            budget = await self._budget(tenant)
            if budget.budget is not None or budget.spent or budget.committed:
                found.append(budget)
            await breathe()
        return BudgetList(budgets=tuple(found))

    async def _budget(self, tenant: str) -> BudgetProjection:
        now = self._clock.wall()
        month = day_of(now)[:7]
        record = self._view.kept.quotas.get(tenant)
        limit = None if record is None else record.quota.own.amounts.get("budget")
        budget = None if limit is None else limit.hard
        closing = self._shelf.closing
        since = day_of(now - DAYS_MAX * DAY_S)
        by_day = dict[str, float]()
        async for book in self._of_tenant(tenant, min(f"{month}-01", since), day_of(now)):
            by_day[book.day] = by_day.get(book.day, 0.0) + spent_on(book) / _MICRO
        spent = sum(cost for day, cost in by_day.items() if day.startswith(month))
        days = [] if closing is None else between(max(since, closing.first_day), closing.day)
        ahead = month_ahead(spent, [by_day.get(day, 0.0) for day in days], now, budget)
        found = BudgetProjection(
            tenant=tenant,
            month=month,
            currency=self._profile.currency,
            spent=spent,
            committed=self._quotas.usage(tenant).spent,
            budget=budget,
            days_seen=len(days),
        )
        if ahead is None:
            why = f"a projection needs {DAYS_MIN} closed days, there are {len(days)}"
            return replace(found, why=why)
        return replace(
            found,
            per_day=ahead.per_day,
            projected=ahead.projected,
            projected_low=ahead.low,
            projected_high=ahead.high,
            used_up_on=ahead.used_up_on,
        )

    # ---- charges

    async def charges(self, who: Principal, first: str | None, last: str | None) -> FocusExport | Refusal:
        """As FOCUS has them, by day, tenant, team, pool, GPU model and use."""
        await self._view.catch_up()
        period = self.period(first, last)
        if isinstance(period, Refusal):
            return period
        first, last = period
        found: list[FocusRow] = []
        async for book in self.books(who, first, last):
            found += focus_rows(book, self._profile.currency)
            if len(found) > _CHARGES_MAX:
                message = f"these days have more charges than one answer has: {_CHARGES_MAX:,}"
                return Refusal(code="invalid", message=message, fix="ask for fewer days at a time")
        found.sort(key=lambda row: (row.charge_period_start, row.sub_account_id, row.tags["team"], row.sku_id))
        return FocusExport(
            first_day=first, last_day=last, complete=self.is_complete(first, last), rows=tuple(found)
        )  # fmt: skip


def is_wide(who: Principal) -> bool:
    """Whether the caller is shown every tenant: not while it acts in another one."""
    return sees_all(who) and not who.home
