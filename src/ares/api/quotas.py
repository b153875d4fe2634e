"""Quotas, what is used of them, and bytes on their way."""

from ares.model.base import Record, Shown
from ares.model.quota import BreakerPhase, LevelName, Quota, TransferKind


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


class LentView(Shown, frozen=True):
    """What one cluster was lent of a tenant's limit, in people's units, and what jobs that it admitted itself use."""

    cluster: str
    tenant: str
    measure: str
    lent: float
    used: float
    # When it stops to be good for new jobs, by wall clock.
    until: float


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
    # To clusters of this global plane; what is lent and not used counts as used.
    lent: tuple[LentView, ...] = ()


class TransferRow(Shown, frozen=True):
    """Bulk bytes of one tenant and kind on one node: those that pass in a second, and those that wait for their turn.
    `tenant_bytes_per_s` is what the tenant may move on all nodes together, None without a limit."""

    node: str
    tenant: str
    kind: TransferKind
    bytes_per_s: int
    waiting_bytes: int
    tenant_bytes_per_s: int | None = None


class BreakerRow(Shown, frozen=True):
    """An endpoint that requests of a tenant from one node stay away from, because too many of them failed."""

    node: str
    endpoint: str
    tenant: str
    phase: BreakerPhase


class PausedJob(Shown, frozen=True):
    job: str
    endpoint: str


class TransfersView(Shown, frozen=True):
    """What moves now, most first; where requests stay away from; and which jobs wait for that."""

    transfers: tuple[TransferRow, ...]
    breakers: tuple[BreakerRow, ...] = ()
    paused: tuple[PausedJob, ...] = ()
