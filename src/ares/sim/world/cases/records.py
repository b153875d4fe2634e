"""Records that cannot be used: what a version before believed of a machine, or what is no record at all."""

import asyncio

from ares.core import keys
from ares.ports.store import Put
from ares.sim.world.stage import DirectedCase, leader_of, phase, ready, submit, until
from ares.sim.world.world import SimulatedWorld

# More CPUs than columns of 64 bits can hold.
_HUGE = b'{"info":{"name":"n9","cpuMilli":9223372036854775808,"memoryMib":1024},"incarnation":1,"registeredAt":1.0}'


async def _unusable(world: SimulatedWorld) -> None:
    """A node's record says what no machine is. Jobs go on, also past a replica that finds it when it starts."""
    await ready(world)
    await world.store.txn([], [Put(keys.node("n9"), _HUGE)])
    job = await submit(world, 2.0)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")
    leader = leader_of(world)
    leader.crash()
    await asyncio.sleep(1.0)
    leader.start()
    again = await submit(world, 2.0, number=2)
    await until(world, lambda: phase(world, again) == "SUCCEEDED")


CASES: dict[str, DirectedCase] = {
    "unusable-record": DirectedCase("a node's record says what no machine is", _unusable),
}
