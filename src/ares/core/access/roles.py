"""What each role may do."""

from ares.model.access import Permission, Role

_READ: frozenset[Permission] = frozenset({"jobs:read", "logs:read", "events:read", "nodes:read", "metrics:read"})
_WORK: frozenset[Permission] = frozenset({"jobs:submit", "jobs:cancel", "jobs:retry"})
_RULE: frozenset[Permission] = frozenset(
    {"nodes:admit", "profile:admin", "tokens:admin", "store:admin", "reservations:admin"}
)

PERMISSIONS: dict[Role, frozenset[Permission]] = {
    "viewer": _READ,
    "submitter": _READ | _WORK,
    # Not even an administrator may speak for a node.
    "admin": _READ | _WORK | _RULE,
    "node": frozenset({"agent:link"}),
}


def allows(role: Role, permission: Permission) -> bool:
    return permission in PERMISSIONS[role]
