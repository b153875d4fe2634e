"""Tenants that lend to each other and take back."""

import asyncio

from ares.model.access import Principal
from ares.model.profile import PreemptionPolicy, Profile, Share
from ares.sim.world.stage import DirectedCase, phase, ready, submit, until
from ares.sim.world.world import SimulatedWorld

_OPERATOR = Principal(token_id="operator", tenant="alpha", role="admin")
_OWN = Profile(
    preemption=PreemptionPolicy(gap=1, min_runtime_s=0.0, cooldown_s=0.0),
    shares={"alpha": Share(soft={"cpu": 1000}), "beta": Share(soft={"cpu": 1000})},
)


async def _borrowed(world: SimulatedWorld) -> None:
    """One tenant has all of a node, with jobs that matter more; the other takes its own part back for a job that
    matters less, and keeps it until that has ended."""
    await ready(world)
    replica = world.planes[0].replica
    assert replica is not None, "nothing has broken yet"
    await replica.profiles.put(_OPERATOR, _OWN)
    lent = [
        await submit(world, 30.0, number, cpu_milli=cpu_milli, priority="HIGH")
        for number, cpu_milli in enumerate((1000, 2000))
    ]
    await until(world, lambda: all(phase(world, job) == "RUNNING" for job in lent))
    # Longer than any scheduler may still go by what was true before.
    await asyncio.sleep(8.0)
    own = await submit(world, 12.0, by=1, cpu_milli=1000, priority="LOW")
    await until(world, lambda: phase(world, own) == "SUCCEEDED")
    await asyncio.sleep(1.0)


CASES: dict[str, DirectedCase] = {
    "borrowed": DirectedCase("what was lent is taken back, by a job that matters less", _borrowed, nodes=1, people=2),
}
