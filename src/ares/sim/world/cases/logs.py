"""Output of jobs while the disk under the logs is full, for a while or for good."""

import asyncio

from ares.sim.invariants.history import LogSeen
from ares.sim.world.stage import Case, phase, ready, submit, until
from ares.sim.world.world import Script, World

_SAYS = "what a program has to say\n" * 20


def _full_for(seconds: float) -> Script:
    async def script(world: World) -> None:
        await ready(world)
        for plane in world.planes:
            plane.logs.full = True
        job = await submit(world, 2.0, says=_SAYS)
        await asyncio.sleep(seconds)
        for plane in world.planes:
            plane.logs.full = False
        await until(world, lambda: phase(world, job) in ("SUCCEEDED", "FAILED"))
        kept = world.planes[0].logs.read("alpha", job, 1, 0, 0, 1 << 20)
        told = b"bytes of output are missing here" in kept
        world.recorder.add(LogSeen(t=world.recorder.now(), job=job, written=len(_SAYS), kept=len(kept), told=told))

    return script


CASES: dict[str, Case] = {
    "full-logs": Case("the disk under the logs is full for a while", _full_for(20.0)),
    "full-logs-long": Case("the disk under the logs is full for longer than an end waits", _full_for(90.0)),
}
