"""Which signed heads are kept: the newest ones, and of older days the last one each."""

from collections.abc import Iterable

from ares.model.audit import AuditHead

RECENT = 60
_DAY_S = 86_400.0


def superfluous(heads: Iterable[AuditHead], now: float, keep_s: float) -> list[AuditHead]:
    """Those to be dropped. The newest always stays."""
    by_age = sorted(heads, key=lambda head: (head.at, head.seq), reverse=True)
    kept_days: set[int] = set()
    dropped: list[AuditHead] = []
    for place, head in enumerate(by_age):
        day = int(head.at // _DAY_S)
        if place < RECENT or (day not in kept_days and head.at >= now - keep_s):
            kept_days.add(day)
        else:
            dropped.append(head)
    return dropped
