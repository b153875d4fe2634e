"""Tokens and roles: who gets in, and as whom."""

import base64
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from ares.core.access import tokens
from ares.core.access.table import GRANTS, TABLE, may_grant, reaches, scope_of
from ares.core.refusal import Refusal
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
    expected = Principal(token_id="0123456789", tenant="t1", role="node", name="n", expires_at=100.0, node="n1")
    assert tokens.verify(RECORD, SECRET, 99.9) == expected


@pytest.mark.parametrize(
    ("changes", "secret", "now", "code"),
    [({}, SECRET[:-1] + "A", 0.0, "unknown"), ({}, "", 0.0, "unknown"), ({}, SECRET, 100.0, "expired"),
     ({"revoked": True}, SECRET, 0.0, "revoked"), ({"revoked": True}, SECRET, 999.0, "revoked"),
     # A wrong secret learns nothing about the record.
     ({"revoked": True}, "x", 0.0, "unknown"), ({}, "x", 999.0, "unknown"), ({"sha256": ""}, SECRET, 0.0, "unknown")],
)  # fmt: skip
def test_denied(changes: dict[str, Any], secret: str, now: float, code: str) -> None:
    denied = tokens.verify(replace(RECORD, **changes), secret, now)
    assert isinstance(denied, Refusal)
    assert denied.code == code


@pytest.mark.parametrize("secret", ["", "x", SECRET])
def test_an_unknown_id_is_denied_whatever_the_secret(secret: str) -> None:
    assert tokens.verify(None, secret, 0.0) == tokens.denied("unknown")


def test_a_token_without_expiry_lasts() -> None:
    assert isinstance(tokens.verify(replace(RECORD, expires_at=None), SECRET, 1e12), Principal)


def test_the_table_has_a_row_for_every_permission_and_a_use_for_every_role() -> None:
    assert set(TABLE) == set(get_args(Permission))
    assert {role for row in TABLE.values() for role in row} == set(get_args(Role))


@pytest.mark.parametrize(
    ("role", "permission", "scope"),
    [("viewer", "jobs:read", "tenant"), ("viewer", "jobs:submit", None), ("submitter", "jobs:cancel", "mine"),
     ("submitter", "tokens:admin", None), ("tenant-admin", "tokens:admin", "tenant"), ("admin", "tokens:admin", "any"),
     ("admin", "agent:link", None), ("node", "agent:link", "self"), ("node", "jobs:read", None),
     ("operator", "logs:read", "glass"), ("auditor", "logs:read", None), ("auditor", "jobs:read", "facts")],
)  # fmt: skip
def test_roles(role: Role, permission: Permission, scope: str | None) -> None:
    assert scope_of(Principal(token_id="t", tenant="t1", role=role), permission) == scope


def test_a_token_may_be_worth_less_than_its_role_and_never_more() -> None:
    narrow = Principal(token_id="t", tenant="t1", role="viewer", permissions=("jobs:read", "store:admin"))
    assert scope_of(narrow, "jobs:read") == "tenant"
    assert scope_of(narrow, "logs:read") is None
    assert scope_of(narrow, "store:admin") is None


@pytest.mark.parametrize(
    ("role", "permission", "tenant", "by", "expected"),
    [("submitter", "jobs:cancel", "acme", "ann", True), ("submitter", "jobs:cancel", "acme", "bob", False),
     ("submitter", "jobs:cancel", "acme-prod", "ann", False), ("tenant-admin", "jobs:cancel", "acme", "bob", True),
     ("tenant-admin", "jobs:cancel", "acm", "ann", False), ("admin", "jobs:cancel", "other", "bob", True),
     ("viewer", "jobs:read", "acme", None, True), ("viewer", "jobs:read", "", None, False),
     ("operator", "jobs:read", "other", None, True), ("operator", "jobs:cancel", "acme", "ann", False)],
)  # fmt: skip
def test_how_far_it_goes(role: Role, permission: Permission, tenant: str, by: str | None, expected: bool) -> None:
    who = Principal(token_id="t", tenant="acme", role=role, user="ann")
    assert reaches(who, permission, tenant, by) is expected


def test_nobody_gives_away_more_than_they_have() -> None:
    """N14: whoever may hand out a role could do, as far, all that the role can."""
    rank = {"mine": 0, "self": 0, "tenant": 1, "facts": 2, "glass": 3, "any": 4}
    for giver, roles in GRANTS.items():
        for role in roles:
            assert may_grant(Principal(token_id="t", tenant="t1", role=giver), role)
            for row in TABLE.values():
                if role in row:
                    assert rank[row[giver]] >= rank[row[role]], (giver, role, row)
    for role in ("viewer", "submitter", "auditor", "operator", "node", "cluster"):
        assert not any(may_grant(Principal(token_id="t", tenant="t1", role=role), one) for one in get_args(Role))
