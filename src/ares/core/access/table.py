"""Permissions by role, and how far each goes: the whole of it. What is not in the table is denied."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

from ares.model.access import Permission, Principal, Role, Scope

ROLES: Final[tuple[Role, ...]] = (
    "viewer", "submitter", "tenant-admin", "auditor", "operator", "admin", "node", "cluster",
)  # fmt: skip
_COLUMNS: Final = ROLES[:6]
MACHINES: Final = frozenset[Role](ROLES[6:])
_WORDS: Final[Mapping[str, Scope]] = {
    "m": "mine", "t": "tenant", "f": "facts", "a": "any", "g": "glass",
}  # fmt: skip

# One column each for viewer, submitter, tenant-admin, auditor, operator, admin: m what it made itself, t its tenant,
# f facts of every tenant, a everything, g everything but for a stated reason, - nothing.
_PEOPLE: Final[Mapping[Permission, str]] = {
    "self:read":          "t t t t t t",
    "jobs:read":          "t t t f f a",
    "jobs:submit":        "- t t - - a",
    "jobs:cancel":        "- m t - - a",
    "jobs:retry":         "- m t - - a",
    "jobs:update":        "- m t - a a",
    "jobs:extend":        "- - - - a a",
    "jobs:hold":          "- m t - - a",
    "jobs:exec":          "- m t - - g",
    "logs:read":          "t t t - g g",
    "outputs:read":       "t t t - g g",
    "events:read":        "t t t f f a",
    "priority:exceed":    "- - - - a a",
    "tenants:read":       "- - t a a a",
    "tenants:admin":      "- - - - - a",
    "users:read":         "- - t - - a",
    "users:admin":        "- - t - - a",
    "tokens:admin":       "- - t - - a",
    "quota:read":         "- - t - a a",
    "quota:admin":        "- - - - a a",
    "policies:read":      "- - t a a a",
    "policies:admin":     "- - t - a a",
    "crons:read":         "t t t - - a",
    "crons:admin":        "- m t - - a",
    "datasets:read":      "t t t - - a",
    "datasets:admin":     "- m t - - a",
    "secrets:read":       "- t t - - a",
    "secrets:admin":      "- m t - - a",
    "audit:read":         "- - t a - a",
    "alerts:admin":       "- - t - a a",
    "nodes:read":         "a a a a a a",
    "nodes:admit":        "- - - - a a",
    "clusters:admin":     "- - - - a a",
    "profile:admin":      "- - - - a a",
    "reservations:admin": "- - - - a a",
    "metrics:read":       "- - - - a a",
    "store:admin":        "- - - - - a",
}  # fmt: skip

# Not even an administrator may speak for a machine, nor a machine for any other principal.
_MACHINES: Final[Mapping[Permission, Mapping[Role, Scope]]] = {
    "agent:link": {"node": "self"},
    "cluster:link": {"cluster": "self"},
    "machines:join": {"node": "self", "cluster": "self"},
}
# Not part of a role as such: only a credential that names it has it, which is a join token.
BY_NAME_ONLY: Final = frozenset[Permission]({"machines:join"})

TABLE: Final[Mapping[Permission, Mapping[Role, Scope]]] = {
    **{
        permission: {
            role: _WORDS[word] for role, word in zip(_COLUMNS, row.split(), strict=True) if word in _WORDS
        }
        for permission, row in _PEOPLE.items()
    },
    **_MACHINES,
}  # fmt: skip
# Each role may do all that the roles it hands out may: no principal gives away more than it has.
GRANTS: Final[Mapping[Role, tuple[Role, ...]]] = {
    "tenant-admin": ("viewer", "submitter", "tenant-admin"),
    "admin": ("viewer", "submitter", "tenant-admin", "auditor", "operator", "admin"),
}


# Scopes that reach beyond the principal's own tenant.
WIDE: Final = frozenset[Scope | None]({"facts", "any", "glass"})


def scope_of(who: Principal, permission: Permission) -> Scope | None:
    """How far `permission` goes for `who`; None when it is denied."""
    allowed = permission not in BY_NAME_ONLY if who.permissions is None else permission in who.permissions
    return TABLE[permission].get(who.role) if allowed else None


def reaches(who: Principal, permission: Permission, tenant: str, made_by: str | None = None, made_id: str = "") -> bool:
    """Whether `permission` extends to something of `tenant`, made by `made_by` where that matters: a name, and the id
    of the user's record; none of it is known of what was made before ids were kept."""
    scope = scope_of(who, permission)
    if scope in WIDE:
        return True
    if scope == "mine":
        return tenant == who.tenant and made_by == who.subject and made_id in ("", who.user_id)
    return scope == "tenant" and tenant == who.tenant


def sees_all(who: Principal) -> bool:
    """Whether the principal is shown what concerns other tenants' jobs too."""
    return scope_of(who, "jobs:read") in WIDE


def may_grant(who: Principal, role: Role, permissions: Collection[Permission] | None = None) -> bool:
    """Whether `who` may hand out `role`, or of it only `permissions`: never more than it may do itself."""
    if role not in GRANTS.get(who.role, ()):
        return False
    return who.permissions is None or allowed(role, permissions) <= set(who.permissions)


def allowed(role: Role, permissions: Collection[Permission] | None = None) -> set[Permission]:
    """What a credential of `role` may do, narrowed to `permissions` where they are given."""
    return {
        permission
        for permission, scopes in TABLE.items()
        if role in scopes and (permissions is None or permission in permissions)
    }


def covers(role: Role, other: Role) -> bool:
    """Whether `role` may do all that `other` may."""
    return all(_as_far(role, other, permission) for permission in allowed(other))


@cache
def lesser(one: Role, other: Role) -> tuple[Role, tuple[Permission, ...] | None]:
    """What a user of role `other` may do with a credential of role `one`: no more than either."""
    if covers(other, one):
        return one, None
    if covers(one, other):
        return other, None
    return other, tuple(sorted(each for each in allowed(other) if _as_far(one, other, each)))


def narrowed(one: tuple[Permission, ...], other: tuple[Permission, ...] | None) -> tuple[Permission, ...]:
    return one if other is None else tuple(each for each in one if each in other)


# What a scope includes besides itself.
_INCLUDES: Final[Mapping[Scope, tuple[Scope, ...]]] = {
    "tenant": ("mine",), "glass": ("mine", "tenant"), "any": ("mine", "tenant", "facts", "glass"),
}  # fmt: skip


def _as_far(role: Role, other: Role, permission: Permission) -> bool:
    mine, theirs = TABLE[permission].get(role), TABLE[permission].get(other)
    return mine is not None and (theirs == mine or theirs in _INCLUDES.get(mine, ()))
