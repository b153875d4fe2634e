"""Storage of a simulated world: blobs, which may be slow, full, or other bytes than were given; and logs, real files on
a disk that may be full."""

import asyncio
import errno

from ares.adapters.blobs.memory import MemoryBlobs
from ares.adapters.logs.files import FileLogs
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


class SimLogs(FileLogs):
    # A fault: there is room for a line of Ares' own and for nothing else.
    full = False

    def append(
        self, tenant: str, job: str, attempt: int, rank: int, offset: int, data: bytes, *, note: bool = False
    ) -> int:
        if self.full and data and not note:
            raise OSError(errno.ENOSPC, "no space left on the device")
        return super().append(tenant, job, attempt, rank, offset, data, note=note)
