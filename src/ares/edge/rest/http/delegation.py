"""The rights of an authenticated caller on a route: by the permission table, and in the tenant it acts for."""

from msgspec.structs import replace

from ares.control.state.view import View
from ares.core.access.table import MACHINES, WIDE, scope_of, sees_all
from ares.edge.rest.http.problems import Problem, not_found
from ares.model.access import Permission, Principal

# The least length of a reason for break-glass access.
GLASS_CHARS_MIN = 8


def enter(who: Principal, permission: Permission, asked: "RequestScope", view: View) -> Principal:
    """The caller with its rights: in its own tenant, or as a delegate in the tenant it asked for. Raises Problem."""
    scope = scope_of(who, permission)
    if scope is None:
        raise _denied(who, permission, asked, view)
    # Objects without a tenant are open to every caller; to act in another tenant takes more.
    if scope not in WIDE or not sees_all(who):
        if asked.tenant not in ("", who.tenant):
            raise Problem("tenant-mismatch", reason="tenant_mismatch")
        return who
    tenant = asked.tenant or asked.owner(view) or who.tenant
    if asked.tenant not in ("", who.tenant) and asked.tenant not in view.kept.tenants:
        # A header is text: only one that names a tenant may become part of keys and paths.
        raise Problem("no-such-tenant", detail=f"there is no tenant {asked.tenant[:63]!r}", reason="no_such_tenant")
    if scope == "glass" and not _at_home(who, tenant):
        _need_reason(who, permission, asked.glass)
    return who if tenant == who.tenant else replace(who, tenant=tenant, home=who.tenant)


class RequestScope:
    """What a request names: a tenant to act in, a job, and the reason of break-glass access."""

    __slots__ = ("glass", "job", "tenant")

    def __init__(self, tenant: str, job: str, glass: str) -> None:
        self.tenant = tenant
        self.job = job
        self.glass = glass

    def owner(self, view: View) -> str:
        """The tenant of the job in the path, empty when there is none."""
        if not self.job:
            return ""
        if (entry := view.entries.get(self.job)) is not None:
            return entry.state.tenant
        array = view.arrays.get(self.job)
        return "" if array is None else array.tenant


def _denied(who: Principal, permission: Permission, asked: RequestScope, view: View) -> Problem:
    """The refusal. A caller learns that it lacks a permission, but not that another tenant's object exists."""
    if asked.job and asked.owner(view) != who.tenant and _bound(who):
        return not_found()
    reason = "wrong_role_cert" if who.role in MACHINES else "role"
    return Problem("forbidden", detail=f"the role {who.role!r} does not have {permission}", reason=reason)


def _bound(who: Principal) -> bool:
    """Whether the caller may at most know that other tenants' jobs exist."""
    return scope_of(who, "jobs:read") in ("tenant", "facts") and scope_of(who, "nodes:admit") is None


def _at_home(who: Principal, tenant: str) -> bool:
    """Whether the caller works in that tenant, and is not only an operator of the platform."""
    return tenant == who.tenant and scope_of(who, "jobs:submit") is not None


def _need_reason(who: Principal, permission: Permission, reason: str) -> None:
    if len(reason.strip()) < GLASS_CHARS_MIN:
        raise Problem(
            "break-glass",
            detail=f"{permission} of another tenant is for emergencies only",
            fix=f"say why in the header X-Ares-Break-Glass ({GLASS_CHARS_MIN} characters or more); it is recorded",
            reason="glass",
        )
