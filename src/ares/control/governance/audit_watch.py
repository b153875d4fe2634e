"""Raises alerts for what the audit log should not have to say: broken glass, and one who is denied again and again."""

import asyncio
from collections import Counter

from ares.control.governance.alerts import Alerts
from ares.model.audit import AuditDraft
from ares.ports.clock import Clock

WINDOW_S = 60.0
DENIALS_MANY = 50
# Different senders that are counted at a time.
_SENDERS_MAX = 10_000


class AuditWatch:
    """Told of every entry as it is noted."""

    def __init__(self, alerts: Alerts, clock: Clock) -> None:
        self._alerts = alerts
        self._clock = clock
        self._since = clock.monotonic()
        self._denials: Counter[tuple[str, str]] = Counter()
        self._raising: set[asyncio.Task[None]] = set()

    def heed(self, draft: AuditDraft) -> None:
        if draft.outcome == "DENY":
            self._denied(draft)
        elif draft.glass and draft.outcome == "ALLOW":
            who = f"{draft.user or draft.token} of {draft.home}"
            text = f"{who} did {draft.operation} of {draft.object or 'everything'}: {draft.glass}"
            self._raise("break-glass", draft.tenant, f"{who} {draft.operation} {draft.object}", text, {})

    def _denied(self, draft: AuditDraft) -> None:
        if self._clock.monotonic() - self._since >= WINDOW_S:
            self._since = self._clock.monotonic()
            self._denials.clear()
        sender = (draft.tenant, draft.user or draft.token or draft.remote)
        if sender not in self._denials and len(self._denials) >= _SENDERS_MAX:
            return
        self._denials[sender] += 1
        if self._denials[sender] == DENIALS_MANY:
            text = f"{sender[1]} was denied {DENIALS_MANY} times within a minute, the last time: {draft.reason}"
            self._raise("denials", draft.tenant, sender[1], text, {"denials": DENIALS_MANY})

    def _raise(self, kind: str, tenant: str, subject: str, text: str, numbers: dict[str, float]) -> None:
        task = asyncio.create_task(self._alerts.raise_(kind, tenant, subject, text, numbers))
        self._raising.add(task)
        task.add_done_callback(self._raising.discard)
