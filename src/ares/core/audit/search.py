"""What a query of the audit log finds: which entries, how its principal may see them, as CSV, and a month summed up."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ares.api.audit import AuditSummary, Happened
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


# ---- as CSV


COLUMNS = (
    "at", "chain", "seq", "outcome", "operation", "reason", "tenant", "home", "target", "user", "token", "role",
    "proof", "object", "made", "status", "method", "path", "glass", "count", "remote", "trace", "hash",
)  # fmt: skip
# Characters that make a cell need quotes.
_QUOTED = (",", '"', "\r", "\n")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> str:
    """A cell, quoted where it must be; a text that would be a formula begins with an apostrophe."""
    text = as_text(str(value))
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in _QUOTED) else text


def as_text(text: str) -> str:
    """What no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_header() -> bytes:
    return ",".join(COLUMNS).encode() + b"\r\n"


def csv_rows(entries: Iterable[AuditEntry]) -> bytes:
    return "".join(",".join(cell(_value(entry, column)) for column in COLUMNS) + "\r\n" for entry in entries).encode()


def _value(entry: AuditEntry, column: str) -> object:
    value: Any = getattr(entry, column)
    if isinstance(value, tuple):
        return " ".join(cast("tuple[str, ...]", value))
    return f"{value:.6f}" if isinstance(value, float) else value


# ---- summed up


# By the first step of the path: what decides permissions and limits.
RULES = frozenset(
    {"tenants", "users", "tokens", "me", "join-tokens", "join", "clusters", "policies", "secrets", "secret-keys",
     "channels", "profile", "profiles", "autoscale", "federation"}
)  # fmt: skip
_QUOTA = frozenset({"quota", "budget", "priority", "queue_full"})
# The most entries of each list.
LISTED_MAX = 1000


class AuditTally:
    """Counts entries one by one."""

    def __init__(self) -> None:
        self._entries = 0
        self._operations: dict[str, Counter[str]] = {}
        self._denials: Counter[str] = Counter()
        self._glass: list[Happened] = []
        self._changes: list[Happened] = []
        self._left_out = 0

    def add(self, entry: AuditEntry) -> None:
        self._entries += entry.count
        self._operations.setdefault(entry.operation or "unknown", Counter())[entry.outcome] += entry.count
        if entry.outcome == "DENY":
            self._denials[entry.reason or "unknown"] += entry.count
        if entry.outcome == "ALLOW" and entry.glass:
            self._list(self._glass, entry, entry.glass)
        elif entry.outcome == "ALLOW" and entry.path.removeprefix("/").partition("/")[0] in RULES:
            self._list(self._changes, entry, entry.reason)

    def _list(self, into: list[Happened], entry: AuditEntry, reason: str) -> None:
        if len(into) >= LISTED_MAX:
            self._left_out += 1
            return
        about = entry.object or ", ".join(entry.made)
        who = entry.user or entry.token
        into.append(Happened(at=entry.at, who=who, operation=entry.operation, object=about, reason=reason))

    def result(self, tenant: str, month: str) -> AuditSummary:
        return AuditSummary(
            tenant=tenant,
            month=month,
            entries=self._entries,
            operations={name: dict(found) for name, found in sorted(self._operations.items())},
            denials=dict(self._denials.most_common()),
            break_glass=tuple(self._glass),
            changes=tuple(self._changes),
            policy_violations=_sum(self._denials, "policy"),
            quota_rejections=sum(self._denials[word] for word in _QUOTA),
            left_out=self._left_out,
        )


def _sum(denials: Counter[str], word: str) -> int:
    return sum(count for reason, count in denials.items() if reason == word or reason.startswith(f"{word}:"))
