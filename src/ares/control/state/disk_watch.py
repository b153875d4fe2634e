"""Looks after the disks of a replica: tells people before the store itself is short of room."""

import structlog

from ares.control.governance.alerts import Alerts
from ares.ports.clock import Clock
from ares.ports.disk import Reserves

log = structlog.get_logger()

_LOOK_EVERY_S = 5.0


class DiskWatch:
    """`short` is what is lacking, in words, as of the last look; empty when nothing is."""

    def __init__(self, reserves: Reserves, alerts: Alerts, clock: Clock, replica: str) -> None:
        self._reserves = reserves
        self._alerts = alerts
        self._clock = clock
        self._replica = replica
        self.short = ""

    def look(self) -> str:
        """As it is now."""
        try:
            self.short = self._reserves.short()
        except OSError as error:
            self.short = f"the disk cannot be looked at: {error.strerror or error}"
        return self.short

    async def run(self) -> None:
        while True:
            before = self.short
            if lacking := self.look():
                text = f"{lacking}; output and files of jobs are not kept until there is room"
                await self._alerts.raise_("disk-reserve", "", f"replicas/{self._replica}", text, severity="critical")
            elif before:
                log.info("disk.has_room", replica=self._replica)
            await self._clock.sleep(_LOOK_EVERY_S)
