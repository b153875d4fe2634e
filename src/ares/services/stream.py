"""Live events of a tenant, resumable after any event.

A cursor is `<revision>-<n>`: the store revision of an event and its place among the follower's
events of that revision, since one transaction may write several.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

from ares.core import keys
from ares.model.access import Principal
from ares.model.event import LedgerEvent
from ares.ports.store import KV, Store
from ares.services.view import Delta, View

_RING_EVENTS = 20_000
_BACKLOG_MAX = 10_000


class Lagged(Exception):
    """The reader was cut off before it would have missed something; it may resume from its last cursor."""


class BadEventCursor(Exception):
    """A cursor is text given out with an event."""


class _Follower:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.backlog: deque[KV] = deque()
        self.ready = asyncio.Event()
        self.lagged = ""

    def offer(self, kv: KV) -> None:
        if self.lagged:
            # Nothing may follow a gap: the reader's last cursor must lie before it.
            return
        if len(self.backlog) >= _BACKLOG_MAX:
            self.cut_off(f"more than {_BACKLOG_MAX} events behind")
            return
        self.backlog.append(kv)
        self.ready.set()

    def cut_off(self, why: str) -> None:
        self.lagged = self.lagged or why
        self.ready.set()


class EventStream:
    """Recent events come from memory, older ones from the store; both give the same sequence."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view
        self._ring: deque[KV] = deque(maxlen=_RING_EVENTS)
        self._ring_complete_from = 0
        self._followers: set[_Follower] = set()
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._ring.clear()
            self._ring_complete_from = self._view.revision
            for follower in self._followers:
                follower.cut_off("this replica was cut off from the store for a while")
        for kv in sorted(delta.events, key=_place):
            if len(self._ring) == _RING_EVENTS:
                self._ring_complete_from = self._ring[0].mod_revision
            self._ring.append(kv)
            for follower in self._followers:
                if kv.key.startswith(follower.prefix):
                    follower.offer(kv)

    async def follow(
        self, who: Principal, cursor: str = "", job_id: str | None = None
    ) -> AsyncGenerator[tuple[str, LedgerEvent], None]:
        """Events after `cursor` ("" means from now, "0" everything kept), for ever, in order."""
        revision, seen = _parse(cursor)
        prefix = keys.job_events(who.tenant, job_id) if job_id else f"{keys.EVENTS}{who.tenant}/"
        follower = _Follower(prefix)
        self._followers.add(follower)
        try:
            missed = await self._missed(prefix, revision, seen) if cursor else []
            begin = revision if cursor else self._view.revision
            last = missed[-1].mod_revision if missed else begin
            counted = _Counter(revision, seen)
            for kv in missed:
                yield counted.cursor(kv), _event(kv)
            async for kv in self._live(follower, last):
                yield counted.cursor(kv), _event(kv)
        finally:
            self._followers.discard(follower)

    async def _missed(self, prefix: str, revision: int, seen: int) -> list[KV]:
        """Everything from `revision` on, without the first `seen` events of that very revision."""
        # The cursor may come from a replica that was ahead of this one.
        await self._view.catch_up()
        if revision > self._view.revision:
            raise BadEventCursor(f"revision {revision} is in the future; use a cursor that came with an event, or 0")
        if revision > self._ring_complete_from:
            found = [kv for kv in self._ring if kv.mod_revision >= revision and kv.key.startswith(prefix)]
        else:
            page = await self._store.range(prefix, min_mod_revision=revision)
            found = sorted(page.kvs, key=_place)
        same = [kv for kv in found if kv.mod_revision == revision]
        return same[seen:] + [kv for kv in found if kv.mod_revision > revision]

    async def _live(self, follower: _Follower, after: int) -> AsyncGenerator[KV, None]:
        while True:
            await follower.ready.wait()
            follower.ready.clear()
            while follower.backlog:
                kv = follower.backlog.popleft()
                # What was delivered from the past is not repeated; a revision is always seen whole.
                if kv.mod_revision > after:
                    yield kv
            if follower.lagged:
                raise Lagged(follower.lagged)


class _Counter:
    """Numbers events within their revision."""

    def __init__(self, revision: int, seen: int) -> None:
        self._revision = revision
        self._seen = seen

    def cursor(self, kv: KV) -> str:
        self._seen = self._seen + 1 if kv.mod_revision == self._revision else 1
        self._revision = kv.mod_revision
        return f"{self._revision}-{self._seen}"


def _parse(cursor: str) -> tuple[int, int]:
    revision, _, seen = cursor.partition("-")
    if not all(part == "" or (part.isdecimal() and len(part) < 19) for part in (revision, seen)):
        raise BadEventCursor(f"{cursor!r} is not a cursor; use one that came with an event, or 0")
    return int(revision or 0), int(seen or 0)


def _place(kv: KV) -> tuple[int, str]:
    return kv.mod_revision, kv.key


def _event(kv: KV) -> LedgerEvent:
    return msgspec.json.decode(kv.value, type=LedgerEvent)
