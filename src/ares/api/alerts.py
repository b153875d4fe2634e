"""Channels that alerts are sent by."""

from ares.model.alert import AlertKind, ChannelKind, Severity
from ares.model.base import Record, Shown


class ChannelView(Record, frozen=True):
    """All that anybody is told about a channel: of a URL the host, since its path is often a secret."""

    name: str
    tenant: str
    kind: ChannelKind
    where: str
    severity: Severity
    kinds: tuple[AlertKind, ...]
    all_tenants: bool
    enabled: bool
    created_at: float
    created_by: str


class SavedChannel(Shown, frozen=True):
    """`secret` signs webhooks, and is shown when it is new and never again."""

    channel: ChannelView
    secret: str = ""

    def __repr__(self) -> str:
        return f"SavedChannel({self.channel.name})"


class TestAnswer(Shown, frozen=True):
    """Whether a test notice arrived, and if not, why."""

    arrived: bool
    error: str = ""
