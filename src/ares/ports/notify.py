"""Tells people: one notice by one channel."""

from typing import Protocol

from ares.model.alert import ChannelRecord, Notice


class NotDelivered(Exception):
    """The notice did not arrive, or that is not known. With `final` there is no use in trying again."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class Notifier(Protocol):
    async def send(self, channel: ChannelRecord, notice: Notice) -> None:
        """Returns when the receiver has it; raises NotDelivered."""
        ...

    def unusable(self, channel: ChannelRecord) -> str | None:
        """Why this server cannot use such a channel at all."""
        ...
