"""Tokens, roles and certificates, and who a caller is."""

from typing import Literal

from ares.model.access import Permission, Proof, Role, Scope
from ares.model.base import Record, Shown
from ares.model.node import MachineRole


class TokenView(Shown, frozen=True):
    """A token without its secret and its digest."""

    id: str
    tenant: str
    role: Role
    name: str
    created_at: float
    expires_at: float | None
    revoked: bool
    node: str | None
    single_use: bool
    user: str = ""
    permissions: tuple[Permission, ...] | None = None


class NewToken(Shown, frozen=True):
    """`token` is shown this once."""

    token: str
    record: TokenView

    def __repr__(self) -> str:
        return f"NewToken(id={self.record.id!r})"


class LoginLink(Shown, frozen=True):
    """`path` is shown this once: opened in a browser at the server's address, it logs in. It ends at its first use."""

    path: str
    expires_at: float

    def __repr__(self) -> str:
        return "LoginLink()"


class OpenedSession(Shown, frozen=True):
    """Its secret is in the cookie that came with this answer."""

    tenant: str
    user: str
    role: Role
    expires_at: float | None


class RoleView(Shown, frozen=True):
    """What a role may do and how far, and which roles it may give to others."""

    role: Role
    permissions: dict[str, Scope]
    grants: tuple[Role, ...]


class WhoAmI(Shown, frozen=True):
    """`permissions` says how far each goes. `home` is the caller's own tenant where it acts in another."""

    tenant: str
    role: Role
    name: str
    token_id: str
    user: str
    team: str | None
    proof: Proof
    home: str
    expires_at: float | None
    permissions: dict[str, Scope]


class ProviderView(Shown, frozen=True):
    """What a client needs to log in with a provider: RFC 8628."""

    name: str
    issuer: str
    client_id: str
    device_url: str
    token_url: str
    scopes: str
    send: Literal["id_token", "access_token"]


class AuthView(Shown, frozen=True):
    """How one gets in: with an API token in any case. `browser` names the providers that browsers may log in with."""

    providers: tuple[ProviderView, ...]
    browser: tuple[str, ...] = ()


class BegunLogin(Shown, frozen=True):
    """Where the browser goes to log in. What ties the login to it is in the cookie that came with this answer."""

    url: str


CertificateState = Literal["valid", "expired", "revoked"]


class CertificateView(Record, frozen=True):
    """One certificate that did not end long ago."""

    role: MachineRole
    name: str
    serial: str
    issued_at: int
    ends_at: int
    state: CertificateState
    revoked_by: str = ""


class Revoked(Record, frozen=True):
    """What was taken back from a machine."""

    role: MachineRole
    name: str
    certificates: int = 0
    tokens: int = 0
