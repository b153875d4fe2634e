"""Signed tokens before and after their signature is known to be good."""

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace

from ares.core.access import jwt
from ares.core.access.table import ROLES, TABLE, covers, lesser, scope_of
from ares.core.access.tokens import denied
from ares.core.refusal import Refusal
from ares.model.access import Permission, Principal, Provider, Role, Scope

CORP = Provider(
    name="corp", issuer="https://login.example.com", audience="ares", jwks_url="https://login.example.com/k"
)
CLAIMS: dict[str, Any] = {"iss": CORP.issuer, "aud": "ares", "sub": "s1", "exp": 1000.0, "nbf": 100.0}


def text(header: Any, claims: Any = CLAIMS, signature: str = "c2ln") -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims))
    return ".".join((*parts, signature))


def why(outcome: object) -> str:
    assert isinstance(outcome, Refusal), outcome
    assert outcome == denied("bad_token", outcome.reason.removeprefix("bad_token:"))
    return outcome.reason.removeprefix("bad_token:")


@pytest.mark.parametrize(
    ("header", "said"),
    [({"alg": "none"}, "alg"), ({"alg": "None"}, "alg"), ({"alg": "HS256"}, "alg"), ({"alg": ["RS256"]}, "alg"),
     ({}, "alg"), ({"alg": "rs256"}, "alg"), ({"alg": "RS256", "jku": ""}, "jku"),
     ({"alg": "RS256", "x5c": []}, "x5c"), ({"alg": "RS256", "crit": ["b64"], "b64": False}, "crit"),
     ({"alg": "RS256", "kid": 7}, "form"), ([], "form"), ("RS256", "form")],
)  # fmt: skip
def test_a_header_cannot_choose_its_own_rules(header: Any, said: str) -> None:
    assert why(jwt.read(text(header))) == said


@pytest.mark.parametrize(
    "written",
    [text({"alg": "RS256"}, signature=""), text({"alg": "RS256"}, []), "..", "a.b.c", "é.a.b",
     text({"alg": "RS256"}).replace(".", "=.", 1), text({"alg": "RS256"}) + "x" * jwt.TEXT_CHARS_MAX,
     f"{base64.urlsafe_b64encode(b'[' * 100_000).decode()[:8000]}.e30.AA"],
)  # fmt: skip
def test_what_is_no_signed_token(written: str) -> None:
    assert jwt.looks_signed(written)
    assert why(jwt.read(written)) == "form"


@pytest.mark.parametrize("issuer", ["https://login.example.com/", "https://login.example.co", "", None, 7, ["x"]])
def test_an_issuer_is_compared_whole(issuer: Any) -> None:
    token = jwt.read(text({"alg": "RS256"}, {**CLAIMS, "iss": issuer}))
    assert isinstance(token, jwt.Unverified)
    assert why(jwt.provider_of(token, [CORP])) == "iss"


def test_each_provider_has_algorithms_of_its_own() -> None:
    other = replace(CORP, name="other", issuer="https://other.example.com", algorithms=("ES256",))
    token = jwt.read(text({"alg": "RS256"}, {**CLAIMS, "iss": other.issuer}))
    assert isinstance(token, jwt.Unverified)
    assert why(jwt.provider_of(token, [CORP, other])) == "alg"


@pytest.mark.parametrize(
    ("changes", "now", "said"),
    [({}, 1029.0, ""), ({}, 1030.0, "expired"), ({}, 70.0, ""), ({}, 69.0, "nbf"), ({"exp": "1000"}, 500.0, "expired"),
     ({"exp": None}, 500.0, "expired"), ({"nbf": True}, 500.0, "nbf"), ({"aud": ["x", "ares"]}, 500.0, ""),
     ({"aud": "ares "}, 500.0, "aud"), ({"aud": {"ares": 1}}, 500.0, "aud"), ({"aud": [["ares"]]}, 500.0, "aud"),
     ({"sub": "a\nb"}, 500.0, "sub"), ({"sub": 7}, 500.0, "sub"), ({"sub": "x" * 256}, 500.0, "sub")],
)  # fmt: skip
def test_claims(changes: dict[str, Any], now: float, said: str) -> None:
    outcome = jwt.check({**CLAIMS, **changes}, CORP, now)
    assert (why(outcome) if said else "") == said
    if not said:
        assert outcome == jwt.VouchedPerson(identity="https://login.example.com s1", expires_at=1000.0)


@pytest.mark.parametrize(("one", "other"), [(one, other) for one in ROLES for other in ROLES])
def test_two_roles_together_may_no_more_than_either(one: Role, other: Role) -> None:
    """Whatever a token's role and its user's role are: every permission that is left, both have, and as far."""
    role, permissions = lesser(one, other)
    who = Principal(token_id="t", tenant="t", role=role, permissions=permissions)
    left: list[tuple[Permission, Scope]] = [
        (permission, scope) for permission in TABLE if (scope := scope_of(who, permission)) is not None
    ]
    wide = {"mine": 0, "tenant": 1, "self": 1, "facts": 2, "glass": 2, "any": 3}
    for permission, scope in left:
        for each in (one, other):
            assert each in TABLE[permission]
            assert wide[scope] <= wide[TABLE[permission][each]]
    assert covers(one, one)
