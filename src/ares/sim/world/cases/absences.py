"""Directed cases about who is away for a while and comes back in time: what runs goes on."""

import asyncio

from ares.core import keys
from ares.model.job import Gang
from ares.model.timing import DEFAULT
from ares.sim.world.stage import Case, at_once, node_of, phase, ready, state_of, submit, until, writes
from ares.sim.world.world import World

# As the documents say: an agent or the only server may be away this long, whenever that begins.
AWAY_S = 4.0
# Just before the next renewal: the worst moment.
_BEFORE_RENEWAL_S = DEFAULT.renew_every_s - 0.05


async def _first_ends(world: World, job: str) -> None:
    """The attempt that was running is the one that ends: nothing of it was repeated."""
    await until(world, lambda: phase(world, job) == "SUCCEEDED" and state_of(world, job)["attempt"] == 1)


async def _paused_agent(world: World) -> None:
    """A machine with a rank of a gang stands still for 4 s from just before a renewal."""
    await ready(world)
    job = await submit(world, 12.0, gang=Gang(ranks=2))
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    renewed = at_once(world, writes(f"{keys.LEASES}{node.name}"), lambda: None)
    await until(world, lambda: bool(renewed))
    await asyncio.sleep(_BEFORE_RENEWAL_S)
    node.freeze(whole=True)
    await asyncio.sleep(AWAY_S)
    node.thaw()
    await _first_ends(world, job)


async def _killed_server(world: World) -> None:
    """The only server is killed just before a renewal, and another is there 4 s later."""
    await ready(world)
    job = await submit(world, 15.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    (plane,) = world.planes
    renewed = at_once(world, writes(f"{keys.LEASES}{node_of(world, job).name}"), lambda: None)
    await until(world, lambda: bool(renewed))
    await asyncio.sleep(_BEFORE_RENEWAL_S)
    plane.crash()
    await asyncio.sleep(AWAY_S)
    plane.start()
    await _first_ends(world, job)


CASES: dict[str, Case] = {
    "paused-agent": Case("a machine with a rank of a gang stands still for 4 s", _paused_agent),
    "killed-server": Case("the only server is killed and back after 4 s", _killed_server, replicas=1),
}
