"""Routes of policies, alerts and their channels, the audit log, quotas and secrets."""

from ares.api.alerts import SavedChannel, TestAnswer
from ares.api.audit import AuditHeadList, AuditMonth, AuditPage, AuditVerified
from ares.api.policies import CheckAnswer, Tried
from ares.api.quotas import QuotaView, TransfersView
from ares.api.secrets import KeyRotation, SecretView
from ares.control.governance.quotas import QuotaChange
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import alerts, audit, policies, quotas, secrets, transfers
from ares.edge.rest.handlers.alerts import AlertList, AlertNote, AlertsQuery, ChannelBody, ChannelList
from ares.edge.rest.handlers.audit import AuditExportQuery, AuditMonthQuery, AuditSearchQuery
from ares.edge.rest.handlers.policies import (
    DraftBody,
    PlatformQuery,
    PolicyBody,
    PolicyList,
    PolicyNote,
    RevertBody,
    TrialQuery,
)
from ares.edge.rest.handlers.quotas import QuotaBody, QuotaList
from ares.edge.rest.handlers.secrets import SecretBody, SecretList
from ares.edge.rest.http.operation import Body, Operation
from ares.model.alert import AlertRecord
from ares.model.policy import PolicyRecord

_CHANGE = ("policy-invalid", "policy-conflict", "policies-full")

POLICY_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "listPolicies", "GET", "/policies", "policies:read",
        "Policies that apply to the tenant's jobs: the platform's first.", policies.list_policies,
        {200: (JSON, PolicyList)}, NoQuery, tag="policies",
    ),
    Operation(
        "checkPolicy", "POST", "/policies/check", "policies:read",
        "What is wrong with a policy, and where. Changes nothing.", policies.check_policy,
        {200: (JSON, CheckAnswer)}, NoQuery, Body(DraftBody), tag="policies", reads=True,
    ),
    Operation(
        "tryPolicy", "POST", "/policies/dry-run", "policies:admin",
        "What a policy would have made of recent jobs. Changes nothing.", policies.try_policy,
        {200: (JSON, Tried)}, TrialQuery, Body(DraftBody), ("policy-invalid",), tag="policies", reads=True,
    ),
    Operation(
        "getPolicy", "GET", "/policies/{name}", "policies:read", "One policy.", policies.get_policy,
        {200: (JSON, PolicyRecord)}, PlatformQuery, tag="policies",
    ),
    Operation(
        "putPolicy", "PUT", "/policies/{name}", "policies:admin", "Make or change a policy. In force at once.",
        policies.put_policy, {200: (JSON, PolicyRecord)}, PlatformQuery, Body(PolicyBody), _CHANGE, tag="policies",
    ),
    Operation(
        "deletePolicy", "DELETE", "/policies/{name}", "policies:admin", "Take a policy back, with its versions.",
        policies.delete_policy, {204: ("", None)}, PlatformQuery, tag="policies",
    ),
    Operation(
        "listPolicyVersions", "GET", "/policies/{name}/versions", "policies:read",
        "Versions of a policy, the newest first.", policies.list_policy_versions, {200: (JSON, PolicyList)},
        PlatformQuery, tag="policies",
    ),
    Operation(
        "revertPolicy", "POST", "/policies/{name}/revert", "policies:admin",
        "Put an old version in force again, as a new one.", policies.revert_policy, {200: (JSON, PolicyRecord)},
        PlatformQuery, Body(RevertBody), _CHANGE, tag="policies",
    ),
    Operation(
        "enablePolicy", "POST", "/policies/{name}/enable", "policies:admin", "Apply a policy again.",
        policies.enable_policy, {200: (JSON, PolicyRecord)}, PlatformQuery, Body(PolicyNote, required=False), _CHANGE,
        tag="policies",
    ),
    Operation(
        "disablePolicy", "POST", "/policies/{name}/disable", "policies:admin", "Keep a policy, but do not apply it.",
        policies.disable_policy, {200: (JSON, PolicyRecord)}, PlatformQuery, Body(PolicyNote, required=False),
        _CHANGE, tag="policies",
    ),
    Operation(
        "listAlerts", "GET", "/alerts", "alerts:admin", "Alerts, the newest first.", alerts.list_alerts,
        {200: (JSON, AlertList)}, AlertsQuery, tag="alerts",
    ),
    Operation(
        "acknowledgeAlert", "POST", "/alerts/{name}/acknowledge", "alerts:admin", "Somebody sees to it.",
        alerts.acknowledge_alert, {200: (JSON, AlertRecord)}, PlatformQuery, Body(AlertNote, required=False),
        tag="alerts",
    ),
    Operation(
        "resolveAlert", "POST", "/alerts/{name}/resolve", "alerts:admin", "It is over. If it comes again, it is new.",
        alerts.resolve_alert, {200: (JSON, AlertRecord)}, PlatformQuery, Body(AlertNote, required=False),
        tag="alerts",
    ),
    Operation(
        "listChannels", "GET", "/channels", "alerts:admin", "Where alerts are sent.", alerts.list_channels,
        {200: (JSON, ChannelList)}, PlatformQuery, tag="alerts",
    ),
    Operation(
        "putChannel", "PUT", "/channels/{name}", "alerts:admin", "Make or change a channel.", alerts.put_channel,
        {200: (JSON, SavedChannel)}, PlatformQuery, Body(ChannelBody),
        ("channel-invalid", "channels-full", "secrets-key"), tag="alerts",
    ),
    Operation(
        "deleteChannel", "DELETE", "/channels/{name}", "alerts:admin", "Send nothing there any more.",
        alerts.delete_channel, {204: ("", None)}, PlatformQuery, tag="alerts",
    ),
    Operation(
        "testChannel", "POST", "/channels/{name}/test", "alerts:admin", "Send a test notice, and say if it arrived.",
        alerts.test_channel, {200: (JSON, TestAnswer)}, PlatformQuery, tag="alerts",
    ),
)  # fmt: skip


AUDIT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "searchAudit", "GET", "/audit", "audit:read", "Who did what, the newest first, page by page.",
        audit.search_audit, {200: (JSON, AuditPage)}, AuditSearchQuery,
        problems=("bad-cursor", "tenant-mismatch"), tag="audit",
    ),
    Operation(
        "exportAudit", "GET", "/audit/export", "audit:read", "All entries that match, as JSON lines or CSV.",
        audit.export_audit, {200: ("application/jsonl, text/csv", str)}, AuditExportQuery,
        problems=("tenant-mismatch", "too-many-streams"), tag="audit",
    ),
    Operation(
        "auditSummary", "GET", "/audit/summary", "audit:read",
        "A month in numbers: what was done, denied and changed, and by whom.", audit.audit_month,
        {200: (JSON, AuditMonth)}, AuditMonthQuery, problems=("tenant-mismatch",), tag="audit",
    ),
    Operation(
        "listAuditHeads", "GET", "/audit/heads", "audit:read", "The signed heads of all chains.", audit.list_heads,
        {200: (JSON, AuditHeadList)}, NoQuery, tag="audit",
    ),
    Operation(
        "verifyAudit", "GET", "/audit/verify", "audit:read", "Walks the chains on this replica's disk.",
        audit.verify_audit, {200: (JSON, AuditVerified)}, NoQuery, tag="audit",
    ),
)  # fmt: skip


QUOTA_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "getQuota", "GET", "/quota", "quota:read", "The tenant's own quota, and what is used of it.", quotas.get_quota,
        {200: (JSON, QuotaView)}, NoQuery, tag="quotas",
    ),
    Operation(
        "listTransfers", "GET", "/transfers", "jobs:read",
        "Bulk bytes on their way now, by node and tenant, and endpoints that are left alone.",
        transfers.list_transfers, {200: (JSON, TransfersView)}, NoQuery, tag="quotas",
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


SECRET_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "listSecrets", "GET", "/secrets", "secrets:read", "Secrets of the tenant, by name. Never their values.",
        secrets.list_secrets, {200: (JSON, SecretList)}, NoQuery, tag="secrets",
    ),
    Operation(
        "putSecret", "PUT", "/secrets/{secret}", "secrets:admin", "Make a secret, or give one a new value.",
        secrets.put_secret, {200: (JSON, SecretView)}, NoQuery, Body(SecretBody),
        ("secret-conflict", "secret-invalid", "secrets-full", "secrets-key"), tag="secrets",
    ),
    Operation(
        "deleteSecret", "DELETE", "/secrets/{secret}", "secrets:admin",
        "Delete a secret. Attempts that need it do not start any more.", secrets.delete_secret, {204: ("", None)},
        NoQuery, tag="secrets",
    ),
    Operation(
        "rotateSecretsKey", "POST", "/secret-keys", "store:admin",
        "Make a new key and seal every tenant's secrets with it. Goes on where an earlier one was interrupted.",
        secrets.rotate_key, {200: (JSON, KeyRotation)}, NoQuery, problems=("secrets-key",), tag="secrets",
    ),
)  # fmt: skip
