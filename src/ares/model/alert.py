"""Alerts: what an operator or a tenant must be told, and the channels that tell them."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import Note, Record, Slug
from ares.model.secret import SealedText

Severity = Literal["info", "warning", "critical"]
# Open: not yet seen to. Acknowledged: it is being seen to. Resolved: it is over.
AlertState = Literal["open", "acknowledged", "resolved"]
AlertKind = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$(?!\n)")]
# The owner: a tenant's name, or nothing for the platform itself.
PLATFORM = ""


class Sent(Record, frozen=True):
    """How far a channel is with an alert."""

    # The alert's episode when it was last sent; it is due again when the alert has begun anew since.
    episode: int = 0
    tries: int = 0
    # Wall-clock seconds; None while it has not arrived.
    arrived_at: float | None = None
    next_at: float = 0.0
    error: str = ""
    given_up: bool = False


class AlertRecord(Record, frozen=True):
    """One thing that is wrong. What happens again before it is forgotten is the same alert, counted."""

    id: str
    kind: AlertKind
    tenant: str
    subject: str
    text: str
    severity: Severity = "warning"
    numbers: dict[str, float] = {}
    state: AlertState = "open"
    # Grows each time the alert begins anew: channels are told once for each episode.
    episode: int = 1
    first_at: float = 0.0
    last_at: float = 0.0
    # How often it was raised in this episode.
    count: int = 1
    by: str = ""
    note: Note = ""
    # Deliveries by the whole name of a channel.
    sent: dict[str, Sent] = {}
    # Only these channels of its tenant are told, whatever alerts they carry. Empty: all that want it.
    channels: tuple[Slug, ...] = ()

    @property
    def delivery(self) -> str:
        """The id by which receivers know the alert: the same however often it is sent."""
        return f"{self.id}-{self.episode}"


ChannelKind = Literal["webhook", "email"]
_SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class ChannelRecord(Record, frozen=True):
    """Where alerts of a tenant, or of the platform, go to."""

    name: Slug
    kind: ChannelKind
    # The alerts it carries: of one tenant, or of the platform and with `all_tenants` of all tenants.
    tenant: str = PLATFORM
    # For a webhook. In the store both are empty and in `sealed`; `where` shows the host of the URL.
    url: Annotated[str, Meta(max_length=2000)] = ""
    # Signs what is sent to a webhook; never shown.
    secret: str = ""
    where: str = ""
    sealed: SealedText | None = None
    # For e-mail.
    to: Annotated[tuple[Annotated[str, Meta(max_length=254)], ...], Meta(max_length=20)] = ()
    # Only alerts of at least this severity, and of these kinds (all when none is named).
    severity: Severity = "info"
    kinds: Annotated[tuple[AlertKind, ...], Meta(max_length=50)] = ()
    all_tenants: bool = False
    enabled: bool = True
    created_at: float = 0.0
    created_by: str = ""

    def __repr__(self) -> str:
        return f"ChannelRecord({self.tenant or '-'}/{self.name}, {self.kind})"

    def wants(self, alert: AlertRecord) -> bool:
        """Whether the channel is to be told of `alert`."""
        mine = self.tenant == alert.tenant or (self.tenant == PLATFORM and self.all_tenants)
        loud = _SEVERITIES.index(alert.severity) >= _SEVERITIES.index(self.severity)
        return self.enabled and mine and loud and (not self.kinds or alert.kind in self.kinds)


class Notice(Record, frozen=True):
    """An alert as it is sent. The same `id` is the same notice, however often it comes."""

    id: str
    kind: str
    severity: str
    tenant: str
    subject: str
    text: str
    at: float
    numbers: dict[str, float] = {}

    @property
    def title(self) -> str:
        whose = self.tenant or "platform"
        return f"[{self.severity}] {whose}: {self.kind} {self.subject}"
