"""Quotas, and what is used of them."""

from ares.model.base import Record
from ares.model.quota import LevelName, Quota


class LevelUse(Record, frozen=True, omit_defaults=False):
    """One measure at one level, in people's units. Without a limit, `free` is None too."""

    level: LevelName
    name: str
    measure: str
    asked: float
    used: float
    limit: float | None
    soft: float | None
    # What could still be admitted.
    free: float | None
    exceeded: bool = False


class QuotaView(Record, frozen=True):
    """A tenant's quota, None when nothing is limited, and what is used: by the tenant, then by its teams and users."""

    tenant: str
    quota: Quota | None = None
    by: str = ""
    at: float = 0.0
    note: str = ""
    uses: tuple[LevelUse, ...] = ()
    # Its counts were found wrong a moment ago: jobs are admitted with more care.
    in_doubt: bool = False
