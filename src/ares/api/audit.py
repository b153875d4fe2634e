"""The audit log: pages of it, a month in numbers, and whether its chains hold."""

from ares.model.audit import AuditEntry, AuditHead
from ares.model.base import Record


class ChainSeen(Record, frozen=True, omit_defaults=False):
    """A chain that is known of. Those that are not `here` are on other replicas' disks: ask there too."""

    chain: str
    here: bool
    # The newest signed head in the store, if any.
    signed: int = 0
    signed_at: float = 0.0
    key: str = ""


class AuditPage(Record, frozen=True, omit_defaults=False):
    """The newest entries first. A page may have none and still go on by its `cursor`."""

    entries: tuple[AuditEntry, ...]
    cursor: str
    chains: tuple[ChainSeen, ...]


class AuditHeadList(Record, frozen=True, omit_defaults=False):
    """The signed heads that the store keeps, and which chains are on this replica's disk."""

    heads: tuple[AuditHead, ...]
    chains: tuple[ChainSeen, ...]


class ChainReport(Record, frozen=True, omit_defaults=False):
    """What was found. The chain is whole if `broken` is empty and every head is signed."""

    chain: str
    # Numbers of the first and the last entry that hold.
    begins: int
    ends: int
    ends_at: float
    # Of the newest signed head; 0 when there is none. What comes after it could be cut off unnoticed.
    signed: int
    heads: int
    # The first broken link, and why; 0 and nothing for none.
    broken: int = 0
    why: str = ""
    missing: int = 0
    # Numbers of heads whose signature does not hold.
    unsigned: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    # Bytes after the last whole line: of an entry that was never finished, and so never answered.
    torn: int = 0

    @property
    def whole(self) -> bool:
        return not self.broken and not self.unsigned


class AuditVerified(Record, frozen=True, omit_defaults=False):
    """`whole`: every chain on this replica's disk holds. The others are to be verified on theirs."""

    whole: bool
    verified: tuple[ChainReport, ...]
    chains: tuple[ChainSeen, ...]


class Happened(Record, frozen=True):
    """One entry, in short."""

    at: float
    who: str
    operation: str
    object: str = ""
    reason: str = ""


class AuditSummary(Record, frozen=True, omit_defaults=False):
    """`tenant` is empty for all; `month` is like 2026-11, in UTC, and empty for another period."""

    tenant: str
    month: str
    entries: int
    # By operation, then by outcome.
    operations: dict[str, dict[str, int]]
    denials: dict[str, int]
    break_glass: tuple[Happened, ...]
    changes: tuple[Happened, ...]
    policy_violations: int
    quota_rejections: int
    # Of what is listed, the number that was left out.
    left_out: int = 0
    # Of a period that is no month, in seconds since 1970.
    since: float = 0.0
    until: float = 0.0


class AuditMonth(Record, frozen=True, omit_defaults=False):
    summary: AuditSummary
    chains: tuple[ChainSeen, ...]
