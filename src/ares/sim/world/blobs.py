"""Blob storage of a simulated world: it may be slow, full, or store less or other bytes than it got."""

import asyncio
import errno

from ares.adapters.blobs.memory import MemoryBlobs
from ares.model.link import AttemptRef
from ares.ports.blobs import Mismatch
from ares.sim.world.clocks import Chance
from ares.sim.world.loop import SimLoop


class SimBlobs(MemoryBlobs):
    def __init__(self, loop: SimLoop, chance: Chance) -> None:
        super().__init__(loop.time)
        self._chance = chance
        # Share of calls that something happens to.
        self.rate = 0.0

    async def append(self, ref: AttemptRef, sha256: str, offset: int, data: bytes) -> int:
        if self.rate and self._chance(self.rate):
            data = await self._harmed(data)
        return await super().append(ref, sha256, offset, data)

    async def seal(self, ref: AttemptRef, sha256: str, size: int) -> Mismatch | None:
        if self.rate and self._chance(self.rate):
            await self._harmed(b"")
        return await super().seal(ref, sha256, size)

    async def _harmed(self, data: bytes) -> bytes:
        match self._chance.pick(("slow", "full", "short", "wrong")):
            case "slow":
                await asyncio.sleep(self._chance.between(0.2, 3.0))
            case "full":
                raise OSError(errno.ENOSPC, "no space left on the device")
            case "short":
                return data[: len(data) // 2]
            case _:
                return bytes([data[0] ^ 1]) + data[1:] if data else data
        return data
