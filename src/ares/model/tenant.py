"""Tenants and their users."""

from typing import Annotated

from msgspec import Meta

from ares.model.access import Role
from ares.model.base import Note, Record, Slug
from ares.model.isolation import Isolation

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
