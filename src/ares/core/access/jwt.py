"""Signed tokens of identity providers: everything about them that needs no key.

Only asymmetric algorithms exist here, and nothing in a token says where its key is: so "none", a public key used as a
shared secret, and a key that the attacker brought along are not cases to be told apart but cannot be expressed.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

import msgspec
from msgspec.structs import replace

from ares.core.access.tokens import denied
from ares.core.refusal import Refusal
from ares.model.access import Algorithm, Provider, Role
from ares.model.base import Record

TEXT_CHARS_MAX: Final = 16_384
_TEXT: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)", re.ASCII)
# Clocks may differ by so much.
LEEWAY_S: Final = 30.0
# With each of these a token would choose its own key, or its own rules.
_FORBIDDEN: Final = ("jku", "jwk", "x5u", "x5c", "crit", "b64", "zip")
_ALGORITHMS: Final = frozenset[str](get_args(Algorithm))


class Unverified(Record, frozen=True):
    """A token that looks like one. Nothing in it is true yet."""

    text: str
    algorithm: str
    key_id: str
    claims: dict[str, Any]


class VouchedPerson(Record, frozen=True):
    """The person a provider vouches for, and what it says about them."""

    identity: str
    expires_at: float
    # The tenant that the person must be of; empty: any.
    tenant: str = ""
    # What a new user's record would say; without a name none is made.
    name: str = ""
    role: Role = "viewer"


def bad(why: str) -> Refusal:
    return denied("bad_token", why)


def looks_signed(text: str) -> bool:
    """Whether the text has the form of a signed token: header, payload and signature."""
    return text.count(".") == 2


def read(text: str) -> Unverified | Refusal:
    """Takes a token apart and refuses what could not be right whatever key signed it."""
    parts = _TEXT.fullmatch(text) if len(text) <= TEXT_CHARS_MAX else None
    if parts is None:
        return bad("form")
    header_text, payload_text, signature = parts.groups()
    header, claims = _object(header_text), _object(payload_text)
    if header is None or claims is None:
        return bad("form")
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
        return bad("alg")
    forbidden = next((name for name in _FORBIDDEN if name in header), None)
    if forbidden is not None:
        return bad(forbidden)
    if not signature or not isinstance(key_id, str):
        return bad("form")
    return Unverified(text=text, algorithm=algorithm, key_id=key_id, claims=claims)


def provider_of(token: Unverified, providers: Sequence[Provider]) -> Provider | Refusal:
    """The provider that the token names: the issuer is compared whole."""
    issuer = token.claims.get("iss")
    found = next((provider for provider in providers if provider.issuer == issuer), None)
    if found is None:
        return bad("iss")
    return found if token.algorithm in found.algorithms else bad("alg")


def check(claims: Mapping[str, Any], provider: Provider, now: float) -> VouchedPerson | Refusal:
    """The person that a token with a good signature speaks for."""
    subject, audience = claims.get("sub"), claims.get("aud")
    audiences: Any = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or provider.audience not in audiences:
        return bad("aud")
    until, begins = _number(claims.get("exp")), _number(claims.get("nbf", 0))
    if until is None or now >= until + LEEWAY_S:
        return bad("expired")
    if begins is None or begins > now + LEEWAY_S:
        return bad("nbf")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
        return bad("sub")
    person = VouchedPerson(identity=f"{provider.issuer} {subject}", expires_at=until)
    return _placed(person, claims, provider)


def _placed(person: VouchedPerson, claims: Mapping[str, Any], provider: Provider) -> VouchedPerson | Refusal:
    """The person with the claimed tenant, and with what a new record would say."""
    tenant = provider.tenant or ""
    if provider.tenant_claim:
        claimed = claims.get(provider.tenant_claim)
        if not isinstance(claimed, str) or not claimed:
            return bad("tenant")
        tenant = claimed
    person = replace(person, tenant=tenant if provider.tenant_claim else "")
    if not provider.create:
        return person
    name, role = claims.get(provider.name_claim), _role(claims, provider)
    if not isinstance(name, str) or not name:
        return bad("name")
    if role is None:
        return bad("role")
    return replace(person, tenant=tenant, name=name, role=role)


def _role(claims: Mapping[str, Any], provider: Provider) -> Role | None:
    if not provider.role_claim:
        return provider.role
    said = claims.get(provider.role_claim)
    values = cast("list[Any]", said) if isinstance(said, list) else [said]
    return next((role for value, role in provider.roles.items() if value in values), None)


def _object(text: str) -> dict[str, Any] | None:
    """A JSON object in base64url, without padding as the standard has it."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError):
        return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
