"""Frozen agents and nodes that come back, and ends that are reported or committed late."""

import asyncio

from ares.check.invariants.history import Event
from ares.core import keys
from ares.sim.world.stage import (
    DirectedCase,
    at_once,
    ends,
    hold_back,
    node_of,
    ordain,
    phase,
    plane_of,
    ready,
    starts,
    stream_of,
    submit,
    until,
)
from ares.sim.world.world import SimulatedWorld


async def _zombie(world: SimulatedWorld) -> None:
    """An agent is frozen between the end of its process and the report. Its job is taken away and runs again; the old
    report, held back on the way to one replica, arrives while the new attempt runs on the same node."""
    await ready(world)
    node = world.nodes[0]
    at_once(world, ends, lambda: node.freeze(whole=False))
    job = await submit(world, 6.0)
    await until(world, lambda: phase(world, job) == "RETRYING")
    release = hold_back(world, stream_of(world, node))
    again = at_once(world, starts, lambda: None)
    node.thaw()
    await until(world, lambda: bool(again))
    release()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _zombie_elsewhere(world: SimulatedWorld) -> None:
    """A whole node is frozen while its job runs, long enough for another attempt to begin elsewhere, then wakes."""
    await ready(world)
    again: list[Event] = []
    job = await submit(world, 12.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    node.freeze(whole=True)
    again = at_once(world, starts, lambda: None)
    await until(world, lambda: bool(again))
    node.thaw()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _frozen_agent(world: SimulatedWorld) -> None:
    """An agent is frozen, and its job is not: only its slot can end it before another attempt begins."""
    await ready(world)
    job = await submit(world, 20.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    node.freeze(whole=False)
    again = at_once(world, starts, lambda: None)
    await until(world, lambda: bool(again))
    node.thaw()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _late_commit(world: SimulatedWorld) -> None:
    """A replica is frozen between its check of an attempt's end and the write, which arrives when the end is long
    committed through another replica."""
    await ready(world)
    job = await submit(world, 2.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    plane = plane_of(world, stream_of(world, node_of(world, job)).up.far)
    plane.wire.late_s = (14.0, 14.0)
    ordain(plane, keys.RESULTS, "late", plane.freeze)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")
    await asyncio.sleep(15.0)
    plane.thaw()


CASES: dict[str, DirectedCase] = {
    "zombie": DirectedCase("frozen between its process's end and the report, which comes late", _zombie, nodes=1),
    "zombie-elsewhere": DirectedCase("a frozen node wakes while its job runs elsewhere", _zombie_elsewhere),
    "frozen-agent": DirectedCase("a frozen agent's job runs on", _frozen_agent),
    "late-commit": DirectedCase("frozen between check and commit, for longer than another needs", _late_commit),
}
