"""The routes of the audit log."""

from ares.api.audit import AuditHeadList, AuditMonth, AuditPage, AuditVerified
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import audit
from ares.edge.rest.handlers.audit import AuditExportQuery, AuditMonthQuery, AuditSearchQuery
from ares.edge.rest.http.operation import Operation

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
