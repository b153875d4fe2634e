"""Keeps one job from filling the disk that all jobs share: the largest one is ended before the disk is full."""

import asyncio
import os
from collections.abc import Callable

from ares.agent.attempts.attempts import Attempts
from ares.agent.attempts.workspace import used_bytes
from ares.ports.clock import Clock

_MIB = 1 << 20


def free_bytes(path: str) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


class DiskGuard:
    def __init__(
        self,
        attempts: Attempts,
        clock: Clock,
        limits: tuple[int, int],
        free: Callable[[], int],
        look_every_s: float,
    ) -> None:
        """`limits`: bytes that stay free on the disk, and bytes that one attempt may hold, where 0 sets no limit."""
        self._attempts = attempts
        self._clock = clock
        self._reserve_bytes, self._share_bytes = limits
        self._free = free
        self._look_every_s = look_every_s

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._look_every_s)
            await self.check()

    async def check(self) -> None:
        """Ends attempts over their limit. On a disk that is short, also the largest one, if it holds more than is
        free: ending a small one would not help."""
        short = (free := self._free()) < self._reserve_bytes
        if not (short or self._share_bytes):
            return
        running = self._attempts.running()
        sizes = await asyncio.to_thread(lambda: [used_bytes(attempt.folder) for attempt in running])
        for size, attempt in zip(sizes, running, strict=True) if self._share_bytes else ():
            if size > self._share_bytes:
                self._attempts.end_by_force(
                    attempt,
                    f"ended because its directory holds {size // _MIB} MiB, and this node allows "
                    f"{self._share_bytes // _MIB} MiB (node.sandbox.workspace_mib)",
                )
        if not short:
            return
        size, attempt = max(zip(sizes, running, strict=True), key=lambda pair: pair[0], default=(0, None))
        if attempt is not None and size > free:
            self._attempts.end_by_force(
                attempt,
                f"ended because the node's disk is nearly full: {free // _MIB} MiB are left "
                f"and this job holds {size // _MIB} MiB in its directory",
            )
