"""Tokens and roles: who gets in, and as whom."""

import base64
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from ares.core.access import tokens
from ares.core.access.roles import PERMISSIONS, allows
from ares.model.access import Permission, Principal, Role, TokenRecord

SECRET = base64.urlsafe_b64encode(bytes(range(224, 256))).decode().rstrip("=")
RECORD = TokenRecord(
    id="0123456789", sha256=tokens.digest(SECRET), tenant="t1", role="node", name="n", expires_at=100.0, node="n1"
)


def test_a_token_survives_the_round_trip_with_every_base64_letter() -> None:
    assert "_" in SECRET
    assert "-" in SECRET
    assert tokens.parse(tokens.format("0123456789", SECRET)) == ("0123456789", SECRET)


@pytest.mark.parametrize(
    "text",
    ["", "ares", "ares_", f"ares_0123456789_{SECRET[:-1]}", f"ares_0123456789_{SECRET}x", f"ares_012345678_{SECRET}",
     f"Ares_0123456789_{SECRET}", f"ares_0123456789_{SECRET}\n", f" ares_0123456789_{SECRET}",
     f"ares_012345678A_{SECRET}", f"ares_0123456789_{SECRET[:-1]}é", f"ares_01234/6789_{SECRET}", "x" * 100_000],
)  # fmt: skip
def test_what_does_not_look_like_a_token(text: str) -> None:
    assert tokens.parse(text) is None


def test_the_right_secret_gives_the_principal_of_the_record() -> None:
    expected = Principal(token_id="0123456789", tenant="t1", role="node", name="n", node="n1")
    assert tokens.verify(RECORD, SECRET, 99.9) == expected


@pytest.mark.parametrize(
    ("changes", "secret", "now", "reason"),
    [({}, SECRET[:-1] + "A", 0.0, "unknown"), ({}, "", 0.0, "unknown"), ({}, SECRET, 100.0, "expired"),
     ({"revoked": True}, SECRET, 0.0, "revoked"), ({"revoked": True}, SECRET, 999.0, "revoked"),
     # A wrong secret learns nothing about the record.
     ({"revoked": True}, "x", 0.0, "unknown"), ({}, "x", 999.0, "unknown"), ({"sha256": ""}, SECRET, 0.0, "unknown")],
)  # fmt: skip
def test_denied(changes: dict[str, Any], secret: str, now: float, reason: str) -> None:
    denied = tokens.verify(replace(RECORD, **changes), secret, now)
    assert isinstance(denied, tokens.Denied)
    assert denied.reason == reason


@pytest.mark.parametrize("secret", ["", "x", SECRET])
def test_an_unknown_id_is_denied_whatever_the_secret(secret: str) -> None:
    assert tokens.verify(None, secret, 0.0) == tokens.Denied(reason="unknown")


def test_a_token_without_expiry_lasts() -> None:
    assert isinstance(tokens.verify(replace(RECORD, expires_at=None), SECRET, 1e12), Principal)


def test_every_role_has_a_row_and_every_permission_somebody() -> None:
    assert set(PERMISSIONS) == set(get_args(Role))
    assert frozenset().union(*PERMISSIONS.values()) == set(get_args(Permission))


@pytest.mark.parametrize(
    ("role", "permission", "allowed"),
    [("viewer", "jobs:read", True), ("viewer", "jobs:submit", False), ("submitter", "jobs:cancel", True),
     ("submitter", "tokens:admin", False), ("admin", "tokens:admin", True), ("admin", "agent:link", False),
     ("node", "agent:link", True), ("node", "jobs:read", False)],
)  # fmt: skip
def test_roles(role: Role, permission: Permission, allowed: bool) -> None:
    assert allows(role, permission) is allowed
