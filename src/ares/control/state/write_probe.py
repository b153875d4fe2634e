"""Whether the store accepts writes now: tested by a write, on demand, and at most every few seconds."""

import asyncio
import math
from typing import Final

import msgspec

from ares.core import keys
from ares.model.state import StoreProof
from ares.ports.clock import Clock
from ares.ports.store import Put, Store, StoreError, StoreFull, Unknown

# For this long the last result is used.
_FRESH_S: Final = 2.0
# A caller waits this long for a write under way ...
_WAIT_S: Final = 1.0
# ... and a result that is older proves nothing any more.
_PROVEN_S: Final = 10.0


class WriteProbe:
    """The result of the last write. Concurrent callers share one write."""

    def __init__(self, store: Store, clock: Clock, replica: str) -> None:
        self._store = store
        self._clock = clock
        self._replica = replica
        self._asking: asyncio.Task[None] | None = None
        self._asked_at = self._proven_at = float("-inf")
        # Why the store refused the last write; empty when it did not.
        self._refused = ""

    @property
    def age_s(self) -> float:
        """Seconds since the newest durable write was begun."""
        return self._clock.monotonic() - self._proven_at

    async def missing(self) -> str:
        """Why it is not proven that the store works; empty when it is."""
        now = self._clock.monotonic()
        if self._asking is None and now - self._asked_at >= _FRESH_S:
            self._asked_at = now
            self._asking = asyncio.create_task(self._write(now))
        if self._asking is not None:
            await asyncio.wait({self._asking}, timeout=_WAIT_S)
        if self._refused:
            return self._refused
        if self.age_s <= _PROVEN_S:
            return ""
        since = f"for {self.age_s:.0f} s" if math.isfinite(self._proven_at) else "yet"
        return f"no write came through {since}"

    async def _write(self, began: float) -> None:
        value = msgspec.json.encode(StoreProof(replica=self._replica, at=self._clock.wall()))
        try:
            outcome = await self._store.txn([], [Put(keys.PROOF, value)])
        except StoreError as error:
            self._refused = "it is full" if isinstance(error, StoreFull) else f"it does not answer: {error}"
        else:
            self._refused = ""
            # Unknown is no proof of either.
            if not isinstance(outcome, Unknown):
                self._proven_at = began
        finally:
            self._asking = None
