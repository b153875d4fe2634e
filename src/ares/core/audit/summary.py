"""A month of a tenant, counted: what was done, what was denied and why, and changes of the rules by author."""

from collections import Counter

from ares.api.audit import AuditSummary, Happened
from ares.model.audit import AuditEntry

# By the first step of the path: what decides permissions and limits.
RULES = frozenset(
    {"tenants", "users", "tokens", "me", "join-tokens", "join", "clusters", "policies", "secrets", "secret-keys",
     "channels", "profile", "profiles"}
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
