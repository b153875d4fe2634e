"""Finishes arrays whose submitter died between acknowledging them and creating their tasks."""

import structlog

from ares.control.state.view import View
from ares.control.submit.submit import Submit
from ares.ports.clock import Clock
from ares.ports.store import StoreError

log = structlog.get_logger()

_LOOK_EVERY_S = 2.0
# Leave the submitter time to do it itself.
_PATIENCE_S = 5.0


class Arrays:
    """Leader only."""

    def __init__(self, view: View, submit: Submit, clock: Clock) -> None:
        self._view = view
        self._submit = submit
        self._clock = clock

    async def run(self) -> None:
        first_seen: dict[str, float] = {}
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            now = self._clock.monotonic()
            waiting = [array for array in self._view.arrays.values() if not array.expanded]
            first_seen = {array.id: first_seen.get(array.id, now) for array in waiting}
            for array in waiting:
                if now - first_seen[array.id] < _PATIENCE_S:
                    continue
                try:
                    await self._submit.expand(array)
                except StoreError as error:
                    log.warning("array.delayed", array=array.id, error=str(error))
