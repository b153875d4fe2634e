"""Sessions of browsers: opened with a token, a login or a link that is good for one, and ended with what opened them.

A session is a token whose text the browser keeps in a cookie that no script reads. Every replica takes it.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from ares.control.access.tokens import drafted
from ares.control.access.users import escalation
from ares.control.state.records import Records, absent, same
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.tokens import denied, parse, verify
from ares.core.refusal import Refusal
from ares.model.access import Principal, TokenRecord
from ares.ports.clock import Clock, Rng
from ares.ports.store import KV, Compare, Delete, Put, Store

SESSION_S: Final = 12 * 3600.0
LINK_S: Final = 600.0
# Of one user, or of one token of no user. The oldest makes room.
SESSIONS_MAX: Final = 20
_FORGET_AT_ONCE: Final = 50


class BrowserSessions:
    """The clock is one that never goes back, as for tokens."""

    def __init__(self, store: Store, view: View, clock: Clock, rng: Rng) -> None:
        self._store = store
        self._view = view
        self._records = Records(store, view)
        self._clock = clock
        self._rng = rng

    async def link(self, who: Principal) -> tuple[str, TokenRecord] | Refusal:
        """A secret that opens one session of the caller, within a few minutes. It is returned here and nowhere else."""
        if who.proof == "session":
            return escalation("a session in a browser makes no login links", "run `ares ui` where you are logged in")
        now = self._clock.wall()
        text, record = drafted(
            self._rng,
            TokenRecord(
                id="", sha256="", tenant=who.tenant, role=who.role, name=who.name, created_at=now,
                expires_at=_sooner(now + LINK_S, who.expires_at),
                user=who.user, user_id=who.user_id, permissions=(), use="link", parent=_parent(who),
                lends=who.permissions, until=who.expires_at,
            ),
        )  # fmt: skip
        return await self._made("the login link", text, record, [])

    async def invited(self, presented: str) -> Principal | Refusal:
        """The principal of a link that has not been used: it may open its session."""
        found = await self._unused(presented)
        if isinstance(found, Refusal):
            return found
        record = found[1]
        return Principal(
            token_id=record.parent or record.id, tenant=record.tenant, role=record.role, name=record.name,
            user=record.user, user_id=record.user_id, permissions=("self:read",), expires_at=record.expires_at,
        )  # fmt: skip

    async def open(self, who: Principal, presented: str) -> tuple[str, TokenRecord] | Refusal:
        """A session for what was presented: a link, which is spent by it, or any other credential."""
        if who.proof == "session":
            return escalation("this is a session already", "end it first to log in as another user")
        now = self._clock.wall()
        found = await self._unused(presented)
        link = None if isinstance(found, Refusal) else found
        until = who.expires_at if link is None else link[1].until
        text, record = drafted(
            self._rng,
            TokenRecord(
                id="", sha256="", tenant=who.tenant, role=who.role, name=who.name, created_at=now,
                expires_at=_sooner(now + SESSION_S, until),
                user=who.user, user_id=who.user_id, use="session",
                permissions=who.permissions if link is None else link[1].lends,
                parent=_parent(who) if link is None else link[1].parent,
            ),
        )  # fmt: skip
        return await self._made("the new session", text, record, [] if link is None else [link[0]])

    async def close(self, presented: str) -> None:
        """Ends a session. Ending it twice is no error."""
        parsed = parse(presented)
        record = None if parsed is None else self._view.tokens.get(parsed[0])
        if record is not None and record.use == "session":
            missing = Refusal(code="not-found")
            await self._records.delete(keys.token(record.id), "the session", missing)

    async def _unused(self, presented: str) -> tuple[KV, TokenRecord] | Refusal:
        parsed = parse(presented)
        found = None if parsed is None else await self._records.read(keys.token(parsed[0]), TokenRecord)
        if parsed is None or found is None or found[1].use != "link":
            return denied("unknown")
        shown = verify(found[1], parsed[1], self._clock.wall())
        return shown if isinstance(shown, Refusal) else found

    async def _made(
        self, what: str, text: str, record: TokenRecord, spent: Sequence[KV]
    ) -> tuple[str, TokenRecord] | Refusal:
        """Written together with the end of the link it came from, so that a link opens one session and no more."""
        key = keys.token(record.id)

        async def attempt() -> tuple[str, TokenRecord] | Refusal | None:
            conditions: list[Compare] = [absent(key), *(same(kv) for kv in spent)]
            ended = [Delete(keys.token(old)) for old in self._to_end(record)]
            gone = [Delete(kv.key) for kv in spent]
            if await self._records.write(conditions, [Put(key, msgspec.json.encode(record)), *gone, *ended]):
                return text, record
            if await self._store.get(key) is not None:
                # An earlier try of this very call landed.
                return text, record
            for kv in spent:
                if (await self._store.get(kv.key)) is None:
                    return denied("revoked", "link_used")
            return None

        return await self._records.settle(what, attempt)

    def _to_end(self, record: TokenRecord) -> list[str]:
        """What is over of the same kind and holder, and the oldest beyond the limit."""
        now = self._clock.wall()
        alike = [old for old in self._view.tokens.values() if _holder(old) == _holder(record) and old.id != record.id]
        over = [old.id for old in alike if old.revoked or (old.expires_at is not None and old.expires_at <= now)]
        live = sorted((old for old in alike if old.id not in set(over)), key=lambda old: old.created_at)
        surplus = [old.id for old in live[: max(0, len(live) + 1 - SESSIONS_MAX)]]
        return [*over[:_FORGET_AT_ONCE], *surplus[:_FORGET_AT_ONCE]]


_Holder = tuple[Literal["token", "session", "link"], str, str, str]


def _holder(record: TokenRecord) -> _Holder | None:
    """Whose session or link it is; None of tokens."""
    if record.use == "token":
        return None
    return record.use, record.tenant, record.user, "" if record.user else record.parent


def _parent(who: Principal) -> str:
    return who.token_id if who.proof == "token" else ""


def _sooner(at: float, limit: float | None) -> float:
    return at if limit is None else min(at, limit)
