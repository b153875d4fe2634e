"""Live events of a tenant, resumable after any event.

A cursor is `<revision>-<n>`: the store revision of an event and its place among the follower's events of that revision,
since one transaction may write several. A reader with much to catch up on gets the past job by job, and cursors
`<revision>-<n>.<until>.<key>`: of what was written from that revision to that other one, so far as that key.

Nothing is kept for a reader: each asks for its next page when it has read the one before, in memory or in the store.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import msgspec

from ares.control.state.pacing import LOOKED_AT, breathe
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.model.access import Principal
from ares.model.state import LedgerEvent
from ares.ports.store import KV, Store

# Kept in memory, of all tenants together.
_RING_EVENTS = 20_000
_PAGE_EVENTS = 64
# So many from the store are put in the order of their commits; more come job by job.
_SORTED_MAX = 500
_SORTED_BYTES = 256 << 10
# Beyond this many jobs that changed, all are read.
_CHANGED_MAX = 10_000

Item = tuple[str, LedgerEvent]


class BadEventCursor(Exception):
    """A cursor is text given out with an event."""


@dataclass(slots=True)
class _Reader:
    """Where one reader is: before the events of `revision`, without the first `seen` of those. `tail` of a key up to
    `until` when it is in the midst of the past, job by job."""

    prefix: str
    revision: int
    seen: int = 0
    until: int = 0
    tail: str = ""

    def passed(self, kv: KV) -> str:
        """The cursor after an event in the order of commits."""
        self.seen = self.seen + 1 if kv.mod_revision == self.revision else 1
        self.revision = kv.mod_revision
        return f"{self.revision}-{self.seen}"

    def passed_by_job(self, kv: KV, root: str) -> str | None:
        """The cursor after an event in the order of keys; None for one that was seen before."""
        self.tail = kv.key.removeprefix(root)
        if kv.mod_revision == self.revision and self.seen:
            self.seen -= 1
            return None
        return f"{self.revision}-{self.seen}.{self.until}.{self.tail}"

    def go_on_after(self, revision: int) -> None:
        self.revision, self.seen, self.until, self.tail = revision + 1, 0, 0, ""


@dataclass(slots=True)
class _Ring:
    """The latest events of one tenant, complete for every revision beyond `complete_from`."""

    complete_from: int
    events: deque[KV] = field(default_factory=deque[KV])
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def page(self, reader: _Reader) -> list[KV]:
        found: list[KV] = []
        skip = reader.seen
        for at in range(bisect_left(self.events, reader.revision, key=_revision), len(self.events)):
            kv = self.events[at]
            if not kv.key.startswith(reader.prefix):
                continue
            if skip and kv.mod_revision == reader.revision:
                skip -= 1
                continue
            found.append(kv)
            if len(found) == _PAGE_EVENTS:
                break
        return found


class EventStream:
    """Recent events come from memory, older ones from the store."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view
        self._rings: dict[str, _Ring] = {}
        # Whose events are in memory, the oldest first.
        self._whose: deque[str] = deque()
        self._complete_from = 0
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._forget()
        if not delta.events:
            return
        moved: dict[str, deque[KV]] = {}
        for kv in sorted(delta.events, key=_place):
            tenant = _tenant(kv.key)
            events = moved.get(tenant)
            if events is None:
                events = moved[tenant] = self._ring(tenant).events
            events.append(kv)
            self._whose.append(tenant)
        while len(self._whose) > _RING_EVENTS:
            ring = self._rings[self._whose.popleft()]
            ring.complete_from = ring.events.popleft().mod_revision
        for tenant in moved:
            self._wake(tenant)

    def _forget(self) -> None:
        """This replica was cut off from the store for a while: what it missed is there."""
        self._whose.clear()
        self._complete_from = self._view.revision
        for tenant, ring in self._rings.items():
            ring.events.clear()
            ring.complete_from = self._complete_from
            self._wake(tenant)

    def _wake(self, tenant: str) -> None:
        # A new event each time: an event that is cleared again could be missed by a task that begins to wait.
        ring = self._rings[tenant]
        ring.moved.set()
        ring.moved = asyncio.Event()

    def _ring(self, tenant: str) -> _Ring:
        ring = self._rings.get(tenant)
        if ring is None:
            ring = self._rings[tenant] = _Ring(self._complete_from)
        return ring

    async def follow(self, who: Principal, cursor: str = "", job_id: str | None = None) -> AsyncGenerator[Item, None]:
        """Events after `cursor` ("" means from now, "0" everything kept), for ever: each job's in order, and all in the
        order of their commits, except where there was much to catch up on."""
        reader = _parse(cursor)
        reader.prefix = keys.job_events(who.tenant, job_id) if job_id else keys.tenant_events(who.tenant)
        if cursor:
            # The cursor may come from a replica that was ahead of this one.
            await self._view.catch_up()
            if max(reader.revision, reader.until) > self._view.revision:
                raise BadEventCursor(f"{cursor!r} is in the future; use a cursor that came with an event, or 0")
        else:
            reader.go_on_after(self._view.revision)
        ring = self._ring(who.tenant)
        while True:
            moved = ring.moved
            if reader.until or reader.revision <= ring.complete_from:
                async for item in self._past(who.tenant, reader):
                    yield item
            elif page := ring.page(reader):
                for kv in page:
                    yield reader.passed(kv), _event(kv)
                await breathe()
            else:
                # Nothing up to here was for this reader: it is not looked through again.
                reader.go_on_after(self._view.revision)
                await moved.wait()

    # ---- events that are no longer in memory

    async def _past(self, tenant: str, reader: _Reader) -> AsyncGenerator[Item, None]:
        """Everything from the reader's place up to now: in the order of commits where that is not much."""
        in_order = not reader.until
        reader.until = reader.until or self._view.revision
        until, root, size = reader.until, keys.tenant_events(tenant), 0
        found: list[KV] = []
        async for page in self._pages(tenant, reader):
            found += page
            size += sum(len(kv.value) for kv in page)
            if in_order and len(found) <= _SORTED_MAX and size <= _SORTED_BYTES:
                continue
            in_order = False
            for kv in found:
                if (cursor := reader.passed_by_job(kv, root)) is not None:
                    yield cursor, _event(kv)
            found = []
        if in_order:
            found.sort(key=_place)
            seen = reader.seen
            for kv in found:
                if seen and kv.mod_revision == reader.revision:
                    seen -= 1
                    continue
                yield reader.passed(kv), _event(kv)
        reader.go_on_after(until)

    async def _pages(self, tenant: str, reader: _Reader) -> AsyncGenerator[list[KV], None]:
        """Events between the reader's revisions, in the order of their keys, from its key on."""
        low, high, after = reader.revision, reader.until, ""
        if reader.tail:
            after = keys.tenant_events(tenant) + reader.tail
        is_one = reader.prefix != keys.tenant_events(tenant)
        changed = None if is_one else await self._changed(tenant, low)
        while True:
            if changed is not None and (after := _next(changed, after)) == "":
                return
            page = await self._store.range(reader.prefix, after=after, limit=_PAGE_EVENTS)
            if found := [kv for kv in page.kvs if low <= kv.mod_revision <= high]:
                yield found
            if not page.more:
                return
            after = page.kvs[-1].key
            await breathe()

    async def _changed(self, tenant: str, revision: int) -> list[str] | None:
        """Prefixes of the events of jobs that changed since then, in order; None for too many: an event is only ever
        written with a change of its job's state."""
        found: list[str] = []
        if not revision:
            return None
        order = tuple(self._view.order.get(tenant, ()))
        for first in range(0, len(order), LOOKED_AT):
            for _, job in order[first : first + LOOKED_AT]:
                entry = self._view.entries.get(job)
                if entry is not None and entry.mod_revision >= revision:
                    found.append(keys.job_events(tenant, job))
            if len(found) > _CHANGED_MAX:
                return None
            await breathe()
        return sorted(found)


def _next(changed: list[str], after: str) -> str:
    """Where to read on: after this key if its job has changed, otherwise at the next job that has; "" for none."""
    at = bisect_left(changed, after)
    if at and after.startswith(changed[at - 1]):
        return after
    return changed[at] if at < len(changed) else ""


def _parse(cursor: str) -> _Reader:
    place, *past = cursor.split(".")
    revision, _, seen = place.partition("-")
    until, tail = past if len(past) == 2 else ("", "")
    numbers = all(part == "" or (part.isdecimal() and len(part) < 19) for part in (revision, seen, until))
    if not numbers or len(past) not in (0, 2) or bool(until) != bool(tail) or not keys.is_event_tail(tail):
        raise BadEventCursor(f"{cursor!r} is not a cursor; use one that came with an event, or 0")
    return _Reader("", int(revision or 0), int(seen or 0), int(until or 0), tail)


def _tenant(key: str) -> str:
    return key.split("/", 3)[2]


def _revision(kv: KV) -> int:
    return kv.mod_revision


def _place(kv: KV) -> tuple[int, str]:
    return kv.mod_revision, kv.key


def _event(kv: KV) -> LedgerEvent:
    return msgspec.json.decode(kv.value, type=LedgerEvent)
