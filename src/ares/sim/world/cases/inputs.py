"""Datasets on their way to a node: interrupted, wrong at first, at a tenant's rate, and published anew meanwhile."""

import asyncio

from ares.control.execution.transfers import RateLeases
from ares.model.access import Principal
from ares.model.job import DataInput
from ares.sim.world.data import NAME
from ares.sim.world.operator import SLOW_LINK
from ares.sim.world.stage import (
    DirectedCase,
    leader_of,
    node_of,
    phase,
    ready,
    submit,
    until,
)
from ares.sim.world.world import SimulatedWorld

_ADMIN = Principal(token_id="operator", tenant="alpha", role="admin")
_INPUTS = (DataInput(name="data", from_=f"ares://datasets/{NAME}"),)
_COPIED = (DataInput(name="data", from_=f"ares://datasets/{NAME}", mode="copy"),)


async def _published(world: SimulatedWorld) -> None:
    person = world.people[0]
    assert person.data is not None, "the case has data"
    await person.data.publish(person.call)


async def _limited(world: SimulatedWorld) -> None:
    """The tenant's bytes pass at a rate: fetching takes seconds."""
    replica = leader_of(world).replica
    assert replica is not None, "the leader is up"
    await replica.quotas.put(_ADMIN, "alpha", SLOW_LINK)
    leases: RateLeases = replica.leases
    await until(world, lambda: "alpha" in leases.rates())
    await asyncio.sleep(2.0)


async def _staging(world: SimulatedWorld, job: str) -> None:
    await until(world, lambda: phase(world, job) == "STAGING")
    await asyncio.sleep(0.5)


async def _interrupted(world: SimulatedWorld) -> None:
    """The agent dies in the middle of a fetch, and comes again: the next attempt goes on with what is there."""
    await ready(world)
    await _published(world)
    await _limited(world)
    job = await submit(world, 1.0, inputs=_INPUTS)
    await _staging(world, job)
    node = node_of(world, job)
    node.crash()
    await asyncio.sleep(1.0)
    node.start()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _lied(world: SimulatedWorld) -> None:
    """The store of files gives other bytes at first."""
    await ready(world)
    await _published(world)
    world.files.lies = 2
    job = await submit(world, 1.0, inputs=_COPIED)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _clock_set_back(world: SimulatedWorld) -> None:
    """The node's wall clock is set back by an hour while a tenant's bytes wait for their turn."""
    await ready(world)
    await _published(world)
    await _limited(world)
    job = await submit(world, 1.0, inputs=_INPUTS)
    await _staging(world, job)
    node_of(world, job).clock.jump_wall(-3600.0)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _published_anew(world: SimulatedWorld) -> None:
    """Another version is published while a job waits for its files, and then one that reads it: each has its own."""
    await ready(world)
    await _published(world)
    world.files.slow_s = 1.0
    first = await submit(world, 1.0, inputs=_INPUTS)
    await _published(world)
    second = await submit(world, 1.0, number=2, inputs=_INPUTS)
    for job in (first, second):
        await until(world, lambda job=job: phase(world, job) == "SUCCEEDED")


CASES: dict[str, DirectedCase] = {
    "input-interrupted": DirectedCase("an agent dies while it fetches data", _interrupted, nodes=1, data=True),
    "input-lied": DirectedCase("files come with other bytes at first", _lied, data=True),
    "input-clock": DirectedCase("a clock is set back while bytes wait for their turn", _clock_set_back, data=True),
    "input-anew": DirectedCase("data is published anew while a job waits for its files", _published_anew, data=True),
}
