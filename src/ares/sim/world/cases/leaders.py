"""Leaders that are replaced while they decide."""

import asyncio
from collections.abc import Sequence

from ares.core import keys
from ares.sim.world.plane import Moods
from ares.sim.world.stage import (
    DirectedCase,
    ask_only,
    leader_of,
    ordain,
    phase,
    ready,
    serve_past,
    submit,
    submit_past,
    until,
)
from ares.sim.world.world import SimulatedWorld


async def _late_array(world: SimulatedWorld) -> None:
    """The tasks of an array are on their way for so long that the leader makes them, and arrive when they are done."""
    await ready(world)
    for plane in world.planes:
        plane.wire.late_s = (14.0, 14.0)
        ordain(plane, keys.STATE, "late")
    job = await submit(world, 1.0, array="0-1")
    for plane in world.planes:
        plane.wire.ordained = None
    await until(world, lambda: all(phase(world, f"{job}_{task}") == "SUCCEEDED" for task in (0, 1)))
    await asyncio.sleep(12.0)


async def _late_grant(world: SimulatedWorld) -> None:
    """A binding is on its way for so long that it is made anew, and arrives when the job has ended."""
    await ready(world)
    leader = leader_of(world)
    leader.wire.late_s = (8.0, 8.0)
    ordain(leader, keys.STATE, "late")
    # Submissions write the same kind of key: they go through the other replica.
    job = await submit_past(world, leader)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")
    await asyncio.sleep(10.0)


async def _old_leader(world: SimulatedWorld) -> None:
    """A leader is frozen inside a binding and replaced. The binding arrives when another leads, and the job still
    waits, as its node is away."""
    await ready(world)
    leader, node = leader_of(world), world.nodes[0]
    await serve_past(world, node, leader)
    leader.wire.late_s = (12.0, 12.0)

    def strike() -> None:
        leader.freeze()
        node.crash()

    ordain(leader, keys.STATE, "late", strike)
    job = await submit_past(world, leader)
    await asyncio.sleep(14.0)
    leader.thaw()
    node.start()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _unsettled_grant(world: SimulatedWorld) -> None:
    """A leader cannot find out whether a binding was made. The place looks free, a more urgent job comes for it, and
    the binding arrives after all."""
    await ready(world)
    leader = leader_of(world)
    leader.wire.late_s = (4.8, 4.8)
    wire = leader.wire

    def strike() -> None:
        # Just when it would look.
        world.loop.call_later(1.8, wire.set_cut, True)
        world.loop.call_later(2.4, wire.set_cut, False)

    ordain(leader, keys.STATE, "late", strike)
    ask_only(world, [plane for plane in world.planes if plane is not leader])
    first = await submit(world, 6.0, priority="LOW")
    second = await submit(world, 6.0, 2, priority="CRITICAL")
    await until(world, lambda: phase(world, first) == phase(world, second) == "SUCCEEDED")


async def _old_plan(world: SimulatedWorld) -> None:
    """A job fails, another takes its place, and the planner goes on with what it said when the node was free."""
    await ready(world)
    moods = world.planes[0].moods
    job = await submit(world, 1.0, codes="1 0")
    await until(world, lambda: phase(world, job) == "RUNNING")
    after = await submit(world, 6.0, number=2, priority="HIGH")
    await until(world, lambda: phase(world, after) in ("STAGING", "RUNNING"))

    def as_before(earlier: Sequence[bytes]) -> bytes | None:
        return earlier[0] if earlier else None

    moods.instead = as_before
    await asyncio.sleep(3.0)
    moods.instead = Moods.instead.__get__(moods)
    await until(world, lambda: phase(world, job) == phase(world, after) == "SUCCEEDED")


async def _same_room(world: SimulatedWorld) -> None:
    """Jobs of two tenants want the only node when it is free again. Each waits with a planner of its own, and both
    planners give the node away in one round."""
    await ready(world)
    before = await submit(world, 4.0)
    await until(world, lambda: phase(world, before) == "RUNNING")
    jobs = [await submit(world, 4.0, number=2, by=person) for person in (0, 1)]
    await until(world, lambda: all(phase(world, job) == "SUCCEEDED" for job in jobs))


CASES: dict[str, DirectedCase] = {
    "same-room": DirectedCase(
        "two planners give the same room away", _same_room, replicas=1, nodes=1, people=2, planners=2
    ),
    "old-plan": DirectedCase("the planner says what it said before", _old_plan, replicas=1, nodes=1),
    "late-array": DirectedCase("an array's tasks arrive when they have ended", _late_array),
    "late-grant": DirectedCase("a binding arrives when the job has ended", _late_grant, nodes=1),
    "old-leader": DirectedCase("a leader is frozen inside a binding and replaced", _old_leader, nodes=1),
    "unsettled-grant": DirectedCase("a binding whose outcome is unknown arrives late", _unsettled_grant, nodes=1),
}
