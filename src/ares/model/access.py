"""Tenants and their users, tokens at rest, the principal that a request acts as, and trusted identity providers."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import Note, Record, Slug
from ares.model.isolation import Isolation

# "admin" is the platform's administrator; a tenant's own is "tenant-admin". Machines have roles of their own.
Role = Literal["viewer", "submitter", "tenant-admin", "auditor", "operator", "admin", "node", "cluster"]
Permission = Literal[
    "self:read",
    "jobs:read", "jobs:submit", "jobs:cancel", "jobs:retry", "jobs:hold", "jobs:update", "jobs:extend", "jobs:exec",
    "logs:read", "outputs:read", "events:read",
    "priority:exceed",
    "tenants:read", "tenants:admin", "users:read", "users:admin", "tokens:admin",
    "quota:read", "quota:admin", "policies:read", "policies:admin", "secrets:read", "secrets:admin",
    "crons:read", "crons:admin", "datasets:read", "datasets:admin",
    "audit:read", "alerts:admin",
    "nodes:read", "nodes:admit", "clusters:admin", "profile:admin", "reservations:admin", "metrics:read", "store:admin",
    "agent:link", "cluster:link", "machines:join",
]  # fmt: skip
# How far a permission goes: what the principal made itself, its own tenant, facts about every tenant's jobs but not
# their contents, everything, everything but only for a stated reason, or what a machine was itself granted.
Scope = Literal["mine", "tenant", "facts", "any", "glass", "self"]
# By what a principal proved its identity.
Proof = Literal["token", "jwt", "certificate", "session", "federation"]


class TokenRecord(Record, frozen=True):
    """An API token at rest: only the digest of its secret is kept."""

    id: str
    sha256: str
    tenant: str
    role: Role
    name: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    revoked: bool = False
    revoked_at: float = 0.0
    # The user it belongs to: it has at most the user's role, and ends with the user. Empty: of no user.
    user: str = ""
    # The id of that user's record: another user with the same name later does not get its tokens.
    user_id: str = ""
    # What the token may be used for at most; None: all that its role allows.
    permissions: tuple[Permission, ...] | None = None
    # Set for node credentials: the only node it may speak for.
    node: str | None = None
    # The same for a cluster.
    cluster: str | None = None
    # Set for join tokens: valid once.
    single_use: bool = False
    # A browser's session, by the secret in its cookie; or a link that opens one, once. A link may do nothing else.
    use: Literal["token", "session", "link"] = "token"
    # Of both: the token they were made with, and end with; empty: made with a login.
    parent: str = ""
    # Of a link: what its session may do, and when that ends at the latest.
    lends: tuple[Permission, ...] | None = None
    until: float | None = None


class BootstrapRecord(Record, frozen=True):
    """The first administrator was made, once and for all, unless the operator of the store asks for one again."""

    token: str = ""
    at: float = 0.0
    again: bool = False


class Principal(Record, frozen=True):
    """The verified identity behind a request."""

    token_id: str
    tenant: str
    role: Role
    name: str = ""
    # The user of the tenant that it is; empty for tokens of no user.
    user: str = ""
    # The id of that user's record: a name that is given out again is another user.
    user_id: str = ""
    team: str | None = None
    permissions: tuple[Permission, ...] | None = None
    proof: Proof = "token"
    # The principal's own tenant, where it acts in another one as that tenant's delegate.
    home: str = ""
    # When the credential ends by itself.
    expires_at: float | None = None
    node: str | None = None
    cluster: str | None = None

    @property
    def subject(self) -> str:
        """The account that its actions are counted for, and that may undo them. For a delegate from another tenant with
        that tenant's name before a colon, which no user's name has: it is not the user of the same name here."""
        own = self.user or self.token_id
        return f"{self.home}:{own}" if self.home else own

    @property
    def author(self) -> str:
        """The author in records for people. The name of a token never stands alone: a token may have any name."""
        return f"{self.name} ({self.subject})" if self.name and not self.user else self.subject


# ---- tenants and their users


UserName = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$(?!\n)")]


class TenantRecord(Record, frozen=True):
    """A tenant. Disabled, none of its credentials is accepted; what runs goes on."""

    name: Slug
    created_at: float = 0.0
    created_by: str = ""
    disabled: bool = False
    note: Note = ""
    # The isolation that its jobs need.
    isolation: Isolation = "any"


class UserRecord(Record, frozen=True):
    """A person or a program of a tenant. Their tokens have at most this role."""

    tenant: Slug
    name: UserName
    role: Role
    # Drawn when the record is made: a name that is given out again names another user.
    id: str = ""
    # A program's account: no login, tokens only.
    service: bool = False
    team: Slug | None = None
    # The user's identity at a provider: "issuer subject"; empty: tokens only.
    identity: str = ""
    disabled: bool = False
    created_at: float = 0.0
    created_by: str = ""


class IdentityRecord(Record, frozen=True):
    """The user that logs in by an identity of a provider: one user, of one tenant."""

    identity: str
    tenant: Slug
    user: UserName


# ---- identity providers


# Algorithms with key pairs only: the key that checks such a signature cannot make one.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
Words = Annotated[str, Meta(max_length=512)]


class Provider(Record, frozen=True):
    """An OpenID Connect provider. Keys come from `jwks_url` and from nowhere else."""

    name: Slug
    # Exactly as its tokens have them.
    issuer: Words
    audience: Words
    jwks_url: Words
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256", "EdDSA")
    # For `ares login`; without them people bring their own signed tokens.
    client_id: Words = ""
    device_url: Words = ""
    token_url: Words = ""
    # For logins in a browser; the address back to here is the one that the browser calls this server by, unless given.
    authorize_url: Words = ""
    redirect_url: Words = ""
    client_secret_file: Words = ""
    scopes: Words = "openid profile email offline_access"
    # Which of the tokens of a login is sent to Ares.
    send: Literal["id_token", "access_token"] = "id_token"
    # The claim that names a user's tenant: with it a user's record must be of that tenant.
    tenant_claim: Words = ""
    # A person it vouches for gets a user's record at the first login, in this tenant or the claimed one.
    create: bool = False
    tenant: Slug | None = None
    role: Role = "viewer"
    # Roles by what a claim says (the first in this order that it has); a person with none of them is not let in.
    role_claim: Words = ""
    roles: dict[str, Role] = {}
    name_claim: Words = "preferred_username"
