"""Is the platform well? Each part with its verdict, and how old what is known of it is."""

from typing import Literal

from ares.model.base import Shown

PartVerdict = Literal["ok", "warn", "bad"]
PartKind = Literal["leader", "replica", "store", "disk", "nodes", "node", "certificate", "backup", "records", "alerts"]


class StatusPart(Shown, frozen=True):
    """One part. `age_s` is the age of the newest sign of it, None where there is no such thing."""

    kind: PartKind
    name: str
    verdict: PartVerdict
    message: str
    age_s: float | None = None


class PlatformStatus(Shown, frozen=True):
    """As one replica sees it. `verdict` is that of the worst part; parts that are not well come first."""

    at: float
    replica: str
    cluster: str
    verdict: PartVerdict
    parts: tuple[StatusPart, ...]
    # Further parts that are not well, beyond the most that are shown.
    left_out: int = 0
