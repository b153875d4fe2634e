"""Tenants, users, tokens, and the permissions of roles."""

from typing import Annotated, Any, Literal

from litestar.types import ASGIApp
from msgspec import Meta

from ares.api.identity import (
    AuthView,
    BegunLogin,
    LoginLink,
    NewToken,
    OpenedSession,
    ProviderView,
    RoleView,
    TokenView,
    WhoAmI,
)
from ares.api.jobs import YEAR_S
from ares.control.access.tenants import TenantChange
from ares.control.access.users import Identity, UserChange, UserWish
from ares.core.access.table import GRANTS, ROLES, TABLE, scope_of
from ares.core.refusal import Refusal
from ares.edge.rest.answers import Answer, TokenList, answer, empty
from ares.edge.rest.bodies import NoQuery, TokenName
from ares.edge.rest.http.cookies import from_own_page, keep_login, keep_session, login_cookie, own_origin
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import NOT_FOUND, Problem, granted
from ares.edge.rest.http.request_context import noted
from ares.model.access import Isolation, Permission, TenantRecord, TokenRecord, UserName, UserRecord
from ares.model.base import Note, Record, Shown, Slug

# Machines get theirs by joining.
PersonRole = Literal["viewer", "submitter", "tenant-admin", "auditor", "operator", "admin"]
Permissions = Annotated[tuple[Permission, ...], Meta(min_length=1, max_length=64)]
Ttl = Annotated[float, Meta(ge=1.0, le=10 * YEAR_S)]


class TokenBody(Record, frozen=True):
    """A token to create. Without `ttlS` it does not expire."""

    role: PersonRole
    name: TokenName = ""
    # The administrator's own tenant if not given.
    tenant: Slug | None = None
    ttl_s: Ttl | None = None
    # Whose it is: it has at most this user's role, and ends with the user.
    user: UserName | None = None
    # All that the role allows if not given.
    permissions: Permissions | None = None


class OwnTokenBody(Record, frozen=True):
    """A token for oneself. Without `role` it has one's own."""

    role: PersonRole | None = None
    name: TokenName = ""
    ttl_s: Ttl | None = None
    permissions: Permissions | None = None


class TenantBody(Record, frozen=True):
    name: Slug
    note: Note = ""
    isolation: Isolation = "any"


class UserBody(Record, frozen=True):
    """Somebody to let in. `identity` is "issuer subject", by which they log in."""

    name: UserName
    role: PersonRole = "submitter"
    # The administrator's own tenant if not given.
    tenant: Slug | None = None
    team: Slug | None = None
    identity: Identity = ""
    service: bool = False


class LoginBody(Record, frozen=True):
    """A login in a browser, with this provider."""

    provider: Slug


class LoginCodeBody(Record, frozen=True):
    """What the provider sent the browser back with."""

    code: Annotated[str, Meta(min_length=1, max_length=4096)]
    state: Annotated[str, Meta(min_length=1, max_length=256)]


class TenantList(Record, frozen=True):
    tenants: tuple[TenantRecord, ...]


class UserList(Record, frozen=True):
    users: tuple[UserRecord, ...]


class RoleList(Shown, frozen=True):
    roles: tuple[RoleView, ...]


async def get_auth(call: RequestCall[NoQuery, None]) -> ASGIApp:
    offered = tuple(
        ProviderView(
            name=provider.name,
            issuer=provider.issuer,
            client_id=provider.client_id,
            device_url=provider.device_url,
            token_url=provider.token_url,
            scopes=provider.scopes,
            send=provider.send,
        )
        for provider in call.edge.services.logins.providers
        if provider.device_url
    )
    return answer(AuthView(providers=offered, browser=call.edge.services.browser_logins.providers))


def _named(kind: str, made: object) -> tuple[str, ...]:
    """What was made, by its name, for the audit entry; nothing when it was refused."""
    return (f"{kind}/{made.name}",) if isinstance(made, TenantRecord | UserRecord) else ()


# ---- tenants


async def create_tenant(call: RequestCall[NoQuery, TenantBody]) -> ASGIApp:
    body = call.body
    made = await call.edge.services.tenants.create(call.who, body.name, note=body.note, isolation=body.isolation)
    call.made(*_named("tenants", made))
    return answer(made, status=201)


async def list_tenants(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(TenantList(tenants=await call.edge.services.tenants.list(call.who)))


async def get_tenant(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.tenants.get(call.who, call.path["name"]))


async def update_tenant(call: RequestCall[NoQuery, TenantChange]) -> ASGIApp:
    return answer(await call.edge.services.tenants.update(call.who, call.path["name"], call.body))


# ---- users


async def create_user(call: RequestCall[NoQuery, UserBody]) -> ASGIApp:
    body = call.body
    wish = UserWish(name=body.name, role=body.role, team=body.team, identity=body.identity, service=body.service)
    made = await call.edge.services.users.create(call.who, body.tenant or call.who.tenant, wish)
    call.made(*_named("users", made))
    return answer(made, status=201)


async def list_users(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(UserList(users=await call.edge.services.users.list(call.who)))


async def get_user(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.users.get(call.who, call.path["user"]))


async def update_user(call: RequestCall[NoQuery, UserChange]) -> ASGIApp:
    return answer(await call.edge.services.users.update(call.who, call.path["user"], call.body))


async def delete_user(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.users.delete(call.who, call.path["user"]))


# ---- tokens


async def create_token(call: RequestCall[NoQuery, TokenBody]) -> ASGIApp:
    body = call.body
    made = await call.edge.services.tokens.create(
        call.who,
        tenant=body.tenant or call.who.tenant,
        role=body.role,
        name=body.name,
        ttl_s=body.ttl_s,
        user=body.user or "",
        permissions=body.permissions,
    )
    return new_token(call, made)


async def create_own_token(call: RequestCall[NoQuery, OwnTokenBody]) -> ASGIApp:
    body = call.body
    made = await call.edge.services.tokens.create_own(
        call.who, role=body.role, name=body.name, ttl_s=body.ttl_s, permissions=body.permissions
    )
    return new_token(call, made)


def new_token(call: RequestCall[Any, Any], made: tuple[str, TokenRecord] | Refusal) -> ASGIApp:
    text, record = granted(made)
    call.made(f"tokens/{record.id}")
    return answer(NewToken(token=text, record=token_view(record)), status=201)


async def list_tokens(call: RequestCall[NoQuery, None]) -> ASGIApp:
    records = await call.edge.services.tokens.list(call.who)
    return answer(TokenList(tokens=tuple(token_view(record) for record in records)))


async def list_own_tokens(call: RequestCall[NoQuery, None]) -> ASGIApp:
    records = await call.edge.services.tokens.list_own(call.who)
    return answer(TokenList(tokens=tuple(token_view(record) for record in records)))


async def revoke_token(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return _revoked(await call.edge.services.tokens.revoke(call.who, call.path["token"]))


async def revoke_own_token(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return _revoked(await call.edge.services.tokens.revoke_own(call.who, call.path["token"]))


def _revoked(done: bool | Refusal) -> ASGIApp:
    return empty(None if granted(done) else NOT_FOUND)


# ---- sessions of browsers


async def create_login_link(call: RequestCall[NoQuery, None]) -> ASGIApp:
    text, record = granted(await call.edge.services.browser_logins.sessions.link(call.who))
    call.made(f"tokens/{record.id}")
    # Behind the hash: browsers keep it to themselves, so no log of a server or proxy has it.
    return answer(LoginLink(path=f"/ui/#login={text}", expires_at=record.expires_at or 0.0), status=201)


async def open_browser_session(call: RequestCall[NoQuery, None]) -> ASGIApp:
    made = await call.edge.services.browser_logins.sessions.open(call.who, call.token)
    if isinstance(made, Refusal) and made.code == "revoked":
        # A link that another browser used at the same moment.
        raise Problem("unauthenticated", reason=made.reason)
    return _opened(call, *granted(made))


def _opened(call: RequestCall[Any, Any], text: str, record: TokenRecord) -> ASGIApp:
    call.made(f"tokens/{record.id}")
    opened = OpenedSession(tenant=record.tenant, user=record.user, role=record.role, expires_at=record.expires_at)
    lasts_s = (record.expires_at or record.created_at) - record.created_at
    return answer(opened, status=201, headers={"set-cookie": keep_session(call.scope, text, lasts_s)})


async def begin_browser_login(call: RequestCall[NoQuery, LoginBody]) -> ASGIApp:
    _count_anonymous(call)
    login, url = granted(call.edge.services.browser_logins.begin(call.body.provider, own_origin(call.scope)))
    return answer(BegunLogin(url=url), headers={"set-cookie": keep_login(call.scope, login.text)})


async def finish_browser_login(call: RequestCall[NoQuery, LoginCodeBody]) -> ASGIApp:
    _count_anonymous(call)
    kept, origin = login_cookie(call.scope), own_origin(call.scope)
    found = await call.edge.services.browser_logins.finish(kept, call.body.code, call.body.state, origin)
    if isinstance(found, Refusal) and found.code == "login-failed":
        call.edge.services.telemetry.count("ares_auth_denials_total", 1, "login-failed")
        call.edge.meter.failed(call.scope)
    who, (text, record) = granted(found)
    noted(call.scope).who = who
    return _opened(call, text, record)


def _count_anonymous(call: RequestCall[Any, Any]) -> None:
    """No caller is known yet: only our own pages may ask, each address only so often."""
    if not from_own_page(call.scope):
        raise Problem("bad-origin", detail="logins are for this server's own pages", reason="bad_origin")
    call.edge.meter.anonymous(call.scope)


async def close_browser_session(call: RequestCall[NoQuery, None]) -> ASGIApp:
    """Repeatable. The browser forgets it in any case."""
    await call.edge.services.browser_logins.sessions.close(call.token)
    return Answer(b"", status=204, headers={"set-cookie": keep_session(call.scope, "", 0.0)})


def token_view(record: TokenRecord) -> TokenView:
    return TokenView(
        id=record.id,
        tenant=record.tenant,
        role=record.role,
        name=record.name,
        created_at=record.created_at,
        expires_at=record.expires_at,
        revoked=record.revoked,
        node=record.node,
        single_use=record.single_use,
        user=record.user,
        permissions=record.permissions,
    )


# ---- permissions


async def whoami(call: RequestCall[NoQuery, None]) -> ASGIApp:
    who = call.who
    return answer(
        WhoAmI(
            tenant=who.tenant,
            role=who.role,
            name=who.name,
            token_id=who.token_id,
            user=who.user,
            team=who.team,
            proof=who.proof,
            home=who.home,
            expires_at=who.expires_at,
            permissions={permission: scope for permission in TABLE if (scope := scope_of(who, permission)) is not None},
        )
    )


async def list_roles(call: RequestCall[NoQuery, None]) -> ASGIApp:
    views = tuple(
        RoleView(
            role=role,
            permissions={permission: scopes[role] for permission, scopes in TABLE.items() if role in scopes},
            grants=GRANTS.get(role, ()),
        )
        for role in ROLES
    )
    return answer(RoleList(roles=views))
