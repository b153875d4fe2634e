"""Which entries a query asks for, and how its principal may see them."""

import msgspec
from msgspec.structs import replace

from ares.model.audit import AuditEntry, AuditOutcome
from ares.model.base import Record

_encode = msgspec.json.Encoder().encode
# For a principal that sees one tenant only, what is another tenant's does not exist.
_HIDDEN = {"cross_tenant": "not_found", "ws_cross_tenant": "ws_not_found"}


class AuditQuery(Record, frozen=True):
    """Empty filters let everything through. `text` is looked for in the whole entry, without regard to case."""

    # A user's name or a token's id.
    who: str = ""
    tenant: str = ""
    operation: str = ""
    outcome: AuditOutcome | None = None
    # The whole reason, or its part before a colon.
    reason: str = ""
    object: str = ""
    since: float = 0.0
    until: float = 0.0
    text: str = ""


def needles(query: AuditQuery, only: str) -> tuple[bytes, ...]:
    """Bytes that every matching line contains: cheaper to look for than to decode all lines."""
    named = (
        # The tenant it happened in, or the tenant it was aimed at.
        (b"", only or query.tenant),
        (b'"operation":', query.operation),
        (b'"outcome":', query.outcome or ""),
        (b"", query.who),
    )
    exact = [name + _encode(value) for name, value in named if value]
    return (*exact, _encode(query.object)[1:-1]) if query.object else tuple(exact)


def shown(entry: AuditEntry, only: str) -> AuditEntry | None:
    """The entry as seen by principals of one tenant (empty: of all); None if it is not that tenant's."""
    if not only:
        return entry
    if entry.tenant == only:
        hidden = _HIDDEN.get(entry.reason, entry.reason)
        seen = entry.reason == hidden and not entry.target
        return entry if seen else replace(entry, reason=hidden, target="")
    if entry.target != only:
        return None
    # What was tried on the tenant, and that it failed. The actor is shown only to principals that see all tenants.
    return replace(
        entry, tenant=only, target="", token="", user="", role="", proof="", home="", glass="", remote="", trace=""
    )


def matches(query: AuditQuery, entry: AuditEntry, line: bytes) -> bool:
    return (
        (not query.tenant or query.tenant in (entry.tenant, entry.target))
        and (not query.who or query.who in (entry.user, entry.token))
        and (not query.operation or query.operation == entry.operation)
        and (query.outcome is None or query.outcome == entry.outcome)
        and (not query.reason or query.reason == entry.reason or entry.reason.startswith(f"{query.reason}:"))
        and (not query.object or query.object in (entry.object, *entry.made) or query.object in _ids(entry))
        and entry.at >= query.since
        and (not query.until or entry.at < query.until)
        and (not query.text or query.text.lower() in line.decode().lower())
    )


def _ids(entry: AuditEntry) -> tuple[str, ...]:
    """Ids of the entry's objects, without their kinds."""
    return tuple(name.partition("/")[2] for name in (entry.object, *entry.made))
