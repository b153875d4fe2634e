"""Answers that are lost or late, and messages that come twice or out of order."""

import asyncio

from ares.core import keys
from ares.model.link import ServerFrame
from ares.sim.world.network import Stream
from ares.sim.world.stage import (
    STEP_S,
    DirectedCase,
    at_once,
    cut_off,
    node_of,
    noting_starts,
    ordain,
    phase,
    plane_of,
    ready,
    starts,
    stream_of,
    submit,
    until,
    writes,
)
from ares.sim.world.store import Trouble
from ares.sim.world.world import Script, SimulatedWorld


def _end_meets(trouble: Trouble) -> Script:
    """A script: the commit of an attempt's end meets this trouble, once."""

    async def script(world: SimulatedWorld) -> None:
        await ready(world)
        for plane in world.planes:
            ordain(plane, keys.RESULTS, trouble)
        job = await submit(world, 2.0)
        await until(world, lambda: phase(world, job) in ("SUCCEEDED", "FAILED"))
        await asyncio.sleep(5.0)

    return script


async def _late_answer(world: SimulatedWorld) -> None:
    """A renewal is acknowledged to a node that is frozen just then. It wakes within its right, and no later renewal
    gets through: the right must end by the time that the renewal was sent."""
    await ready(world)
    job = await submit(world, 30.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    renewed = at_once(world, writes(f"{keys.LEASES}{node.name}"), lambda: node.freeze(whole=True))
    await until(world, lambda: bool(renewed))
    await asyncio.sleep(1.0)
    cut_off(world, node, [plane.name for plane in world.planes], cut=True, back=True)
    await asyncio.sleep(5.0)
    again = at_once(world, starts, lambda: None)
    # After a pause any component may run first: here it is the agent, before its slot looks at the clock.
    world.loop.thaw(node.component)
    await asyncio.sleep(STEP_S)
    node.thaw()
    await until(world, lambda: bool(again))
    await asyncio.sleep(4.0)
    cut_off(world, node, [plane.name for plane in world.planes], cut=False, back=True)


async def _jump_and_cut(world: SimulatedWorld) -> None:
    """The wall clocks of nodes jump by minutes, and one of them back again when its node is cut off: its right to run
    ends as if they had not."""
    await ready(world)
    for machine in world.nodes:
        machine.clock.jump_wall(300.0)
    await asyncio.sleep(6.0)
    job = await submit(world, 30.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node, everybody = node_of(world, job), [plane.name for plane in world.planes]
    again = at_once(world, starts, lambda: None)
    cut_off(world, node, everybody, cut=True, back=True)
    node.clock.jump_wall(-300.0)
    await until(world, lambda: bool(again))
    await asyncio.sleep(2.0)
    cut_off(world, node, everybody, cut=False, back=True)


async def _unrecorded(world: SimulatedWorld) -> None:
    """A replica is cut off from the store while an agent renews through it: what it cannot write it must not grant."""
    await ready(world)
    job = await submit(world, 30.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    plane = plane_of(world, stream_of(world, node).up.far)
    cut_off(world, node, [other.name for other in world.planes if other is not plane], cut=True, back=True)
    again = at_once(world, starts, lambda: None)
    plane.wire.set_cut(True)
    await until(world, lambda: bool(again))
    await asyncio.sleep(4.0)
    plane.wire.set_cut(False)
    cut_off(world, node, [other.name for other in world.planes], cut=False, back=True)


async def _doubled(world: SimulatedWorld) -> None:
    """Every message comes twice, and the start once more when the attempt is over."""
    starts: list[tuple[Stream, ServerFrame]] = []
    await ready(world)
    world.network.doubled = 1.0
    for stream in world.network.streams:
        stream.down.send = noting_starts(stream, starts)  # pyright: ignore[reportAttributeAccessIssue]
    job = await submit(world, 2.0)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")
    await asyncio.sleep(1.0)
    for stream, frame in tuple(starts):
        stream.down.send(frame)
    await asyncio.sleep(5.0)


async def _old_hello(world: SimulatedWorld) -> None:
    """The greeting of an agent that is dead by now arrives when its successor runs a job."""
    world.network.slow = 1.0
    await until(world, lambda: any(stream.up.near == "node n1" for stream in world.network.streams))
    node = world.nodes[0]
    far = stream_of(world, node).up.far
    cut_off(world, node, [far], cut=True)
    world.network.slow = 0.0
    node.crash()
    await asyncio.sleep(1.0)
    # The second node comes later: the job goes to the first.
    world.nodes[1].crash()
    node.start()
    job = await submit(world, 20.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    world.nodes[1].start()
    await asyncio.sleep(6.0)
    # It does not hear at once what the control plane thinks of it.
    served = stream_of(world, node).up.far
    world.network.set_cut(served, f"node {node.name}", True)
    cut_off(world, node, [far], cut=False)
    await asyncio.sleep(6.0)
    world.network.set_cut(served, f"node {node.name}", False)


async def _repeated_retry(world: SimulatedWorld) -> None:
    """The answer to a manual retry is lost. The client repeats it under the same request id, twice, through any
    replica: it is one retry. A cancel is repeated in the same way, and is no error."""
    await ready(world)
    person = world.people[0]
    job = await submit(world, 60.0)
    for _ in range(2):
        await person.cancel(job)
    for plane in world.planes:
        world.network.set_cut(plane.name, person.name, True)
    await person.retry(job, "once")
    for plane in world.planes:
        world.network.set_cut(plane.name, person.name, False)
    for _ in range(2):
        await person.retry(job, "once")
    made = person.jobs[-1]
    await until(world, lambda: phase(world, made) == "RUNNING")
    await person.cancel(made)


CASES: dict[str, DirectedCase] = {
    "repeated-retry": DirectedCase("the answer to a retry by hand is lost, and it is repeated", _repeated_retry),
    "lost-reply": DirectedCase("the answer to a commit is lost", _end_meets("reply-lost")),
    "refused-commit": DirectedCase("a commit is refused", _end_meets("refused")),
    "late-answer": DirectedCase("a renewal is acknowledged late", _late_answer),
    "jump-and-cut": DirectedCase("a node's wall clock jumps, then it is cut off", _jump_and_cut),
    "unrecorded-renewal": DirectedCase("renewals reach a replica that cannot write them down", _unrecorded),
    "doubled": DirectedCase("every message comes twice, and a start again when all is over", _doubled),
    "old-hello": DirectedCase("a dead agent's greeting arrives after its successor's", _old_hello),
}
