"""Looking into the audit chains on this replica's disk: pages, exports, months."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Literal

import msgspec

from ares.api.audit import AuditMonth, AuditPage, ChainSeen
from ares.control.state.cursors import Cursors
from ares.control.state.view import View
from ares.core.access.table import WIDE, scope_of
from ares.core.audit.chain import entry_of
from ares.core.audit.search import AuditQuery, AuditTally, csv_header, csv_rows, matches, needles, shown
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.audit import AuditEntry, AuditHead
from ares.ports.audit import AuditLog, Segment

# Lines that one page reads: a search for something rare gives short pages, and goes on by the cursor.
SCANNED_MAX = 200_000
_encode = msgspec.json.Encoder().encode
# `{"seq":` is in front of every line.
_SEQ = 7
_AT = len('"prev":"') + 64 + len('","at":')
# After everything.
_END = (1 << 62, "")
Format = Literal["jsonl", "csv"]


class AuditSearch:
    """`who` sees its own tenant's entries, or all."""

    def __init__(self, chain: AuditLog | None, view: View, cursors: Cursors) -> None:
        self._log = chain
        self._view = view
        self._cursors = cursors

    def only(self, who: Principal) -> str:
        """The one tenant whose entries they see; empty for all."""
        wide = scope_of(who, "audit:read") in WIDE
        return who.tenant if not wide or who.home else ""

    def chains(self) -> tuple[ChainSeen, ...]:
        newest: dict[str, AuditHead] = {}
        for head in self._view.kept.audit_heads.values():
            if head.chain not in newest or head.at > newest[head.chain].at:
                newest[head.chain] = head
        here = set(self._here())
        return tuple(
            ChainSeen(chain=chain, here=chain in here)
            if (head := newest.get(chain)) is None
            else ChainSeen(chain=chain, here=chain in here, signed=head.seq, signed_at=head.at, key=head.key)
            for chain in sorted(here | set(newest))
        )

    def heads(self) -> tuple[AuditHead, ...]:
        return tuple(sorted(self._view.kept.audit_heads.values(), key=lambda head: (head.chain, head.at)))

    def _here(self) -> tuple[str, ...]:
        return () if self._log is None else tuple(self._log.chains())

    # ---- pages

    async def page(self, who: Principal, query: AuditQuery, limit: int, cursor: str) -> AuditPage | Refusal:
        only = self.only(who)
        bound = f"audit\n{only}"
        place = self._cursors.read(bound, cursor)
        if isinstance(place, Refusal):
            return place
        found, last = await asyncio.to_thread(self._page, query, only, limit, place)
        after = "" if last is None else self._cursors.make(bound, last)
        return AuditPage(entries=tuple(found), cursor=after, chains=self.chains())

    def _page(
        self, query: AuditQuery, only: str, limit: int, before: tuple[int, str] | None
    ) -> tuple[list[AuditEntry], tuple[int, str] | None]:
        wanted, found = needles(query, only), list[AuditEntry]()
        # In microseconds, as places are.
        since = int(query.since * 1e6)
        ends = _END if not query.until else (int(query.until * 1e6), "")
        before = min(ends, before or _END)
        lines = heapq.merge(*(self._backward(chain, since, before, wanted) for chain in self._here()), reverse=True)
        for at, name, line in lines:
            if (entry := _seen(line, query, only)) is not None:
                found.append(entry)
            if len(found) == limit or not line:
                return found, (at, name)
        return found, None

    def _backward(
        self, chain: str, since: int, before: tuple[int, str], wanted: tuple[bytes, ...]
    ) -> Iterator[tuple[int, str, bytes]]:
        """Lines that may match, with their places. An empty one says: so far, and enough for one page."""
        assert self._log is not None
        newer: Segment | None = None
        scanned, begun = 0, False
        for segment in reversed(self._log.segments(chain)):
            ended, newer = newer, segment
            if segment.at * 1e6 > before[0] or (ended is not None and ended.at * 1e6 < since):
                continue
            for line in reversed(list(self._log.lines(segment))):
                begun = begun or _is_before(line, chain, before)
                scanned += begun
                enough, likely = scanned >= SCANNED_MAX, begun and all(part in line for part in wanted)
                place = _place(line) if enough or likely else None
                if place is not None and likely:
                    yield place[0], _name(chain, place[1]), line
                if place is not None and enough:
                    yield place[0], _name(chain, place[1]), b""
                    return

    # ---- everything that matches

    async def export(self, who: Principal, query: AuditQuery, format_: Format) -> AsyncIterator[bytes]:
        """The oldest entries first, chain by chain, in pieces. A caller that may see all gets the lines as written."""
        only = self.only(who)
        if format_ == "csv":
            yield csv_header()
        for segment in self._segments(query):
            yield await asyncio.to_thread(self._piece, segment, query, only, format_)

    async def month(self, who: Principal, query: AuditQuery, month: str) -> AuditMonth:
        """`query` has the bounds, of the month or of a period without a name."""
        only, tally = self.only(who), AuditTally()
        for segment in self._segments(query):
            for entry in await asyncio.to_thread(self._entries, segment, query, only):
                tally.add(entry)
        found = tally.result(only or query.tenant, month)
        period = found if month else msgspec.structs.replace(found, since=query.since, until=query.until)
        return AuditMonth(summary=period, chains=self.chains())

    def _segments(self, query: AuditQuery) -> Iterator[Segment]:
        for chain in self._here():
            assert self._log is not None
            known = self._log.segments(chain)
            for place, segment in enumerate(known):
                ended = known[place + 1].at if place + 1 < len(known) else None
                if (query.until and segment.at >= query.until) or (ended is not None and ended < query.since):
                    continue
                yield segment

    def _piece(self, segment: Segment, query: AuditQuery, only: str, format_: Format) -> bytes:
        found = self._matching(segment, query, only)
        if format_ == "csv":
            return csv_rows((entry for _, entry in found))
        return b"".join(line if not only else _encode(entry) + b"\n" for line, entry in found)

    def _entries(self, segment: Segment, query: AuditQuery, only: str) -> list[AuditEntry]:
        return [entry for _, entry in self._matching(segment, query, only)]

    def _matching(self, segment: Segment, query: AuditQuery, only: str) -> Iterator[tuple[bytes, AuditEntry]]:
        assert self._log is not None
        wanted = needles(query, only)
        for line in self._log.lines(segment):
            if all(part in line for part in wanted) and (entry := _seen(line, query, only)) is not None:
                yield line, entry


def month_of(text: str) -> tuple[float, float]:
    """The bounds of a month like 2026-11, in UTC. Raises ValueError."""
    begins = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    ends = begins.replace(year=begins.year + begins.month // 12, month=begins.month % 12 + 1)
    return begins.timestamp(), ends.timestamp()


def _place(line: bytes) -> tuple[int, int] | None:
    """When, in microseconds, and the number: read from the front of a line. None for what is no line of a chain."""
    try:
        comma = line.index(b",", _SEQ)
        at = comma + 1 + _AT
        return round(float(line[at : line.index(b",", at)]) * 1e6), int(line[_SEQ:comma])
    except ValueError:
        return None


def _is_before(line: bytes, chain: str, before: tuple[int, str]) -> bool:
    place = _place(line)
    return place is not None and (place[0], _name(chain, place[1])) < before


def _name(chain: str, seq: int) -> str:
    return f"{chain}/{seq:016d}"


def _seen(line: bytes, query: AuditQuery, only: str) -> AuditEntry | None:
    """The entry as they see it, if it is one that they ask for. A line that was changed is none: see `verify`."""
    entry = entry_of(line)
    seen = None if entry is None else shown(entry, only)
    if seen is None:
        return None
    # Text is looked for in what they may see, not in what is hidden from them.
    return seen if matches(query, seen, line if seen is entry else _encode(seen)) else None
