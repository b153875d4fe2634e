"""Directed cases about absences: a component is away for a while and comes back in time, and jobs go on."""

import asyncio

import msgspec

from ares.core import keys
from ares.model.job import Gang
from ares.model.node import NodeLease
from ares.model.timing import DEFAULT
from ares.sim.world.node import SimulatedNode
from ares.sim.world.stage import (
    DirectedCase,
    at_once,
    cut_off,
    ends,
    node_of,
    phase,
    ready,
    starts,
    state_of,
    submit,
    until,
    writes,
)
from ares.sim.world.world import SimulatedWorld, Vain

# As the documents say: an agent or the only server may be away this long, whenever that begins.
AWAY_S = 4.0
# So long that the loss of a machine is no part of a new storm.
_LONG_S = 4 * DEFAULT.dead_after_s
# Just before the next renewal: the worst moment.
_BEFORE_RENEWAL_S = DEFAULT.renew_every_s - 0.05


async def _first_ends(world: SimulatedWorld, job: str) -> None:
    """The attempt that was running is the one that ends: nothing of it was repeated."""
    await until(world, lambda: phase(world, job) == "SUCCEEDED" and state_of(world, job)["attempt"] == 1)


async def _paused_agent(world: SimulatedWorld) -> None:
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


async def _killed_server(world: SimulatedWorld) -> None:
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


# ---- the only server is killed, and agents see that no server holds its store


async def _killed_beside(world: SimulatedWorld) -> None:
    """The only server is killed just before a renewal, and another is there 10 s later."""
    job, _ = await _running_on(world, 25.0)
    (plane,) = world.planes
    plane.crash()
    await asyncio.sleep(DEFAULT.restart_s)
    plane.start()
    await _first_ends(world, job)


async def _killed_for_long(world: SimulatedWorld) -> None:
    """The server stays away: attempts end before a restored store would let new ones begin, and are repeated."""
    job, _ = await _running_on(world, 25.0)
    (plane,) = world.planes
    ended = at_once(world, ends, lambda: None)
    killed_at = world.loop.time()
    plane.crash()
    await until(world, lambda: bool(ended))
    if not DEFAULT.restart_s < world.loop.time() - killed_at < DEFAULT.longest_s:
        raise Vain(f"the job was over {world.loop.time() - killed_at:.1f} s after the server")
    plane.start()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _cut_beside(world: SimulatedWorld) -> None:
    """The only server is alive, and one node does not reach it: its job goes on elsewhere, as soon as ever."""
    _, node = await _running_on(world, 20.0)
    (plane,) = world.planes
    again = at_once(world, starts, lambda: None)
    cut_off(world, node, [plane.name], cut=True, back=True)
    await until(world, lambda: bool(again))
    await asyncio.sleep(4.0)
    cut_off(world, node, [plane.name], cut=False, back=True)


async def _long_gone(world: SimulatedWorld) -> None:
    """One machine of five has been off for long when another one is lost: that is no storm."""
    await ready(world)
    job = await submit(world, 60.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    off = next(other for other in world.nodes if other is not node)
    off.crash()
    await asyncio.sleep(_LONG_S)
    node.crash()
    await until(world, lambda: phase(world, job) != "RUNNING")
    node.start()
    off.start()
    await world.people[0].cancel(job)


# ---- an agent is told to stop, a process dies


async def _told_to_stop(world: SimulatedWorld) -> None:
    """The agent of a running job is told to stop: the job goes on elsewhere, and no retry is used up."""
    await ready(world)
    job = await submit(world, 6.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node_of(world, job).tell_to_stop()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _killed_process(world: SimulatedWorld) -> None:
    """A job's process dies at once, without any message."""
    await ready(world)
    job = await submit(world, 6.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node_of(world, job).machine.die("killed")
    await until(world, lambda: state_of(world, job)["attempt"] == 2)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


# ---- the only server is stopped in order


async def _running_on(world: SimulatedWorld, runs_s: float) -> tuple[str, SimulatedNode]:
    """A running job and its node, just before the node renews."""
    await ready(world)
    job = await submit(world, runs_s)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    # By now the agent has stated the length of its lease.
    await asyncio.sleep(DEFAULT.renew_every_s)
    renewed = at_once(world, writes(f"{keys.LEASES}{node.name}"), lambda: None)
    await until(world, lambda: bool(renewed))
    await asyncio.sleep(_BEFORE_RENEWAL_S)
    return job, node


async def _stopped_server(world: SimulatedWorld) -> None:
    """The only server is stopped in order just before a renewal, and another is there 10 s later."""
    job, _ = await _running_on(world, 25.0)
    (plane,) = world.planes
    await plane.stop(DEFAULT.longest_s)
    await asyncio.sleep(DEFAULT.restart_s)
    plane.start()
    await _first_ends(world, job)


async def _stopped_and_cut(world: SimulatedWorld) -> None:
    """The only server is stopped in order and started again at once; one node does not find its way back. Its job runs
    until the longer lease is over, and no other node may start it before that."""
    _, node = await _running_on(world, 60.0)
    (plane,) = world.planes
    again = at_once(world, starts, lambda: None)
    await plane.stop(DEFAULT.longest_s)
    cut_off(world, node, [plane.name], cut=True, back=True)
    plane.start()
    await until(world, lambda: bool(again))
    await asyncio.sleep(4.0)
    cut_off(world, node, [plane.name], cut=False, back=True)


async def _lost_welcome(world: SimulatedWorld) -> None:
    """After such a restart a node's greeting arrives, and no answer comes back: it holds by the longer lease still."""
    _, node = await _running_on(world, 60.0)
    (plane,) = world.planes
    again = at_once(world, starts, lambda: None)
    await plane.stop(DEFAULT.longest_s)
    back = (plane.name, f"node {node.name}")
    at_once(world, writes(keys.lease(node.name)), lambda: world.network.set_cut(*back, True))
    plane.start()
    await until(world, lambda: bool(again))
    await asyncio.sleep(4.0)
    world.network.set_cut(*back, False)


async def _short_again(world: SimulatedWorld) -> None:
    """After such a restart, and a renewal or two, leases are as short as before: a lost node is found out in 10 s."""
    job, node = await _running_on(world, 20.0)
    (plane,) = world.planes
    await plane.stop(DEFAULT.longest_s)
    plane.start()
    await until(world, lambda: _lasts_s(world, node) == DEFAULT.dead_after_s)
    node.crash()
    await until(world, lambda: phase(world, job) != "RUNNING")
    node.start()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


def _lasts_s(world: SimulatedWorld, node: SimulatedNode) -> float:
    return msgspec.json.decode(world.store.snapshot()[keys.lease(node.name)].value, type=NodeLease).dead_after_s


CASES: dict[str, DirectedCase] = {
    "long-gone": DirectedCase("one of five machines has been off for long when another is lost", _long_gone, nodes=5),
    "told-to-stop": DirectedCase("the agent of a running job is told to stop", _told_to_stop),
    "killed-process": DirectedCase("a job's process dies without a word", _killed_process),
    "paused-agent": DirectedCase("a machine with a rank of a gang stands still for 4 s", _paused_agent),
    "killed-server": DirectedCase("the only server is killed and back after 4 s", _killed_server, replicas=1),
    "killed-beside": DirectedCase(
        "the server beside them is killed and back after 10 s", _killed_beside, 1, beside=True
    ),
    "killed-for-long": DirectedCase(
        "the server beside them is killed and stays away", _killed_for_long, 1, beside=True
    ),
    "cut-beside": DirectedCase("the server is alive, and a node beside it is cut off", _cut_beside, 1, beside=True),
    "stopped-server": DirectedCase(
        "the only server is stopped in order and back after 10 s", _stopped_server, replicas=1
    ),
    "stopped-and-cut": DirectedCase(
        "the server is restarted, and a node does not find back", _stopped_and_cut, replicas=1
    ),
    "lost-welcome": DirectedCase("the server is restarted, and a node hears no answer", _lost_welcome, replicas=1),
    "short-again": DirectedCase("after a restart a lost node is found out as soon as ever", _short_again, replicas=1),
}
