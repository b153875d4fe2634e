"""Keeps the books: measures what pools have, and closes each day once it is over. Leader only.

A day is closed in three steps, and any leader can go on where another one left off. First no job can end on it any
more: a replica whose clock lags counts such an end for the next day. When that is known everywhere, each tenant's book
is written, once. Then the platform's own, in the transaction that moves the day.
"""

from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.books.shelf import BookShelf
from ares.control.books.told import ToldBooks
from ares.control.scheduler.monitor import ready
from ares.control.state.pacing import LOOKED_AT, breathe
from ares.control.state.records import absent
from ares.control.state.view import View
from ares.core import keys
from ares.core.books.capacity import measured, rates_now
from ares.core.books.days import DAY_S, after, before, day_end, day_of, day_start
from ares.core.books.draft import DayDraft, is_empty
from ares.model.books.book import CapacityRecord, ClosingRecord, PlatformBook, PoolRate, TenantBook
from ares.ports.clock import Clock
from ares.ports.store import TXN_OPS_MAX, Committed, Compare, Delete, Op, Put, Store, StoreError

log = structlog.get_logger()

_LOOK_EVERY_S: Final = 30.0
# What changes nothing but the time is written this often.
_WRITE_EVERY_S: Final = 60.0
# So long after midnight a day begins to be closed: clocks of replicas differ by less.
GRACE_S: Final = 300.0
# So long every replica has to hear that no job ends on the day any more.
SETTLE_S: Final = 60.0
# Books are kept for more than a year, so that two years' months can be compared.
KEPT_S: Final = 800 * DAY_S
_FIRST_DAY: Final = "0000-00-00"


class Accounting:
    """`keeping` never runs ahead of the time that is certain."""

    def __init__(
        self, store: Store, view: View, shelf: BookShelf, told: ToldBooks, clock: Clock, keeping: Clock, replica: str
    ) -> None:
        self._store = store
        self._view = view
        self._shelf = shelf
        self._told = told
        self._clock = clock
        self._keeping = keeping
        self._replica = replica
        # Until when no job ends any more, and when this leader saw that it was announced.
        self._announced: tuple[float, float] | None = None

    async def run(self, guard: Compare) -> None:
        while True:
            try:
                while await self.look(guard):
                    await breathe()
            except StoreError as error:
                log.warning("books.delayed", error=str(error))
            await self._clock.sleep(_LOOK_EVERY_S)

    async def look(self, guard: Compare) -> bool:
        """Whether a day was closed, so that the next may be due."""
        await self._view.catch_up()
        await self._begin(guard)
        await self._measure(guard)
        return await self._close(guard)

    async def _begin(self, guard: Compare) -> None:
        if self._shelf.closing is not None:
            return
        today = day_of(self._keeping.wall())
        first = ClosingRecord(first_day=today, day=before(today), until=day_start(today))
        key = keys.closing(keys.BOOKS_CLOSING)
        await self._written([guard, absent(key)], [Put(key, msgspec.json.encode(first))])

    # ---- what pools have

    async def _measure(self, guard: Compare) -> None:
        known, now = self._view.kept.capacity, self._keeping.wall()
        rates = await self._rates()
        newest = known[max(known)] if known else None
        if newest is not None and newest.rates == rates and now - newest.until < _WRITE_EVERY_S:
            return
        records = measured(known, rates, now)
        ops: list[Op] = [Put(keys.capacity(record.day), msgspec.json.encode(record)) for record in records]
        compares = [guard, *(known.unchanged(record.day) for record in records)]
        for first in range(0, len(ops), TXN_OPS_MAX - 1):
            part = slice(first, first + TXN_OPS_MAX - 1)
            await self._written([guard, *compares[1:][part]], ops[part])

    async def _rates(self) -> dict[str, PoolRate]:
        nodes = [(record, ready(self._view, name)) for name, record in sorted(self._view.nodes.items())]
        if len(nodes) > LOOKED_AT:
            await breathe()
        return rates_now(nodes, self._view.profile.profile)

    # ---- days that are over

    async def _close(self, guard: Compare) -> bool:
        closing = self._shelf.closing
        if closing is None:
            return False
        day = after(closing.day)
        over_until = day_start(day_of(self._keeping.wall() - GRACE_S))
        if over_until < day_end(day) or not await self._announce(guard, closing, over_until):
            return False
        tenants = await self._tenant_books(guard, day)
        platform = await self._platform_book(day, tenants)
        key, kept = keys.closing(keys.BOOKS_CLOSING), self._view.kept
        moved = replace(closing, day=day)
        compares = [guard, kept.closings.unchanged(keys.BOOKS_CLOSING), absent(keys.platform_book(day))]
        ops: list[Op] = [
            Put(keys.platform_book(day), msgspec.json.encode(platform)),
            Put(key, msgspec.json.encode(moved)),
            Delete(keys.capacity(day)),
        ]
        done = await self._written(compares, ops)
        if done:
            log.info("books.closed", day=day, tenants=len(tenants))
            await self._forget(guard, day)
        return done

    async def _announce(self, guard: Compare, closing: ClosingRecord, until: float) -> bool:
        """Whether every replica has heard by now that no job ends before that time any more: of all days that are over,
        however many they are."""
        if closing.until < until:
            value = msgspec.json.encode(replace(closing, until=until))
            same = self._view.kept.closings.unchanged(keys.BOOKS_CLOSING)
            await self._written([guard, same], [Put(keys.closing(keys.BOOKS_CLOSING), value)])
            return False
        if self._announced is None or self._announced[0] != closing.until:
            self._announced = (closing.until, self._clock.monotonic())
        return self._clock.monotonic() - self._announced[1] >= SETTLE_S

    async def _tenant_books(self, guard: Compare, day: str) -> dict[str, TenantBook]:
        """Writes each book that is not written yet. All books of the day, by tenant."""
        found: dict[str, TenantBook] = {}
        for tenant in await self._tenants(day):
            key = keys.book(tenant, day)
            kv = await self._store.get(key)
            if kv is None:
                book = await self._draft(tenant, day)
                if is_empty(book):
                    continue
                await self._written([guard, absent(key)], [Put(key, msgspec.json.encode(book))])
                # Another leader may have written it, or the answer was lost: what is there counts.
                kv = await self._store.get(key)
            if kv is None:
                raise StoreError(f"the book of {tenant} on {day} could not be written")
            found[tenant] = msgspec.json.decode(kv.value, type=TenantBook)
        return found

    async def _tenants(self, day: str) -> list[str]:
        earlier = await self._shelf.platform(before(day), before(day))
        return sorted({*self._view.order, *(tenant for book in earlier for tenant in book.accrued)})

    async def _draft(self, tenant: str, day: str) -> TenantBook:
        draft = DayDraft(tenant, day, day_end(day), await self._shelf.opening(tenant, day))
        async for states in self._shelf.strides(tenant):
            draft.add(states)
        book = self._shelf.signed(draft.book())
        return replace(book, closed_at=self._clock.wall(), closed_by=self._replica)

    async def _platform_book(self, day: str, tenants: dict[str, TenantBook]) -> PlatformBook:
        record = self._shelf.capacity(day) or CapacityRecord(day=day, until=day_end(day), assumed_s=DAY_S)
        return PlatformBook(
            day=day,
            pools=record.pools,
            tenants=tuple(sorted(tenants)),
            accrued=tuple(sorted(tenant for tenant, book in tenants.items() if book.accrued)),
            assumed_s=record.assumed_s,
            cluster=self._shelf.cluster,
            incarnation=self._shelf.incarnation,
            closed_at=self._clock.wall(),
            closed_by=self._replica,
        )

    async def _forget(self, guard: Compare, day: str) -> None:
        """Deletes the books of days that are long past: as a rule of one, and of those that a leader before did not get
        to. The platform's own goes last, for it names the others."""
        old = day_of(day_start(day) - KEPT_S)
        for book in await self._shelf.platform(_FIRST_DAY, old):
            gone: list[Op] = [Delete(keys.book(tenant, book.day)) for tenant in book.tenants]
            gone.append(Delete(keys.platform_book(book.day)))
            for first in range(0, len(gone), TXN_OPS_MAX):
                if not await self._written([guard], gone[first : first + TXN_OPS_MAX]):
                    return
        if self._told.clusters:
            told: list[Op] = [Delete(key) for key in await self._told.forget(after(old))]
            for first in range(0, len(told), TXN_OPS_MAX):
                if not await self._written([guard], told[first : first + TXN_OPS_MAX]):
                    return

    async def _written(self, compares: list[Compare], ops: list[Op]) -> bool:
        """Whether it is certain that this was written: then the view has it."""
        written = await self._store.txn(compares, ops)
        if not isinstance(written, Committed) or not written.succeeded:
            return False
        await self._view.reach(written.revision)
        return True
