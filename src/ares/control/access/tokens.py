"""Credentials: API tokens, kept as digests and checked against the view so that revocation is quick, and logins."""

import math
import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from ares.control.access.account_check import AccountCheck
from ares.control.access.logins import Logins
from ares.control.access.tenants import PLATFORM, no_tenant
from ares.control.access.users import escalation
from ares.control.state.ids import base32, base64url
from ares.control.state.records import Records, absent, same
from ares.control.state.view import View
from ares.core import keys
from ares.core.access import tokens as texts
from ares.core.access.jwt import looks_signed
from ares.core.access.table import WIDE, covers, may_grant, reaches, scope_of
from ares.core.access.tokens import denied, digest, parse, verify
from ares.core.refusal import Refusal
from ares.model.access import BootstrapRecord, Permission, Principal, Role, TokenRecord, UserRecord
from ares.model.node import MachineRole
from ares.ports.clock import Clock, Rng
from ares.ports.store import Committed, Compare, Delete, Put, Store, StoreUnavailable, Unknown

_ID_CHARS = 10
_SECRET_BYTES = 32
# Every replica keeps all of them in memory: of one tenant, and that a user made for itself.
TOKENS_MAX = 10_000
OWN_TOKENS_MAX = 100
# A token that ended is known for this long, so that its use is told from a guess.
FORGET_S = 30 * 86_400.0
_FORGET_AT_ONCE = 50
# A node's name becomes part of keys and of what people read in a terminal.
_NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?", re.ASCII)


class Tokens:
    """Verification reads memory only; an id the view does not know yet is looked up once in the store. The clock is one
    that never goes back: set back, it would revive tokens that have expired."""

    def __init__(
        self, store: Store, view: View, clock: Clock, rng: Rng, standing: AccountCheck, logins: Logins, keeping: Clock
    ) -> None:
        self._store = store
        self._standing = standing
        self._logins = logins
        self._view = view
        self._records = Records(store, view)
        self._clock = clock
        self._rng = rng
        # One that never runs ahead: it must not forget what is still valid.
        self._keeping = keeping

    async def authenticate(self, presented: str) -> Principal | Refusal:
        """The principal of a credential of any kind. A second call tells whether it is still valid."""
        parsed = parse(presented)
        if parsed is None:
            signed = looks_signed(presented)
            return await self._logins.authenticate(presented, self._now()) if signed else denied("malformed")
        token_id, secret = parsed
        record = self._view.tokens.get(token_id) or await self._read(token_id)
        if record is not None and (record.single_use or record.use == "link"):
            # A join token admits a node, a link opens a session; neither is ever a credential.
            record = None
        who = verify(record, secret, self._now())
        if isinstance(who, Refusal) or record is None:
            return who
        if record.use == "session":
            who = await self._of_session(who, record)
        return who if isinstance(who, Refusal) else await self._standing.of(who, record.user_id)

    async def _of_session(self, who: Principal, record: TokenRecord) -> Principal | Refusal:
        """The principal of a browser's session: the one of the token it was opened with, while that is good."""
        if not record.parent:
            return replace(who, proof="session")
        parent = self._view.tokens.get(record.parent) or await self._read(record.parent)
        if parent is None or parent.revoked or _over_at(parent) <= self._now():
            return denied("revoked", "token_ended")
        return replace(who, proof="session", token_id=parent.id)

    async def create(
        self,
        who: Principal,
        *,
        tenant: str,
        role: Role,
        name: str,
        ttl_s: float | None,
        user: str = "",
        permissions: tuple[Permission, ...] | None = None,
    ) -> tuple[str, TokenRecord] | Refusal:
        """The full token text is returned here and nowhere else, ever."""
        if not reaches(who, "tokens:admin", tenant):
            return escalation(f"tokens of {tenant!r} are not yours to make", "make tokens of your own tenant")
        if not may_grant(who, role, permissions):
            return escalation(f"{who.role!r} may not give {_shown(role, permissions)}: it may not do all that itself")
        if self._view.kept.tenants.get(tenant) is None and await self._store.get(keys.tenant(tenant)) is None:
            return no_tenant(tenant)
        await self._forget(tenant)
        if (no := self._no_room(lambda record: record.tenant == tenant, TOKENS_MAX, f"{tenant!r} has")) is not None:
            return no
        drafted = self._draft(tenant=tenant, role=role, name=name, ttl_s=ttl_s, permissions=permissions)
        return await self._issue(drafted) if not user else await self._issue_for(who, user, drafted)

    async def create_own(
        self,
        who: Principal,
        *,
        role: Role | None,
        name: str,
        ttl_s: float | None,
        permissions: tuple[Permission, ...] | None = None,
    ) -> tuple[str, TokenRecord] | Refusal:
        """A token for oneself, with no more than one has: in rights, and where it is a token's, in time."""
        role = role or who.role
        if not who.user:
            message = "this credential is no user's, so there is nobody to make a token for"
            return Refusal(code="no-such-user", message=message, fix="log in as a user, or have one made for you")
        if who.home:
            message = f"you are {who.user!r} of {who.home!r}, not of {who.tenant!r}"
            return Refusal(code="no-such-user", message=message, fix="leave the tenant out")
        if who.permissions is not None:
            only = ", ".join(who.permissions)
            return escalation(f"this credential is for {only} only", "use one that is not narrowed")
        if not covers(who.role, role):
            return escalation(f"you are {who.role!r}, and a token of the role {role!r} could do what you may not")
        await self._forget(who.tenant)
        if (no := self._no_room(lambda record: _is_own(record, who), OWN_TOKENS_MAX, "you have")) is not None:
            return no
        drafted = self._draft(tenant=who.tenant, role=role, name=name, ttl_s=ttl_s, permissions=permissions)
        until, limit = drafted[1].expires_at, who.expires_at
        if who.proof in ("token", "session") and limit is not None and (until is None or until > limit):
            left = max(limit - self._now(), 0.0)
            return escalation(
                f"the token you use ends in {left:.0f} s, and one made with it may not last longer",
                f"ask for at most {left:.0f} s, or log in",
            )
        return await self._issue_for(who, who.user, drafted)

    async def create_join(
        self, who: Principal, *, node: str | None, ttl_s: float, cluster: str | None = None
    ) -> tuple[str, TokenRecord]:
        """A token that admits one node, or one cluster, once. Without either's name: a node of any name."""
        role: Role = "node" if cluster is None else "cluster"
        text, record = self._draft(tenant=PLATFORM, role=role, name="join", ttl_s=ttl_s, node=node, single_use=True)
        return await self._issue((text, replace(record, cluster=cluster)))

    async def bootstrap(self, tenant: str, keep: Callable[[str], None]) -> str | None:
        """The first administrator's token of a new installation; None where there has been one, also if it was revoked
        since. `keep` saves the token before it is valid: a server that is killed in between leaves no valid token that
        is lost."""
        found = await self._records.read(keys.BOOTSTRAP, BootstrapRecord)
        if found is not None and not found[1].again:
            return None
        text, record = self._draft(tenant=tenant, role="admin", name="bootstrap", ttl_s=None)
        made = Put(keys.BOOTSTRAP, msgspec.json.encode(BootstrapRecord(token=record.id, at=record.created_at)))
        compare = absent(keys.BOOTSTRAP) if found is None else same(found[0])
        if found is None and (
            self._view.kept.users or any(token.role == "admin" for token in self._view.tokens.values())
        ):
            # From before this was written down.
            await self._records.write([compare], [made])
            return None
        keep(text)
        written = await self._store.txn([compare], [made, Put(keys.token(record.id), msgspec.json.encode(record))])
        if not isinstance(written, Committed):
            raise StoreUnavailable("the store did not confirm the first administrator; start again")
        return text if written.succeeded else None

    async def trade_join(self, presented: str, node: str) -> tuple[str, MachineRole] | Refusal:
        """Spends a join token and issues the own credential of the node, or of the cluster, in one transaction."""
        parsed = parse(presented)
        if parsed is None or not _NODE_NAME.fullmatch(node):
            return denied("malformed")
        kv = await self._store.get(keys.token(parsed[0]))
        record = None if kv is None else msgspec.json.decode(kv.value, type=TokenRecord)
        verified = verify(record, parsed[1], self._now())
        if isinstance(verified, Refusal):
            return verified
        assert kv is not None
        assert record is not None
        named = record.node if record.cluster is None else record.cluster
        if not record.single_use or named not in (None, node):
            return denied("unknown")
        role: MachineRole = "node" if record.cluster is None else "cluster"
        text, issued = self._draft(
            tenant=PLATFORM, role=role, name=node, ttl_s=None, node=node if role == "node" else None
        )
        issued = issued if role == "node" else replace(issued, cluster=node)
        spent = replace(record, revoked=True)
        written = await self._store.txn(
            [Compare(kv.key, "mod_revision", kv.mod_revision)],
            [Put(kv.key, msgspec.json.encode(spent)), Put(keys.token(issued.id), msgspec.json.encode(issued))],
        )
        if isinstance(written, Unknown):
            raise StoreUnavailable("the store did not confirm the join; make a new join token and try again")
        return (text, role) if written.succeeded else denied("revoked")

    async def list(self, who: Principal) -> Sequence[TokenRecord]:
        """Those the caller rules over: of its tenant, or with a wide role of all, or of the one it acts in."""
        tenant = who.tenant if who.home else None
        return await self._list(
            lambda record: reaches(who, "tokens:admin", record.tenant) and tenant in (None, record.tenant)
        )

    async def list_own(self, who: Principal) -> Sequence[TokenRecord]:
        return await self._list(lambda record: _is_of(record, who))

    async def revoke(self, who: Principal, token_id: str) -> bool | Refusal:
        """Repeatable; False when there is no such token among those the caller rules over."""
        wide = scope_of(who, "tokens:admin") in WIDE

        def judge(record: TokenRecord) -> bool | Refusal:
            if wide or (reaches(who, "tokens:admin", record.tenant) and may_grant(who, record.role)):
                return True
            if not reaches(who, "tokens:admin", record.tenant):
                return False
            return escalation(f"{who.role!r} may not revoke a token of the role {record.role!r}")

        return await self._revoke(token_id, judge)

    async def revoke_own(self, who: Principal, token_id: str) -> bool | Refusal:
        """A credential with less than its user has ends itself, and what has no more than it."""

        def judge(record: TokenRecord) -> bool | Refusal:
            if not _is_of(record, who):
                return False
            if record.id == who.token_id or (who.permissions is None and covers(who.role, record.role)):
                return True
            return escalation("that token may do more than the credential you use", "use one that may do as much")

        return await self._revoke(token_id, judge)

    # ---- limits and clean-up

    def _no_room(self, of: Callable[[TokenRecord], bool], limit: int, whose: str) -> Refusal | None:
        """Why no further token may be made. Ended tokens count until they are forgotten, as they take memory too."""
        there = sum(of(record) for record in self._view.tokens.values())
        if there < limit:
            return None
        message = f"{whose} {there:,} tokens, and there may be {limit:,}"
        fix = f"revoke some; those that ended are forgotten after {FORGET_S / 86_400:g} days"
        return Refusal(code="access-full", message=message, fix=fix)

    async def _forget(self, tenant: str) -> None:
        """Removes some tokens of the tenant that ended long ago. Called whenever the tenant makes a token."""
        before = self._keeping.wall() - FORGET_S
        own = (self._ended(record) for record in self._view.tokens.values() if record.tenant == tenant)
        old = [record.id for record in own if _over_at(record) < before][:_FORGET_AT_ONCE]
        if old:
            await self._records.write([], [Delete(keys.token(token_id)) for token_id in old])

    async def _list(self, wanted: Callable[[TokenRecord], bool]) -> Sequence[TokenRecord]:
        await self._view.catch_up()
        found = [self._ended(record) for record in self._view.tokens.values() if wanted(record)]
        return sorted(found, key=lambda record: record.created_at)

    def _ended(self, record: TokenRecord) -> TokenRecord:
        """A token that ended with its user is as good as revoked."""
        if not record.user or record.revoked:
            return record
        user = self._view.kept.users.get(f"{record.tenant}/{record.user}")
        gone = user is None or user.id != record.user_id
        return replace(record, revoked=True) if gone else record

    async def _revoke(self, token_id: str, judge: Callable[[TokenRecord], bool | Refusal]) -> bool | Refusal:
        async def attempt() -> bool | Refusal | None:
            found = await self._records.read(keys.token(token_id), TokenRecord)
            if found is None:
                return False
            kv, record = found
            verdict = judge(record)
            if verdict is not True:
                return verdict
            ended = replace(record, revoked=True, revoked_at=self._now())
            put = Put(kv.key, msgspec.json.encode(ended))
            return record.revoked or (await self._records.write([same(kv)], [put]) or None)

        return await self._records.settle(f"the end of token {token_id}", attempt)

    # ---- issuing

    async def _issue_for(
        self, who: Principal, name: str, drafted: tuple[str, TokenRecord]
    ) -> tuple[str, TokenRecord] | Refusal:
        """A user's token: written only if the user's record has not changed."""
        text, record = drafted

        async def attempt() -> tuple[str, TokenRecord] | Refusal | None:
            found = await self._records.read(keys.user(record.tenant, name), UserRecord)
            if found is None:
                fix = f"make it first: `ares user create {name}`; `ares user list` shows those there are"
                return Refusal(code="no-such-user", message=f"{record.tenant!r} has no user {name!r}", fix=fix)
            kv, user = found
            if (who.home or name != who.user) and not may_grant(who, user.role):
                return escalation(f"{who.role!r} may not make tokens for somebody of the role {user.role!r}")
            if not covers(user.role, record.role):
                message = f"{name!r} is {user.role!r}, and a token of the role {record.role!r} could do more"
                return escalation(message, f"make one of the role {user.role!r} or less")
            own = replace(record, user=name, user_id=user.id)
            key = keys.token(record.id)
            if await self._records.write([absent(key), same(kv)], [Put(key, msgspec.json.encode(own))]):
                return text, own
            # An earlier try of this very call may have landed.
            return (text, own) if await self._read(record.id) is not None else None

        return await self._records.settle("the new token", attempt)

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
        permissions: tuple[Permission, ...] | None = None,
    ) -> tuple[str, TokenRecord]:
        now = self._now()
        record = TokenRecord(
            id="", sha256="", tenant=tenant, role=role, name=name, created_at=now,
            expires_at=None if ttl_s is None else now + ttl_s,
            permissions=permissions, node=node, single_use=single_use,
        )  # fmt: skip
        return drafted(self._rng, record)

    def _now(self) -> float:
        return self._clock.wall()

    async def _read(self, token_id: str) -> TokenRecord | None:
        kv = await self._store.get(keys.token(token_id))
        return None if kv is None else msgspec.json.decode(kv.value, type=TokenRecord)


def drafted(rng: Rng, record: TokenRecord) -> tuple[str, TokenRecord]:
    """The text of a new token, and its record with an id and the digest of the secret."""
    token_id, secret = base32(rng, _ID_CHARS), base64url(rng.token(_SECRET_BYTES))
    return texts.format(token_id, secret), replace(record, id=token_id, sha256=digest(secret))


def _is_of(record: TokenRecord, who: Principal) -> bool:
    """Whether the token is the caller's own. A user of another tenant with the same name is another user."""
    return bool(who.user) and not who.home and (record.tenant, record.user) == (who.tenant, who.user)


def _is_own(record: TokenRecord, who: Principal) -> bool:
    """The same, without what browsers have: those are counted by themselves."""
    return record.use == "token" and _is_of(record, who)


def _over_at(record: TokenRecord) -> float:
    """When it ended, or when it was made at the earliest; never, if it has not ended."""
    if record.revoked:
        return record.revoked_at or record.created_at
    return math.inf if record.expires_at is None else record.expires_at


def _shown(role: Role, permissions: tuple[Permission, ...] | None) -> str:
    return f"the role {role!r}" + ("" if permissions is None else f" for {', '.join(permissions) or 'nothing'}")
