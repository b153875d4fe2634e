"""Users of tenants, people and programs. No user can create or change a user with a higher role."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from ares.control.access.tenants import no_tenant
from ares.control.state.ids import base32
from ares.control.state.records import Records, absent, same
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.table import may_grant, reaches
from ares.core.refusal import Refusal
from ares.model.access import IdentityRecord, Principal, Role, TenantRecord, UserName, UserRecord
from ares.model.base import Record, Slug
from ares.ports.clock import Clock, Rng
from ares.ports.store import Compare, Delete, Op, Put, Store

# "issuer subject", as the provider writes both.
Identity = Annotated[str, Meta(max_length=512, pattern=r"^(\S{1,255} [^\x00-\x1f\x7f]{1,255})?$(?!\n)")]
_ID_CHARS = 10
# Of one tenant: every replica keeps all of them in memory.
USERS_MAX = 10_000
_NONE = Refusal(code="not-found")


class UserWish(Record, frozen=True):
    """A request for a new user."""

    name: UserName
    role: Role
    team: Slug | None = None
    identity: Identity = ""
    service: bool = False


class UserChange(Record, frozen=True):
    """What is left out stays as it is."""

    role: Role | UnsetType = UNSET
    team: Slug | UnsetType | None = UNSET
    identity: Identity | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class Users:
    def __init__(self, store: Store, view: View, clock: Clock, rng: Rng) -> None:
        self._records = Records(store, view)
        self._view = view
        self._clock = clock
        self._rng = rng

    # ---- reading

    async def list(self, who: Principal) -> tuple[UserRecord, ...]:
        """Those of the caller's tenant, by name."""
        await self._view.catch_up()
        users, prefix = self._view.kept.users, f"{who.tenant}/"
        return tuple(users[key] for key in sorted(users) if key.startswith(prefix))

    async def get(self, who: Principal, name: str) -> UserRecord | None:
        found = await self._records.read(keys.user(who.tenant, name), UserRecord)
        return None if found is None else found[1]

    # ---- changing

    async def create(self, who: Principal, tenant: str, wish: UserWish) -> UserRecord | Refusal:
        if not reaches(who, "users:admin", tenant):
            return escalation(f"users of {tenant!r} are not yours to make", "make users of your own tenant")
        return _above(who, wish.role) or await self.enter(tenant, wish, who.subject)

    async def enter(self, tenant: str, wish: UserWish, by: str) -> UserRecord | Refusal:
        """Writes a user that is known to be allowed."""
        if wish.service and wish.identity:
            return Refusal(code="invalid", message="a program's account has tokens only; leave the identity out")
        if await self._records.read(keys.tenant(tenant), TenantRecord) is None:
            return no_tenant(tenant)
        if (no := self._no_room(tenant)) is not None:
            return no
        if wish.name in self._view.tokens:
            # Records name their maker: a user by name, a token by its id. The two must not be equal.
            return Refusal(code="user-exists", message=f"{wish.name!r} is the id of a token", fix="choose another name")
        record = UserRecord(
            tenant=tenant,
            name=wish.name,
            role=wish.role,
            id=base32(self._rng, _ID_CHARS),
            service=wish.service,
            team=wish.team,
            identity=wish.identity,
            created_at=self._clock.wall(),
            created_by=by,
        )
        key = keys.user(tenant, wish.name)
        compares, ops = _claim("", record)

        async def attempt() -> UserRecord | Refusal | None:
            put = Put(key, msgspec.json.encode(record))
            if await self._records.write([absent(key), *compares], [put, *ops]):
                return record
            found = await self._records.read(key, UserRecord)
            if found is None:
                return await self._taken(record)
            # An earlier try of this very call may have landed.
            if found[1] == record:
                return record
            fix = f"`ares user show {wish.name}` shows who it is; choose another name, or change that one"
            return Refusal(code="user-exists", message=f"{tenant!r} has a user {wish.name!r} already", fix=fix)

        return await self._records.settle(f"the user {wish.name!r}", attempt)

    async def update(self, who: Principal, name: str, change: UserChange) -> UserRecord | Refusal:
        given = {key: value for key, value in msgspec.structs.asdict(change).items() if value is not UNSET}

        async def attempt() -> UserRecord | Refusal | None:
            found = await self._records.read(keys.user(who.tenant, name), UserRecord)
            if found is None:
                return _NONE
            kv, record = found
            changed = replace(record, **given)
            if changed == record:
                return record
            no = _above(who, record.role) or _above(who, changed.role) or _locked_out(who, record, changed)
            if no is not None:
                return no
            if changed.service and changed.identity:
                return Refusal(code="invalid", message="a program's account has tokens only; leave the identity out")
            compares, ops = _claim(record.identity, changed)
            if await self._records.write([same(kv), *compares], [Put(kv.key, msgspec.json.encode(changed)), *ops]):
                return changed
            return await self._taken(changed)

        return await self._records.settle(f"the change of user {name!r}", attempt)

    async def delete(self, who: Principal, name: str) -> UserRecord | Refusal:
        """The user as it was. Its tokens end with it."""
        ending: UserRecord | None = None

        async def attempt() -> UserRecord | Refusal | None:
            nonlocal ending
            found = await self._records.read(keys.user(who.tenant, name), UserRecord)
            if found is None:
                # An earlier try of this very call may have landed.
                return ending or _NONE
            kv, record = found
            no = _above(who, record.role) or _locked_out(who, record, None)
            if no is not None:
                return no
            _, ops = _claim(record.identity, replace(record, identity=""))
            ending = record
            return record if await self._records.write([same(kv)], [Delete(kv.key), *ops]) else None

        return await self._records.settle(f"the end of user {name!r}", attempt)

    def _no_room(self, tenant: str) -> Refusal | None:
        prefix = f"{tenant}/"
        there = sum(key.startswith(prefix) for key in self._view.kept.users)
        if there < USERS_MAX:
            return None
        message = f"{tenant!r} has {there:,} users, and a tenant has at most {USERS_MAX:,}"
        return Refusal(code="access-full", message=message, fix="delete users that are not needed any more")

    async def _taken(self, record: UserRecord) -> Refusal | None:
        """Why it could not be written, if it was for its identity; whose that is, is not told."""
        if not record.identity:
            return None
        found = await self._records.read(keys.identity(record.identity), IdentityRecord)
        if found is None or (found[1].tenant, found[1].user) == (record.tenant, record.name):
            return None
        message = "another user has this identity; a login is one user's"
        return Refusal(code="identity-taken", message=message, fix="take it from that user first")


def escalation(message: str, fix: str = "") -> Refusal:
    return Refusal(code="escalation", message=message, fix=fix, reason="escalation")


def _above(who: Principal, role: Role) -> Refusal | None:
    if may_grant(who, role):
        return None
    return escalation(f"{who.role!r} may not give, change or take away the role {role!r}", "ask somebody who has it")


def _locked_out(who: Principal, record: UserRecord, changed: UserRecord | None) -> Refusal | None:
    """Refuses a user that ends or changes its own rights: a slip would lock it out."""
    if who.user != record.name or (who.home or who.tenant) != record.tenant:
        return None
    if changed is not None and (changed.role, changed.disabled) == (record.role, record.disabled):
        return None
    message = f"{record.name!r} is you: this would change what you may do yourself"
    return Refusal(code="self-lockout", message=message, fix="have another administrator do it")


def _claim(old: str, record: UserRecord) -> tuple[list[Compare], list[Op]]:
    """The compares and writes that give an identity to this user alone, and release the old one."""
    new = record.identity
    if old == new:
        return [], []
    compares: list[Compare] = []
    ops: list[Op] = [] if not old else [Delete(keys.identity(old))]
    if new:
        value = IdentityRecord(identity=new, tenant=record.tenant, user=record.name)
        compares.append(absent(keys.identity(new)))
        ops.append(Put(keys.identity(new), msgspec.json.encode(value)))
    return compares, ops
