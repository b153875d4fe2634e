"""The base of all sections of the configuration, and the section about authentication."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ares.model.base import Slug
from ares.model.provider import Algorithm


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One section. An unknown key is an error that names the key."""


class OidcConfig(Section, frozen=True):
    """An identity provider, see docs/concepts/identity.md. The fields are those of `model.provider.Provider`."""

    issuer: Annotated[str, Meta(min_length=1)]
    audience: Annotated[str, Meta(min_length=1)]
    jwks_url: str
    algorithms: Annotated[tuple[Algorithm, ...], Meta(min_length=1)] = ("RS256", "ES256", "EdDSA")
    client_id: str = ""
    device_url: str = ""
    token_url: str = ""
    scopes: str = "openid profile email offline_access"
    send: Literal["id_token", "access_token"] = "id_token"
    tenant_claim: str = ""
    create: bool = False
    tenant: Slug | None = None
    role: Literal["viewer", "submitter", "tenant-admin", "auditor", "operator", "admin"] = "viewer"
    role_claim: str = ""
    roles: dict[str, Literal["viewer", "submitter", "tenant-admin", "auditor", "operator", "admin"]] = {}
    name_claim: str = "preferred_username"


class AuthConfig(Section, frozen=True):
    # By a name that the operator chooses: [auth.oidc.NAME].
    oidc: dict[Slug, OidcConfig] = {}
