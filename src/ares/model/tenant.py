"""Tenants and their users."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.access import Role
from ares.model.base import Note, Record, Slug

UserName = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$(?!\n)")]
# How well a job must be kept apart from everything else on its node.
Isolation = Literal["any", "process", "sandbox"]


class TenantRecord(Record, frozen=True):
    """A tenant. Disabled, none of its credentials is accepted; what runs goes on."""

    name: Slug
    created_at: float = 0.0
    created_by: str = ""
    disabled: bool = False
    note: Note = ""
    # What its jobs need of a node's agent.
    isolation: Isolation = "any"


class UserRecord(Record, frozen=True):
    """A person or a program of a tenant. Their tokens have at most this role."""

    tenant: Slug
    name: UserName
    role: Role
    # A program's account: no login, tokens only.
    service: bool = False
    team: Slug | None = None
    # Who they are to an identity provider: "issuer subject"; empty: tokens only.
    identity: str = ""
    disabled: bool = False
    created_at: float = 0.0
    created_by: str = ""
