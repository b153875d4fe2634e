"""What tenants hold in a bucket. It is counted by listing, once an hour, and by every write in between."""

import asyncio
import errno
import time
from typing import Final

from ares.adapters.objects.bucket import Bucket

_MIB: Final = 1 << 20
_COUNT_EVERY_S: Final = 3600.0


class BucketRoom:
    """The check before a write. Without limits nothing is counted."""

    def __init__(self, bucket: Bucket, mib_max: int = 0, objects_max: int = 0) -> None:
        self._bucket = bucket
        self._bytes_max, self._objects_max = mib_max * _MIB, objects_max
        # Of each tenant: bytes, objects, and when they were counted.
        self._used: dict[str, tuple[int, int, float]] = {}
        self._counting: dict[str, asyncio.Lock] = {}

    async def charge(self, tenant: str, size: int) -> None:
        """Raises OSError (EDQUOT) when the tenant would hold too much."""
        if not self._bytes_max:
            return
        held, objects, at = await self._counted(tenant)
        if held + size > self._bytes_max:
            text = f"tenant {tenant} holds {held // _MIB:,} MiB of {self._bytes_max // _MIB:,} MiB that it may"
            raise OSError(errno.EDQUOT, text)
        if objects >= self._objects_max:
            raise OSError(errno.EDQUOT, f"tenant {tenant} holds {objects:,} files, of {self._objects_max:,}")
        self._used[tenant] = (held + size, objects + 1, at)

    def give_back(self, tenant: str, size: int) -> None:
        if (used := self._used.get(tenant)) is not None:
            self._used[tenant] = (max(0, used[0] - size), max(0, used[1] - 1), used[2])

    async def _counted(self, tenant: str) -> tuple[int, int, float]:
        async with self._counting.setdefault(tenant, asyncio.Lock()):
            used = self._used.get(tenant)
            if used is None or time.monotonic() - used[2] > _COUNT_EVERY_S:
                held = objects = 0
                async for found in self._bucket.listed(f"tenants/{tenant}/"):
                    held += found.size
                    objects += 1
                used = self._used[tenant] = (held, objects, time.monotonic())
            return used
