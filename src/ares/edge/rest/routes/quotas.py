"""Routes about quotas."""

from ares.api.quotas import QuotaView
from ares.control.governance.quotas import QuotaChange
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import quotas
from ares.edge.rest.handlers.quotas import QuotaBody, QuotaList
from ares.edge.rest.http.operation import Body, Operation

QUOTA_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "getQuota", "GET", "/quota", "quota:read", "The tenant's own quota, and what is used of it.", quotas.get_quota,
        {200: (JSON, QuotaView)}, NoQuery, tag="quotas",
    ),
    Operation(
        "listQuotas", "GET", "/quotas", "quota:read", "Quotas of all tenants that have one.", quotas.list_quotas,
        {200: (JSON, QuotaList)}, NoQuery, tag="quotas",
    ),
    Operation(
        "getTenantQuota", "GET", "/tenants/{name}/quota", "quota:read", "A tenant's quota, and what is used of it.",
        quotas.get_tenant_quota, {200: (JSON, QuotaView)}, NoQuery, tag="quotas",
    ),
    Operation(
        "putQuota", "PUT", "/tenants/{name}/quota", "quota:admin", "Replace all limits of a tenant.",
        quotas.put_quota, {200: (JSON, QuotaView)}, NoQuery, Body(QuotaBody), ("quota-invalid",), tag="quotas",
    ),
    Operation(
        "patchQuota", "PATCH", "/tenants/{name}/quota", "quota:admin",
        "Change single limits of a tenant, a team or a user.", quotas.patch_quota, {200: (JSON, QuotaView)}, NoQuery,
        Body(QuotaChange), ("quota-invalid",), tag="quotas",
    ),
    Operation(
        "deleteQuota", "DELETE", "/tenants/{name}/quota", "quota:admin", "Take all limits of a tenant away.",
        quotas.delete_quota, {200: (JSON, QuotaView)}, NoQuery, tag="quotas",
    ),
)  # fmt: skip
