"""API tokens: created once, kept as digests, checked against the view so that revocation is quick."""

import re
from collections.abc import Callable, Sequence

import msgspec

from ares.core import keys
from ares.core.access import tokens as texts
from ares.core.access.tokens import Denied, digest, parse, verify
from ares.model.access import Principal, Role, TokenRecord
from ares.ports.clock import Clock, Rng
from ares.ports.store import Committed, Compare, Put, Store, StoreUnavailable, Unknown
from ares.services.ids import base32, base64url
from ares.services.view import View

_ID_CHARS = 10
_SECRET_BYTES = 32
_PLATFORM = "system"
# A node's name becomes part of keys and of what people read in a terminal.
_NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?", re.ASCII)


class Tokens:
    """Verification reads memory only; an id the view does not know yet is looked up once in the store."""

    def __init__(self, store: Store, view: View, clock: Clock, rng: Rng) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._rng = rng
        self._ahead_s = clock.wall() - clock.monotonic()

    async def authenticate(self, presented: str) -> Principal | Denied:
        parsed = parse(presented)
        if parsed is None:
            return Denied(reason="malformed")
        token_id, secret = parsed
        record = self._view.tokens.get(token_id) or await self._read(token_id)
        if record is not None and record.single_use:
            # A join token admits a node; it is never a credential.
            record = None
        return verify(record, secret, self._now())

    async def create(
        self, who: Principal, *, tenant: str, role: Role, name: str, ttl_s: float | None
    ) -> tuple[str, TokenRecord]:
        """The full token text is returned here and nowhere else, ever."""
        return await self._issue(self._draft(tenant=tenant, role=role, name=name, ttl_s=ttl_s))

    async def create_join(self, who: Principal, *, node: str | None, ttl_s: float) -> tuple[str, TokenRecord]:
        """A token that admits one node, once."""
        return await self._issue(
            self._draft(tenant=_PLATFORM, role="node", name="join", ttl_s=ttl_s, node=node, single_use=True)
        )

    async def bootstrap(self, tenant: str, keep: Callable[[str], None]) -> str:
        """The first administrator's token of a new installation. It is kept before it is valid: a server that is
        killed in between leaves no administrator whose token nobody has."""
        drafted = self._draft(tenant=tenant, role="admin", name="bootstrap", ttl_s=None)
        keep(drafted[0])
        text, _ = await self._issue(drafted)
        return text

    async def trade_join(self, presented: str, node: str) -> str | Denied:
        """Spends a join token and issues the node's own credential in one transaction."""
        parsed = parse(presented)
        if parsed is None or not _NODE_NAME.fullmatch(node):
            return Denied(reason="malformed")
        kv = await self._store.get(keys.token(parsed[0]))
        record = None if kv is None else msgspec.json.decode(kv.value, type=TokenRecord)
        verified = verify(record, parsed[1], self._now())
        if isinstance(verified, Denied):
            return verified
        assert kv is not None
        assert record is not None
        if not record.single_use or record.node not in (None, node):
            return Denied(reason="unknown")
        text, issued = self._draft(tenant=_PLATFORM, role="node", name=node, ttl_s=None, node=node)
        spent = msgspec.structs.replace(record, revoked=True)
        written = await self._store.txn(
            [Compare(kv.key, "mod_revision", kv.mod_revision)],
            [Put(kv.key, msgspec.json.encode(spent)), Put(keys.token(issued.id), msgspec.json.encode(issued))],
        )
        if isinstance(written, Unknown):
            raise StoreUnavailable("the store did not confirm the join; make a new join token and try again")
        return text if written.succeeded else Denied(reason="revoked")

    async def list(self, who: Principal) -> Sequence[TokenRecord]:
        await self._view.catch_up()
        return sorted(self._view.tokens.values(), key=lambda record: record.created_at)

    async def revoke(self, who: Principal, token_id: str) -> bool:
        """Repeatable; False when there is no such token."""
        while True:
            kv = await self._store.get(keys.token(token_id))
            if kv is None:
                return False
            record = msgspec.json.decode(kv.value, type=TokenRecord)
            revoked = msgspec.json.encode(msgspec.structs.replace(record, revoked=True))
            written = await self._store.txn([Compare(kv.key, "mod_revision", kv.mod_revision)], [Put(kv.key, revoked)])
            if isinstance(written, Committed) and written.succeeded:
                await self._view.reach(written.revision)
                return True

    # ---- issuing

    async def _issue(self, drafted: tuple[str, TokenRecord]) -> tuple[str, TokenRecord]:
        _, record = drafted
        written = await self._store.txn(
            [Compare(keys.token(record.id), "mod_revision", 0)],
            [Put(keys.token(record.id), msgspec.json.encode(record))],
        )
        if not isinstance(written, Committed) or not written.succeeded:
            raise StoreUnavailable("the store did not confirm the new token; try again")
        return drafted

    def _draft(
        self,
        *,
        tenant: str,
        role: Role,
        name: str,
        ttl_s: float | None,
        node: str | None = None,
        single_use: bool = False,
    ) -> tuple[str, TokenRecord]:
        token_id = base32(self._rng, _ID_CHARS)
        secret = base64url(self._rng.token(_SECRET_BYTES))
        now = self._now()
        record = TokenRecord(
            id=token_id,
            sha256=digest(secret),
            tenant=tenant,
            role=role,
            name=name,
            created_at=now,
            expires_at=None if ttl_s is None else now + ttl_s,
            node=node,
            single_use=single_use,
        )
        return texts.format(token_id, secret), record

    def _now(self) -> float:
        """The wall clock, but never less than it began with and time has added: set back, it revives no token."""
        return max(self._clock.wall(), self._ahead_s + self._clock.monotonic())

    async def _read(self, token_id: str) -> TokenRecord | None:
        kv = await self._store.get(keys.token(token_id))
        return None if kv is None else msgspec.json.decode(kv.value, type=TokenRecord)
