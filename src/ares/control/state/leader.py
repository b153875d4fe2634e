"""Leadership of a cluster's decision loops: one replica at a time, fenced like a job.

The key's create revision is the leader's fence: every binding compares it, so a deposed leader that
has not noticed yet cannot bind anything.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from ares.control.state.view import Delta, View
from ares.core import keys
from ares.model.state import LeaderRecord
from ares.model.timing import DEFAULT, Timing
from ares.ports.clock import Clock, happens
from ares.ports.store import Committed, Compare, Put, Store, StoreError

log = structlog.get_logger()

_RETRY_S = 1.0

# The loops to run while leading, given the guard that every decision must carry.
Reign = Callable[[Compare], Awaitable[None]]


def leads_for_s(view: View, clock: Clock) -> float | None:
    """How long the leader has led, by the wall clock; None when there is no leader."""
    return None if view.leader is None else max(0.0, clock.wall() - view.leader.elected_at)


class Leader:
    """Campaigns for ever; runs `reign` while elected and cancels it when the lease may be over."""

    def __init__(
        self,
        store: Store,
        view: View,
        clock: Clock,
        *,
        cluster: str,
        replica: str,
        exclusive: bool,
        timing: Timing = DEFAULT,
    ) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._key = keys.leader(cluster)
        self._replica = replica
        # An embedded store has one process: a leader recorded by an earlier process is dead.
        self._exclusive = exclusive
        self._ttl_s = timing.leader_ttl_s
        self._renew_every_s = timing.leader_renew_every_s
        self._vacant = asyncio.Event()
        self.leading = False
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.leader or delta.relisted:
            self._vacant.set()

    async def run(self, reign: Reign) -> None:
        while True:
            try:
                await self._campaign(reign)
            except StoreError as error:
                log.warning("leader.campaign_failed", error=str(error))
            await self._wait_vacant()

    async def _wait_vacant(self) -> None:
        self._vacant.clear()
        if self._view.leader is None:
            await self._clock.sleep(_RETRY_S / 10)
            return
        await happens(self._vacant, self._clock, self._ttl_s)

    async def _campaign(self, reign: Reign) -> None:
        asked_at = self._clock.monotonic()
        lease = await self._store.grant_lease(self._ttl_s)
        elected = await self._claim(lease)
        if elected is None:
            await self._store.revoke_lease(lease)
            return
        log.info("leader.elected", replica=self._replica, fence=elected)
        self.leading = True
        guard = Compare(self._key, "create_revision", elected)
        reigning = asyncio.ensure_future(reign(guard))
        keeping = asyncio.create_task(self._keep(lease, asked_at + self._ttl_s))
        try:
            await asyncio.wait({reigning, keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.leading = False
            for task in (reigning, keeping):
                task.cancel()
            results = await asyncio.gather(reigning, keeping, return_exceptions=True)
            _report(results)
            await self._resign(lease)

    async def _claim(self, lease: int) -> int | None:
        """The create revision of our leadership, or None when another replica leads."""
        value = msgspec.json.encode(LeaderRecord(replica=self._replica, elected_at=self._clock.wall()))
        then = [Put(self._key, value, lease)]
        written = await self._store.txn([Compare(self._key, "mod_revision", 0)], then)
        if isinstance(written, Committed) and written.succeeded:
            return written.revision
        kv = await self._store.get(self._key)
        if kv is not None and kv.value == value:
            return kv.create_revision
        if kv is not None and self._exclusive:
            await self._store.revoke_lease(kv.lease)
        return None

    async def _keep(self, lease: int, until: float) -> None:
        """Returns when the lease is lost, or may be over by this replica's clock."""
        while True:
            await self._clock.sleep(self._renew_every_s)
            sent = self._clock.monotonic()
            try:
                valid = await self._store.keep_alive(lease)
            except StoreError:
                valid = None
            if valid is not None and valid <= 0:
                return
            if valid is not None:
                until = sent + valid
            if self._clock.monotonic() >= until - self._renew_every_s / 2:
                return

    async def _resign(self, lease: int) -> None:
        log.info("leader.resigned", replica=self._replica)
        try:
            await self._store.revoke_lease(lease)
        except StoreError:
            # The lease runs out by itself.
            return


def _report(results: Sequence[BaseException | None]) -> None:
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, asyncio.CancelledError):
            log.error("leader.loop_failed", error=repr(result), exc_info=result)
