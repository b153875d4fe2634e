"""After a restore: nothing is granted before every attempt from the lost time has ended by itself.

A node that is cut off may run an attempt that the restored store does not know, until its lease ends. So the first
leader of an epoch waits for that time, once, and records that it has passed.
"""

import msgspec
import structlog

from ares.core import keys
from ares.model.timing import Timing
from ares.ports.clock import Clock
from ares.ports.store import Committed, Compare, Put, Store, StoreError

log = structlog.get_logger()

# A store that was never restored has nothing to wait for.
_FIRST_EPOCH = 1
_STORE_PAUSE_S = 0.2


class Settling:
    def __init__(self, store: Store, clock: Clock, timing: Timing, epoch: int) -> None:
        self._store = store
        self._clock = clock
        self._timing = timing
        self._epoch = epoch

    async def wait(self, guard: Compare) -> None:
        """Returns when the epoch is settled, or when this leadership is over."""
        if await self.is_settled():
            return
        log.warning("restored.waiting", epoch=self._epoch, seconds=self._timing.longest_s)
        await self._clock.sleep(self._timing.longest_s)
        while not await self._write(guard):
            await self._clock.sleep(_STORE_PAUSE_S)

    async def is_settled(self) -> bool:
        """Whether nothing from before the restore can still run; of a store that was never restored at once."""
        while self._epoch != _FIRST_EPOCH:
            try:
                kv = await self._store.get(keys.SETTLED)
            except StoreError:
                await self._clock.sleep(_STORE_PAUSE_S)
                continue
            return kv is not None and msgspec.json.decode(kv.value, type=int) >= self._epoch
        return True

    async def _write(self, guard: Compare) -> bool:
        """Whether the store has decided, also when it refused the write: then another replica leads."""
        try:
            written = await self._store.txn([guard], [Put(keys.SETTLED, msgspec.json.encode(self._epoch))])
        except StoreError:
            return False
        return isinstance(written, Committed)
