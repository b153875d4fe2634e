"""Denials that come in crowds are counted, not listed: a sender that knocks a thousand times fills no disk."""

from collections.abc import Hashable

from msgspec.structs import replace

from ares.model.audit import AuditDraft

WINDOW_S = 60.0
# Denials of one kind and sender within a window, before the rest is only counted. Unknown senders need no list.
ANONYMOUS_EACH = 1
KNOWN_EACH = 60
# Different kinds that are counted at a time; beyond that all senders are one.
KINDS_MAX = 10_000


class Crowd:
    """Says which denials are written as they come; the others come out of `over`, as one entry with their count."""

    def __init__(self) -> None:
        self._since = 0.0
        self._seen: dict[Hashable, int] = {}
        self._held: dict[Hashable, AuditDraft] = {}

    def admit(self, draft: AuditDraft) -> bool:
        """Whether the denial is to be written now."""
        sender = draft.token or draft.remote
        key: Hashable = (sender, draft.operation, draft.reason, draft.target)
        if key not in self._seen and len(self._seen) >= KINDS_MAX:
            # As many senders as there can be: their names are lost, that they came is not.
            key, draft = ("", "", draft.reason, ""), replace(draft, remote="", operation="", target="")
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if seen <= (KNOWN_EACH if draft.token else ANONYMOUS_EACH):
            return True
        held = self._held.get(key)
        # Where the denials of a kind differ, the last one stands for all.
        self._held[key] = draft if held is None else replace(draft, count=held.count + 1)
        return False

    def seen(self, draft: AuditDraft) -> int:
        """How many denials of its kind came in this window."""
        return self._seen.get((draft.token or draft.remote, draft.operation, draft.reason, draft.target), 0)

    def over(self, now: float, *, end: bool = False) -> list[AuditDraft]:
        """Denials that were only counted in a window that is over, or so far at the `end`."""
        if not end and now - self._since < WINDOW_S:
            return []
        held = list(self._held.values())
        self._since = now
        self._seen.clear()
        self._held.clear()
        return held
