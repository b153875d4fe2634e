"""A global plane's side of its clusters' books: takes what they tell, and reads it back for sums over days.

What a cluster tells of a day is a whole, by the epoch of its store, and replaces what it told before. So nothing is
lost with a stream that breaks, or while the cluster is away: it goes on after the last closed day that is here.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from ares.api.books.ages import ClusterAge
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import View
from ares.core import keys
from ares.core.books.days import DAY_S, day_of, is_day
from ares.core.books.told import merged_book, merged_day
from ares.core.federation.reports import reach
from ares.model.books.book import PlatformBook, TenantBook
from ares.model.books.told import Telling
from ares.model.cluster_link import BooksKnown, BookTold, ClusterHello, DayTold
from ares.ports.clock import Clock
from ares.ports.store import TXN_OPS_MAX, Committed, Compare, Op, Put, Store, StoreError

# Days that a cluster may speak of: as old as books are kept, and as far ahead as clocks may be off.
_OLDEST_S: Final = 800 * DAY_S
_AHEAD_S: Final = 600.0
_OVER: Final = ("LEFT", "DEAD")
_encode = msgspec.json.encode


class ToldBooks:
    def __init__(self, store: Store, view: View, clock: Clock, here: str) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._here = here
        # How long ago a cluster was heard of; given by the federation, which hears them.
        self.age_of: Callable[[str], float | None] = lambda _: None

    # ---- what clusters tell

    def known(self, cluster: str) -> BooksKnown:
        telling = self._view.kept.tellings.get(cluster)
        return BooksKnown(day="" if telling is None else telling.closed_day)

    async def take(self, hello: ClusterHello, messages: Sequence[BookTold | DayTold]) -> BooksKnown | None:
        """Writes them, books before the day that names them. What the cluster is to be told of that."""
        cluster, epoch = hello.name, hello.store_epoch
        await self._view.catch_up()
        telling = self._view.kept.tellings.get(cluster)
        if telling is not None and telling.incarnation > hello.incarnation:
            # A later leader of the cluster tells them by now.
            return None
        closed = "" if telling is None else telling.closed_day
        newest = telling or Telling(cluster=cluster, incarnation=hello.incarnation, epoch=epoch, at=0.0)
        ops: list[Op] = []
        for message in messages:
            if isinstance(message, BookTold) and self._takes(message.book.day, closed):
                book = replace(message.book, cluster=cluster, incarnation=epoch)
                ops.append(Put(keys.told_book(cluster, book.tenant, book.day, epoch), _encode(book)))
            elif isinstance(message, DayTold) and self._takes(message.day.day, closed):
                told = message.day
                day = PlatformBook(
                    day=told.day, pools=dict(told.pools), tenants=told.tenants, assumed_s=told.assumed_s,
                    cluster=cluster, incarnation=epoch,
                )  # fmt: skip
                ops.append(Put(keys.told_day(cluster, day.day, epoch), _encode(day)))
                newest = replace(
                    newest, incarnation=hello.incarnation, epoch=epoch, at=self._clock.wall(),
                    first_day=newest.first_day or message.first_day,
                    closed_day=day.day if message.closed else newest.closed_day,
                )  # fmt: skip
        await self._write(cluster, ops, newest if newest != telling and newest.at else None)
        return BooksKnown(day=newest.closed_day) if newest.closed_day != closed else None

    def _takes(self, day: str, closed: str) -> bool:
        """A day that is closed here never changes; one that no clock shows is none."""
        now = self._clock.wall()
        return is_day(day) and closed < day and day_of(now - _OLDEST_S) <= day <= day_of(now + _AHEAD_S)

    async def _write(self, cluster: str, ops: list[Op], telling: Telling | None) -> None:
        """How far it has come is written last: then all that it speaks of is there."""
        same = self._view.kept.tellings.unchanged(cluster)
        for first in range(0, len(ops), TXN_OPS_MAX):
            await self._written([same], ops[first : first + TXN_OPS_MAX])
        if telling is not None:
            await self._written([same], [Put(keys.telling(cluster), _encode(telling))])

    async def _written(self, compares: list[Compare], ops: list[Op]) -> None:
        written = await self._store.txn(compares, ops)
        if not isinstance(written, Committed) or not written.succeeded:
            raise StoreError("books of a cluster could not be written; it tells them again")
        await self._view.reach(written.revision)

    # ---- what is read of it

    @property
    def clusters(self) -> list[str]:
        return sorted(self._view.kept.tellings)

    async def books(self, tenant: str, first: str, last: str) -> AsyncGenerator[TenantBook, None]:
        """A tenant's days, each once for each cluster."""
        for cluster in self.clusters:
            found: list[TenantBook] = []
            async for value in self._range(keys.told_book(cluster, tenant, "", 0)[:-11], first, last):
                found.append(msgspec.json.decode(value, type=TenantBook))
                if len(found) % WORKED_ON == 0:
                    await breathe()
            for _, books in groupby(found, key=lambda book: book.day):
                yield replace(merged_book(list(books)), cluster=self._shown(cluster))

    async def days(self, first: str, last: str) -> list[PlatformBook]:
        """What clusters' pools had, each day once for each cluster."""
        found: list[PlatformBook] = []
        for cluster in self.clusters:
            values = self._range(keys.told_day(cluster, "", 0)[:-11], first, last)
            told = [msgspec.json.decode(value, type=PlatformBook) async for value in values]
            for _, days in groupby(told, key=lambda day: day.day):
                found.append(replace(merged_day(list(days)), cluster=self._shown(cluster)))
        return found

    def _shown(self, cluster: str) -> str:
        return cluster if cluster != self._here else f"{cluster} (member)"

    async def _range(self, prefix: str, first: str, last: str) -> AsyncGenerator[bytes, None]:
        at = prefix + first[:-1]
        while True:
            page = await self._store.range(prefix, after=at, limit=100)
            for kv in page.kvs:
                day = kv.key.removeprefix(prefix)[:10]
                if day > last:
                    return
                if day >= first:
                    yield kv.value
            if not page.more or not page.kvs:
                return
            at = page.kvs[-1].key

    def ages(self) -> tuple[ClusterAge, ...]:
        """Of every cluster that is or was one, whose figures may be part of an answer."""
        found: list[ClusterAge] = []
        for name, record in sorted(self._view.kept.clusters.items()):
            telling, age_s = self._view.kept.tellings.get(name), self.age_of(name)
            if telling is None and record.state in _OVER:
                continue
            found.append(
                ClusterAge(
                    cluster=self._shown(name),
                    state=record.state,
                    silent=record.state not in _OVER and (age_s is None or reach(age_s) == "UNREACHABLE"),
                    heard_s=age_s,
                    told_at=None if telling is None else telling.at,
                    closed_day="" if telling is None else telling.closed_day,
                    incarnation=record.epoch if telling is None else telling.epoch,
                )
            )
        return tuple(found)

    # ---- what is forgotten

    async def forget(self, before: str) -> list[str]:
        """Keys of days before that one."""
        gone: list[str] = []
        for prefix in (keys.TOLD_DAYS, keys.TOLD_BOOKS):
            at = ""
            while True:
                page = await self._store.range(prefix, after=at, limit=500)
                gone += [kv.key for kv in page.kvs if kv.key.rsplit("/", 2)[1] < before]
                if not page.more or not page.kvs:
                    break
                at = page.kvs[-1].key
                await breathe()
        return gone
