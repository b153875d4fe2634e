"""Output of jobs while the disk under the logs is full, for a while or for good."""

import asyncio

import msgspec

from ares.check.invariants.history import LogSeen
from ares.model.link import AgentFrame, AttemptRef, LogChunk
from ares.model.state import Fence
from ares.sim.world.stage import DirectedCase, node_of, phase, ready, state_of, stream_of, submit, until
from ares.sim.world.world import Script, SimulatedWorld

_SAYS = "what a program has to say\n" * 20


def _full_for(seconds: float) -> Script:
    async def script(world: SimulatedWorld) -> None:
        await ready(world)
        for plane in world.planes:
            plane.logs.full = True
        job = await submit(world, 2.0, says=_SAYS)
        await asyncio.sleep(seconds)
        for plane in world.planes:
            plane.logs.full = False
        await _seen(world, job)

    return script


async def _seen(world: SimulatedWorld, job: str) -> None:
    """What is in the log when the job has ended."""
    await until(world, lambda: phase(world, job) in ("SUCCEEDED", "FAILED"))
    kept = world.planes[0].logs.read("alpha", job, 1, 0, 0, 1 << 20)
    told = b"bytes of output are missing here" in kept
    world.recorder.add(LogSeen(t=world.recorder.now(), job=job, written=len(_SAYS), kept=len(kept), told=told))


async def _foreign(world: SimulatedWorld) -> None:
    """While a job runs on one node, the agent of the other one sends output in its name: of this attempt, and of one
    that does not exist."""
    await ready(world)
    job = await submit(world, 4.0, says=_SAYS)
    await until(world, lambda: phase(world, job) == "RUNNING")
    state = state_of(world, job)
    ref = AttemptRef(job=job, fence=msgspec.convert(state["fence"], Fence), tenant="alpha")
    other = next(node for node in world.nodes if node is not node_of(world, job))
    data = b"forged\n" * len(_SAYS)
    forged = tuple(LogChunk(ref=ref, rank=0, attempt=attempt, offset=0, data=data) for attempt in (1, 9))
    stream_of(world, other).up.send(AgentFrame(messages=forged))
    await _seen(world, job)


CASES: dict[str, DirectedCase] = {
    "foreign-log": DirectedCase("a node sends output of another node's job", _foreign),
    "full-logs": DirectedCase("the disk under the logs is full for a while", _full_for(20.0)),
    "full-logs-long": DirectedCase("the disk under the logs is full for longer than an end waits", _full_for(90.0)),
}
