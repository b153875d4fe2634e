"""Who may do what: tokens at rest and the principal a request acts as."""

from typing import Literal

from ares.model.base import Record

Role = Literal["viewer", "submitter", "admin", "node"]
Permission = Literal[
    "jobs:read", "jobs:submit", "jobs:cancel", "jobs:retry", "logs:read", "events:read",
    "nodes:read", "nodes:admit", "profile:admin", "tokens:admin", "metrics:read", "store:admin", "agent:link",
    "reservations:admin",
]  # fmt: skip


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
    # Set for node credentials: the only node it may speak for.
    node: str | None = None
    # Set for join tokens: valid once.
    single_use: bool = False


class Principal(Record, frozen=True):
    """The verified identity behind a request."""

    token_id: str
    tenant: str
    role: Role
    name: str = ""
    node: str | None = None
