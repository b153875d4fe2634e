"""Identity providers that are trusted, as the configuration names them."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.access import Role
from ares.model.base import Record, Slug

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
