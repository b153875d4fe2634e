"""A silent control plane: is any replica alive? If none is, no job is placed elsewhere, and running attempts go on."""

from collections.abc import Callable

import structlog

from ares.agent.attempts.attempts import Attempts
from ares.agent.link.run_right import RunRight
from ares.model.link import StoreLock, Welcome
from ares.ports.clock import Clock
from ares.ports.link import Witness

_log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 1.0
# Share of the time between renewals. With less silence than this there is no need to look.
_SILENT_SHARE = 1.2


class Absence:
    """Looks at the lock that the control plane holds on its store, if its welcome named one."""

    def __init__(
        self, witness: Witness, run_right: RunRight, attempts: Attempts, clock: Clock, welcome: Callable[[], Welcome]
    ) -> None:
        self._witness = witness
        self._run_right = run_right
        self._attempts = attempts
        self._clock = clock
        self._welcome = welcome
        self._told = False

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        welcome, at = self._welcome(), self._clock.monotonic()
        silent = at - self._run_right.held_since() > _SILENT_SHARE * welcome.renew_every_s
        lock = welcome.store_lock
        if lock is None or not silent or not self._attempts.processes_left():
            self._told = self._told and silent
            return
        # The lease counts from before the look: a server that starts right after it counts from later.
        if not await self._free(lock) or not self._run_right.unjudged(at, lock.longest_s):
            return
        self._attempts.renewed()
        if not self._told:
            self._told = True
            _log.warning("agent.nobody_decides", lock=lock.path, jobs_go_on_s=round(self._left_s(), 1))

    async def _free(self, lock: StoreLock) -> bool:
        return await self._witness.free(lock)

    def _left_s(self) -> float:
        """How long attempts go on if no server starts."""
        lock = self._welcome().store_lock
        longest_s = 0.0 if lock is None else lock.longest_s * self._welcome().self_fence_ratio
        return self._run_right.held_since() + longest_s - self._clock.monotonic()
