"""A cluster's side of its books at the global plane: which days to tell, closed ones once, open ones as they change."""

import asyncio
from typing import Final

import msgspec
import structlog

from ares.control.books.shelf import BookShelf
from ares.control.state.pacing import breathe
from ares.control.state.view import View
from ares.core.books.days import after
from ares.core.books.draft import is_empty
from ares.model.books.book import CapacityRecord, PlatformBook, PoolDay, TenantBook
from ares.model.books.told import POOLS_MAX, TENANTS_MAX, ToldBook, ToldDay, ToldPool
from ares.model.cluster_link import BooksKnown, BookTold, ClusterMessage, DayTold
from ares.ports.clock import Clock, happens

log = structlog.get_logger()

# Open days are told this often, where they changed; a closed one is told again when no answer came for as long.
TELL_EVERY_S: Final = 60.0
_AGAIN_S: Final = 60.0


class BookNews:
    """Follows from records alone: a new session begins where the global plane says that it has come to."""

    def __init__(self, shelf: BookShelf, view: View, clock: Clock) -> None:
        self._shelf = shelf
        self._view = view
        self._clock = clock
        self._heard = asyncio.Event()
        # The newest closed day that is durable there; None while nothing was said of it.
        self._known: str | None = None
        self._asked = ""
        self._open_at: float | None = None
        # What was told of open days in this session.
        self._told: dict[tuple[str, str], TenantBook] = {}

    def begin(self) -> None:
        self._known, self._asked, self._open_at = None, "", None
        self._heard.clear()
        self._told.clear()

    def known(self, message: BooksKnown) -> None:
        self._known = message.day
        self._heard.set()

    async def next(self) -> list[ClusterMessage]:
        """Waits for something to tell."""
        while True:
            known = self._known
            if known is None:
                await self._heard.wait()
                continue
            self._heard.clear()
            day = self._due(known)
            if day and day != self._asked:
                self._asked = day
                return await self._closed(day)
            if day:
                if not await happens(self._heard, self._clock, _AGAIN_S):
                    self._asked = ""
                continue
            wait_s = 0.0 if self._open_at is None else TELL_EVERY_S - (self._clock.monotonic() - self._open_at)
            if wait_s > 0.0:
                await happens(self._heard, self._clock, wait_s)
                continue
            self._open_at = self._clock.monotonic()
            return await self._open()

    def _due(self, known: str) -> str:
        """The first closed day that is not known there; empty: none."""
        closing = self._shelf.closing
        if closing is None:
            return ""
        day = max(after(known), closing.first_day) if known else closing.first_day
        return day if day <= closing.day else ""

    async def _closed(self, day: str) -> list[ClusterMessage]:
        platform = await self._shelf.platform(day, day)
        # A day without a book of its own: all that is known of it is that it is over.
        book = platform[0] if platform else PlatformBook(day=day)
        found: list[ClusterMessage] = []
        tenants: list[str] = []
        for tenant in book.tenants[:TENANTS_MAX]:
            async for closed in self._shelf.closed(tenant, day, day):
                if (told := _bounded(closed)) is not None:
                    found.append(BookTold(book=told))
                    tenants.append(tenant)
        for key in [key for key in self._told if key[0] <= day]:
            del self._told[key]
        whole = _day(day, book.pools, tenants, book.assumed_s)
        return [*found, DayTold(day=whole, closed=True, first_day=self._first_day)]

    async def _open(self) -> list[ClusterMessage]:
        await self._view.catch_up()
        tenants: dict[str, list[str]] = {day: [] for day in self._shelf.open_days()}
        found: list[ClusterMessage] = []
        for tenant in sorted(self._view.order):
            for book in await self._shelf.drafts(tenant):
                if book.day not in tenants or is_empty(book) or len(tenants[book.day]) >= TENANTS_MAX:
                    continue
                if self._told.get((book.day, tenant)) != book:
                    if (told := _bounded(book)) is None:
                        continue
                    self._told[book.day, tenant] = book
                    found.append(BookTold(book=told))
                tenants[book.day].append(tenant)
            await breathe()
        for day, named in tenants.items():
            record = self._shelf.capacity(day) or CapacityRecord(day=day, until=0.0)
            found.append(DayTold(day=_day(day, record.pools, named, record.assumed_s), first_day=self._first_day))
        return found

    @property
    def _first_day(self) -> str:
        closing = self._shelf.closing
        return "" if closing is None else closing.first_day


def _bounded(book: TenantBook) -> ToldBook | None:
    """The same book within the bounds of the link. A book beyond them is left out: the link itself must go on."""
    try:
        return msgspec.convert(msgspec.to_builtins(book), ToldBook)
    except msgspec.ValidationError as error:
        log.error("books.untold", tenant=book.tenant, day=book.day, error=str(error))
        return None


def _day(day: str, pools: dict[str, PoolDay], tenants: list[str], assumed_s: float) -> ToldDay:
    told = ToldDay(day=day, tenants=tuple(tenants[:TENANTS_MAX]), assumed_s=assumed_s)
    try:
        had = msgspec.convert(msgspec.to_builtins(pools), dict[str, ToldPool])
    except msgspec.ValidationError as error:
        log.error("books.untold", day=day, error=str(error))
        return told
    return msgspec.structs.replace(told, pools=dict(sorted(had.items())[:POOLS_MAX]))
