"""Requests about tenants, users, roles and tokens, as values like those in `calls`, and what they are answered."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ares.api.identity import LoginLink, NewToken, RoleView, TokenView, WhoAmI
from ares.edge.client.calls.calls import JSON, Call, Params, Request, part
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.access import Role, TenantRecord, UserRecord

Isolation = Literal["any", "process", "sandbox"]


# ---- tenants


def tenants() -> Call[tuple[TenantRecord, ...]]:
    return Call(Request("GET", "/v1/tenants"), tuple[TenantRecord, ...], "tenants")


def tenant(name: str) -> Call[TenantRecord]:
    return Call(Request("GET", f"/v1/tenants/{part(name)}"), TenantRecord)


def create_tenant(name: str, note: str = "", isolation: str = "any") -> Call[TenantRecord]:
    return _send("POST", "/v1/tenants", TenantRecord, {"name": name, "note": note, "isolation": isolation})


def set_tenant(name: str, changes: Mapping[str, Any]) -> Call[TenantRecord]:
    return _send("PATCH", f"/v1/tenants/{part(name)}", TenantRecord, changes, repeatable=True)


# ---- users


def users() -> Call[tuple[UserRecord, ...]]:
    return Call(Request("GET", "/v1/users"), tuple[UserRecord, ...], "users")


def user(name: str) -> Call[UserRecord]:
    return Call(Request("GET", f"/v1/users/{part(name)}"), UserRecord)


def create_user(body: Mapping[str, Any]) -> Call[UserRecord]:
    return _send("POST", "/v1/users", UserRecord, {key: value for key, value in body.items() if value is not None})


def set_user(name: str, changes: Mapping[str, Any]) -> Call[UserRecord]:
    return _send("PATCH", f"/v1/users/{part(name)}", UserRecord, changes, repeatable=True)


def delete_user(name: str) -> Call[UserRecord]:
    return Call(Request("DELETE", f"/v1/users/{part(name)}", repeatable=False), UserRecord)


# ---- roles and one's own tokens


def roles() -> Call[tuple[RoleView, ...]]:
    return Call(Request("GET", "/v1/roles"), tuple[RoleView, ...], "roles")


def own_tokens() -> Call[tuple[TokenView, ...]]:
    return Call(Request("GET", "/v1/me/tokens"), tuple[TokenView, ...], "tokens")


def create_own_token(body: Mapping[str, Any]) -> Call[NewToken]:
    return _send("POST", "/v1/me/tokens", NewToken, {key: value for key, value in body.items() if value is not None})


def revoke_own_token(token_id: str) -> Call[None]:
    return Call(Request("DELETE", f"/v1/me/tokens/{part(token_id)}"), None)


def login_link() -> Call[LoginLink]:
    return Call(Request("POST", "/v1/me/login-links", repeatable=False), LoginLink)


def whoami() -> Call[WhoAmI]:
    return Call(Request("GET", "/v1/whoami"), WhoAmI)


def tokens() -> Call[tuple[TokenView, ...]]:
    return Call(Request("GET", "/v1/tokens"), tuple[TokenView, ...], "tokens")


def create_token(body: Params) -> Call[NewToken]:
    return _send("POST", "/v1/tokens", NewToken, {key: value for key, value in body.items() if value is not None})


def create_join_token(body: Params) -> Call[NewToken]:
    return _send("POST", "/v1/join-tokens", NewToken, {key: value for key, value in body.items() if value is not None})


def revoke_token(token_id: str) -> Call[None]:
    return Call(Request("DELETE", f"/v1/tokens/{part(token_id)}"), None)


def _send(method: str, path: str, kind: Any, body: Mapping[str, Any], *, repeatable: bool = False) -> Call[Any]:
    return Call(Request(method, path, (), msgspec.json.encode(body), JSON, repeatable), kind)


def _wish(
    role: Role | None,
    name: str,
    ttl_s: float | None,
    permissions: Sequence[str] | None,
    tenant: str | None = None,
    user: str | None = None,
) -> dict[str, Any]:
    narrowed = None if permissions is None else list(permissions)
    return {"role": role, "name": name, "tenant": tenant, "ttlS": ttl_s, "user": user, "permissions": narrowed}


def _invitation(node: str | None, ttl_s: float | None, cluster: str | None, any_name: bool) -> dict[str, Any]:
    return {"node": node, "ttlS": ttl_s, "cluster": cluster, "anyName": True if any_name else None}


class AsyncIdentityMethods(AsyncSends):
    """Tenants, users and tokens, of the asynchronous client."""

    async def whoami(self) -> WhoAmI:
        """The identity that the server sees for this client, and its permissions."""
        return await self.send(whoami())

    async def login_link(self) -> LoginLink:
        """Opens the dashboard in a browser as who this client is: once, within minutes. Its path is a secret."""
        return await self.send(login_link())

    async def roles(self) -> tuple[RoleView, ...]:
        """What each role may do."""
        return await self.send(roles())

    async def tenants(self) -> tuple[TenantRecord, ...]:
        """The tenants, as far as the caller may know them."""
        return await self.send(tenants())

    async def create_tenant(self, name: str, *, note: str = "", isolation: Isolation = "any") -> TenantRecord:
        """Makes a tenant."""
        return await self.send(create_tenant(name, note, isolation))

    async def set_tenant(self, name: str, **changes: Any) -> TenantRecord:
        """Changes a tenant: note="...", isolation="sandbox", disabled=True."""
        return await self.send(set_tenant(name, changes))

    async def users(self) -> tuple[UserRecord, ...]:
        """The users of the tenant."""
        return await self.send(users())

    async def create_user(self, name: str, *, role: Role = "submitter", **more: Any) -> UserRecord:
        """Creates a user: team="vision", identity="issuer subject", service=True, tenant="alpha"."""
        return await self.send(create_user({"name": name, "role": role, **more}))

    async def set_user(self, name: str, **changes: Any) -> UserRecord:
        """Changes a user: role="viewer", team=None, identity="", disabled=True."""
        return await self.send(set_user(name, changes))

    async def delete_user(self, name: str) -> UserRecord:
        """Deletes a user and returns its last record. Its tokens end with it."""
        return await self.send(delete_user(name))

    async def tokens(self) -> tuple[TokenView, ...]:
        """The tokens, without their secrets."""
        return await self.send(tokens())

    async def create_token(
        self,
        *,
        role: Role = "submitter",
        name: str = "",
        tenant: str | None = None,
        ttl_s: float | None = None,
        user: str | None = None,
        permissions: Sequence[str] | None = None,
    ) -> NewToken:
        """A new API token. Its secret is shown this once."""
        return await self.send(create_token(_wish(role, name, ttl_s, permissions, tenant, user)))

    async def create_own_token(
        self,
        *,
        role: Role | None = None,
        name: str = "",
        ttl_s: float | None = None,
        permissions: Sequence[str] | None = None,
    ) -> NewToken:
        """A token for the user that this client is. Its secret is shown this once."""
        return await self.send(create_own_token(_wish(role, name, ttl_s, permissions)))

    async def create_join_token(
        self,
        *,
        node: str | None = None,
        ttl_s: float | None = None,
        cluster: str | None = None,
        any_name: bool = False,
    ) -> NewToken:
        """A token that admits one machine once: the node or cluster of this name, or any node of a new name."""
        return await self.send(create_join_token(_invitation(node, ttl_s, cluster, any_name)))

    async def revoke_token(self, token_id: str) -> None:
        """Makes a token useless."""
        await self.send(revoke_token(token_id))


class IdentityMethods(Sends):
    """Tenants, users and tokens, of the blocking client, generated."""

    def whoami(self) -> WhoAmI:
        """The identity that the server sees for this client, and its permissions."""
        return self.send(whoami())

    def login_link(self) -> LoginLink:
        """Opens the dashboard in a browser as who this client is: once, within minutes. Its path is a secret."""
        return self.send(login_link())

    def roles(self) -> tuple[RoleView, ...]:
        """What each role may do."""
        return self.send(roles())

    def tenants(self) -> tuple[TenantRecord, ...]:
        """The tenants, as far as the caller may know them."""
        return self.send(tenants())

    def create_tenant(self, name: str, *, note: str = "", isolation: Isolation = "any") -> TenantRecord:
        """Makes a tenant."""
        return self.send(create_tenant(name, note, isolation))

    def set_tenant(self, name: str, **changes: Any) -> TenantRecord:
        """Changes a tenant: note="...", isolation="sandbox", disabled=True."""
        return self.send(set_tenant(name, changes))

    def users(self) -> tuple[UserRecord, ...]:
        """The users of the tenant."""
        return self.send(users())

    def create_user(self, name: str, *, role: Role = "submitter", **more: Any) -> UserRecord:
        """Creates a user: team="vision", identity="issuer subject", service=True, tenant="alpha"."""
        return self.send(create_user({"name": name, "role": role, **more}))

    def set_user(self, name: str, **changes: Any) -> UserRecord:
        """Changes a user: role="viewer", team=None, identity="", disabled=True."""
        return self.send(set_user(name, changes))

    def delete_user(self, name: str) -> UserRecord:
        """Deletes a user and returns its last record. Its tokens end with it."""
        return self.send(delete_user(name))

    def tokens(self) -> tuple[TokenView, ...]:
        """The tokens, without their secrets."""
        return self.send(tokens())

    def create_token(
        self,
        *,
        role: Role = "submitter",
        name: str = "",
        tenant: str | None = None,
        ttl_s: float | None = None,
        user: str | None = None,
        permissions: Sequence[str] | None = None,
    ) -> NewToken:
        """A new API token. Its secret is shown this once."""
        return self.send(create_token(_wish(role, name, ttl_s, permissions, tenant, user)))

    def create_own_token(
        self,
        *,
        role: Role | None = None,
        name: str = "",
        ttl_s: float | None = None,
        permissions: Sequence[str] | None = None,
    ) -> NewToken:
        """A token for the user that this client is. Its secret is shown this once."""
        return self.send(create_own_token(_wish(role, name, ttl_s, permissions)))

    def create_join_token(
        self,
        *,
        node: str | None = None,
        ttl_s: float | None = None,
        cluster: str | None = None,
        any_name: bool = False,
    ) -> NewToken:
        """A token that admits one machine once: the node or cluster of this name, or any node of a new name."""
        return self.send(create_join_token(_invitation(node, ttl_s, cluster, any_name)))

    def revoke_token(self, token_id: str) -> None:
        """Makes a token useless."""
        self.send(revoke_token(token_id))
