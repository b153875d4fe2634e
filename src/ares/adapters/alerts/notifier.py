"""Every kind of channel behind one port."""

from collections.abc import Callable, Sequence

from ares.adapters.alerts.email import Email, Smtp
from ares.adapters.alerts.webhook import TIMEOUT_S, Webhook
from ares.model.alert import ChannelKind, ChannelRecord, Notice


class ChannelNotifier:
    def __init__(
        self, wall: Callable[[], float], *, smtp: Smtp, allow: Sequence[str] = (), timeout_s: float = TIMEOUT_S
    ) -> None:
        self._kinds: dict[ChannelKind, Webhook | Email] = {
            "webhook": Webhook(wall, allow, timeout_s),
            "email": Email(smtp),
        }

    def unusable(self, channel: ChannelRecord) -> str | None:
        return self._kinds[channel.kind].unusable(channel)

    async def send(self, channel: ChannelRecord, notice: Notice) -> None:
        await self._kinds[channel.kind].send(channel, notice)
