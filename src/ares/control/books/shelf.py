"""Books as they are in the store, and those of days that are not closed, made from the jobs that are known."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ares.control.state.pacing import LOOKED_AT, WORKED_ON, breathe
from ares.control.state.view import View
from ares.core import keys
from ares.core.books.capacity import extended
from ares.core.books.days import after, before, day_end, day_of
from ares.core.books.draft import DayDraft
from ares.model.books.book import BookLine, CapacityRecord, ClosingRecord, PlatformBook, TenantBook
from ares.model.state import JobState
from ares.ports.clock import Clock
from ares.ports.store import Store

# Days that are shown before they are closed; a leader that comes back closes the older ones first.
OPEN_DAYS_MAX: Final = 3
_KEPT_S: Final = 5.0
_KEPT_MAX: Final = 256


class BookShelf:
    def __init__(self, store: Store, view: View, clock: Clock, cluster: str, incarnation: int) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self.cluster = cluster
        self.incarnation = incarnation
        # Drafts of a tenant's open days: many viewers share one look.
        self._kept: dict[str, tuple[float, tuple[TenantBook, ...]]] = {}

    @property
    def closing(self) -> ClosingRecord | None:
        """None before the first leader has begun to keep books."""
        return self._view.kept.closings.get(keys.BOOKS_CLOSING)

    # ---- closed days

    async def books(self, tenant: str, first: str, last: str) -> AsyncGenerator[TenantBook, None]:
        """Every day once, whether it is closed or not: a tenant's book is there before its day is closed for all."""
        # Drafts first, then how far it is closed, then the books: a day that is closed meanwhile is in one of them.
        drafts, closing = {book.day: book for book in await self.drafts(tenant)}, self.closing
        async for book in self.closed(tenant, first, last):
            drafts.pop(book.day, None)
            yield book
        for day, book in drafts.items():
            if first <= day <= last and (closing is None or day > closing.day):
                yield book

    async def closed(self, tenant: str, first: str, last: str) -> AsyncGenerator[TenantBook, None]:
        """In order. Days of which there is nothing to say have no book."""
        async for value in self._range(keys.book(tenant, ""), first, last):
            yield msgspec.json.decode(value, type=TenantBook)

    async def platform(self, first: str, last: str) -> list[PlatformBook]:
        values = self._range(keys.PLATFORM_BOOKS, first, last)
        return [msgspec.json.decode(value, type=PlatformBook) async for value in values]

    async def _range(self, prefix: str, first: str, last: str) -> AsyncGenerator[bytes, None]:
        at = prefix + first[:-1]
        while True:
            page = await self._store.range(prefix, after=at, limit=100)
            for number, kv in enumerate(page.kvs):
                day = kv.key.removeprefix(prefix)
                if day > last:
                    return
                if day >= first:
                    yield kv.value
                if number % WORKED_ON == WORKED_ON - 1:
                    await breathe()
            if not page.more or not page.kvs:
                return
            at = page.kvs[-1].key

    # ---- days that are not closed

    def open_days(self) -> list[str]:
        """From the day after the newest closed one to today, at most the last few."""
        closing, today = self.closing, day_of(self._clock.wall())
        if closing is None:
            return [today]
        day, found = after(closing.day), list[str]()
        while day <= today:
            found.append(day)
            day = after(day)
        return found[-OPEN_DAYS_MAX:]

    async def drafts(self, tenant: str) -> tuple[TenantBook, ...]:
        """A tenant's open days as they look now."""
        now = self._clock.monotonic()
        at, kept = self._kept.get(tenant, (float("-inf"), ()))
        if now - at < _KEPT_S:
            return kept
        days = self.open_days()
        found: list[TenantBook] = []
        opening = await self.opening(tenant, days[0]) if days else None
        for day in days:
            draft = DayDraft(tenant, day, self._clock.wall(), opening)
            async for states in self.strides(tenant):
                draft.add(states)
            book = self.signed(draft.book())
            found.append(book)
            opening = book.accrued
        if len(self._kept) >= _KEPT_MAX:
            self._kept.clear()
        self._kept[tenant] = (self._clock.monotonic(), tuple(found))
        return tuple(found)

    async def opening(self, tenant: str, day: str) -> Sequence[BookLine] | None:
        """What the day before has accrued; None where its book is not there to tell."""
        closing = self.closing
        if closing is None or day <= closing.first_day or before(day) > closing.day:
            return None
        kv = await self._store.get(keys.book(tenant, before(day)))
        # A day without a book has accrued nothing.
        return () if kv is None else msgspec.json.decode(kv.value, type=TenantBook).accrued

    def signed(self, book: TenantBook) -> TenantBook:
        return replace(book, cluster=self.cluster, incarnation=self.incarnation)

    async def strides(self, tenant: str) -> AsyncGenerator[list[JobState], None]:
        """A tenant's jobs, some at a time, all as of one moment."""
        entries = [self._view.entries[job] for _, job in self._view.order.get(tenant, ())]
        for first in range(0, len(entries), LOOKED_AT):
            yield [entry.state for entry in entries[first : first + LOOKED_AT]]
            await breathe()

    def capacity(self, day: str) -> CapacityRecord | None:
        """What pools had on a day that is not closed, up to now."""
        record = self._view.kept.capacity.get(day)
        if record is None:
            return None
        return extended(record, min(self._clock.wall(), day_end(day)))
