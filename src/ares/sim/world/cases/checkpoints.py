"""Checkpoints: saved, committed late or twice, and gone on from."""

import asyncio

from ares.core import keys
from ares.model.checkpoint import CheckpointPolicy
from ares.sim.world.stage import (
    DirectedCase,
    at_once,
    node_of,
    ordain,
    phase,
    plane_of,
    ready,
    starts,
    state_of,
    stream_of,
    submit,
    until,
)
from ares.sim.world.world import SimulatedWorld

_POLICY = CheckpointPolicy()


def _newest(world: SimulatedWorld, job: str) -> int:
    return state_of(world, job).get("checkpoint", {}).get("seq", 0)


async def _resumed(world: SimulatedWorld) -> None:
    """Its first attempt saves, and fails; the second goes on from what was saved."""
    await ready(world)
    job = await submit(world, 9.0, codes="1 0", checkpoint=_POLICY)
    await until(world, lambda: _newest(world, job) > 0)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _doubled(world: SimulatedWorld) -> None:
    """Every frame comes twice for a while: each report of a checkpoint is heard again after it was committed."""
    await ready(world)
    job = await submit(world, 12.0, checkpoint=_POLICY)
    await until(world, lambda: phase(world, job) == "RUNNING")
    world.network.doubled = 1.0
    await until(world, lambda: _newest(world, job) > 2)
    world.network.doubled = 0.0
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _zombie(world: SimulatedWorld) -> None:
    """A replica is frozen when it commits a checkpoint, and the node of the attempt loses its power. The replica wakes
    when the next attempt begins elsewhere."""
    await ready(world)
    job = await submit(world, 12.0, checkpoint=_POLICY)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    plane = plane_of(world, stream_of(world, node).up.far)
    plane.wire.late_s = (40.0, 40.0)

    def strike() -> None:
        plane.freeze()
        node.lose_power()

    ordain(plane, keys.CHECKPOINTS, "late", strike)
    await until(world, lambda: not node.up)
    again = at_once(world, starts, plane.thaw)
    await until(world, lambda: bool(again))
    node.start()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _crashed(world: SimulatedWorld) -> None:
    """The second checkpoint is on its way when its replica dies in the commit, and then the node loses its power: the
    next attempt has the first one to go on from."""
    await ready(world)
    job = await submit(world, 12.0, checkpoint=_POLICY)
    await until(world, lambda: _newest(world, job) > 0)
    plane = plane_of(world, stream_of(world, node_of(world, job)).up.far)
    node = node_of(world, job)

    def strike() -> None:
        plane.crash()
        node.lose_power()

    ordain(plane, keys.CHECKPOINTS, "request-lost", strike)
    await until(world, lambda: not plane.up)
    await asyncio.sleep(3.0)
    plane.start()
    node.start()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


CASES: dict[str, DirectedCase] = {
    "checkpoint-resumed": DirectedCase("an attempt fails, and the next goes on from its checkpoint", _resumed),
    "checkpoint-doubled": DirectedCase("reports of checkpoints come twice", _doubled, nodes=1),
    "checkpoint-zombie": DirectedCase("a checkpoint is committed late, of an attempt that is lost", _zombie),
    "checkpoint-crashed": DirectedCase("a replica and a node die in the commit of a checkpoint", _crashed),
}
