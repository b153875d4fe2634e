"""A restored store, and replicas whose view of it is stuck."""

import asyncio

from ares.core import keys
from ares.sim.world.stage import (
    DirectedCase,
    at_once,
    cordon,
    leader_of,
    node_of,
    phase,
    ready,
    serve_past,
    stream_of,
    submit,
    submit_past,
    until,
    writes,
)
from ares.sim.world.store import Backup
from ares.sim.world.world import SimulatedWorld


async def _restored(world: SimulatedWorld) -> None:
    """The store goes back to before a job was bound, while the attempt that it forgot runs."""
    await ready(world)
    backup = at_once(world, writes(keys.REQUESTS), lambda: copies.append(world.store.backup()))
    copies: list[Backup] = []
    job = await submit(world, 30.0)
    await until(world, lambda: bool(backup) and phase(world, job) == "RUNNING")
    for plane in world.planes:
        plane.crash()
    world.store.restore(copies[0])
    for plane in world.planes:
        plane.start()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _gap(world: SimulatedWorld) -> None:
    """The leader's watch falls so far behind that the store has forgotten what it missed: a job among that."""
    await ready(world)
    leader = leader_of(world)
    leader.wire.hold_watch()
    # What it has in hand it is still given: something else than the job.
    await asyncio.sleep(5.0)
    job = await submit_past(world, leader)
    world.store.compact()
    leader.wire.release_watch()
    await asyncio.sleep(5.0)
    await world.people[0].look(job)


async def _behind(world: SimulatedWorld) -> None:
    """One replica's watch stands still while a client asks this one and the other in turn."""
    await ready(world)
    job = await submit(world, 4.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    served = stream_of(world, node_of(world, job)).up.far
    plane = next(plane for plane in world.planes if plane.name != served)
    plane.wire.hold_watch()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")
    for _ in range(12):
        await world.people[0].look(job)
    plane.wire.release_watch()


async def _blind_leader(world: SimulatedWorld) -> None:
    """The leader's watch stands still while all nodes renew: silence that only it hears takes nothing away. The node
    could not be told just then, and has every right to go on."""
    await ready(world)
    leader = leader_of(world)
    for node in world.nodes:
        await serve_past(world, node, leader)
    job = await submit(world, 25.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    # A leader that takes the job from this node must start it on another one.
    await cordon(world, node, leader)
    served = stream_of(world, node).up.far
    renewed = at_once(world, writes(f"{keys.LEASES}{node.name}"), lambda: None)
    await until(world, lambda: bool(renewed))
    await asyncio.sleep(0.05)
    leader.wire.hold_watch()
    await asyncio.sleep(5.0)
    world.network.set_cut(served, f"node {node.name}", True)
    await asyncio.sleep(4.8)
    leader.wire.release_watch()
    await asyncio.sleep(4.0)
    world.network.set_cut(served, f"node {node.name}", False)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _wall_jump(world: SimulatedWorld) -> None:
    """The leader's wall clock jumps by minutes. A node that could not be told anything just then goes on."""
    await ready(world)
    leader = leader_of(world)
    for node in world.nodes:
        await serve_past(world, node, leader)
    job = await submit(world, 25.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    served = stream_of(world, node).up.far
    renewed = at_once(world, writes(f"{keys.LEASES}{node.name}"), lambda: None)
    await until(world, lambda: bool(renewed))
    await asyncio.sleep(0.1)
    world.network.set_cut(served, f"node {node.name}", True)
    leader.clock.jump_wall(300.0)
    await asyncio.sleep(6.0)
    world.network.set_cut(served, f"node {node.name}", False)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


CASES: dict[str, DirectedCase] = {
    "restored": DirectedCase("a restored store has forgotten an attempt that runs", _restored),
    "gap": DirectedCase("a watch outrun by a compaction", _gap),
    "behind": DirectedCase("a replica whose watch stands still answers", _behind),
    "wall-jump": DirectedCase("a leader's wall clock jumps", _wall_jump),
    "blind-leader": DirectedCase("a leader whose watch stands still judges nodes", _blind_leader),
}
