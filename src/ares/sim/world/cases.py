"""Directed cases: small worlds in which a script brings about, at the exact point, what chance seldom does.

The product keeps every promise in each of them. A seed moves the details: delays, jitter, who is asked first.
"""

import asyncio

from ares.core import keys
from ares.model.link import ServerFrame
from ares.sim.invariants.history import Event
from ares.sim.world.absences import killed_server, paused_agent
from ares.sim.world.network import Stream
from ares.sim.world.stage import (
    STEP_S,
    Case,
    ask_only,
    at_once,
    cordon,
    cut_off,
    ends,
    hold_back,
    leader_of,
    node_of,
    noting_starts,
    ordain,
    phase,
    plane_of,
    ready,
    serve_past,
    starts,
    stream_of,
    submit,
    submit_past,
    until,
    writes,
)
from ares.sim.world.store import Backup, Trouble
from ares.sim.world.world import Script, World

# ---- zombies


async def _zombie(world: World) -> None:
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


async def _zombie_elsewhere(world: World) -> None:
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


async def _frozen_agent(world: World) -> None:
    """An agent is frozen, and its job is not: nobody but its slot can end it before another attempt begins."""
    await ready(world)
    job = await submit(world, 20.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    node.freeze(whole=False)
    again = at_once(world, starts, lambda: None)
    await until(world, lambda: bool(again))
    node.thaw()
    await until(world, lambda: phase(world, job) == "SUCCEEDED")


async def _late_commit(world: World) -> None:
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


# ---- answers that are lost or late


def _end_meets(trouble: Trouble) -> Script:
    """What befalls the commit of an attempt's end, once."""

    async def script(world: World) -> None:
        await ready(world)
        for plane in world.planes:
            ordain(plane, keys.RESULTS, trouble)
        job = await submit(world, 2.0)
        await until(world, lambda: phase(world, job) in ("SUCCEEDED", "FAILED"))
        await asyncio.sleep(5.0)

    return script


async def _late_answer(world: World) -> None:
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
    # Who runs first after a pause is nobody's choice: here it is the agent, before its slot looks at the clock.
    world.loop.thaw(node.component)
    await asyncio.sleep(STEP_S)
    node.thaw()
    await until(world, lambda: bool(again))
    await asyncio.sleep(4.0)
    cut_off(world, node, [plane.name for plane in world.planes], cut=False, back=True)


async def _jump_and_cut(world: World) -> None:
    """The wall clocks of nodes jump by minutes, and one of them back again when its node is cut off: its right to run
    ends as if they had not."""
    await ready(world)
    for one in world.nodes:
        one.clock.jump_wall(300.0)
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


async def _unrecorded(world: World) -> None:
    """A replica is cut off from the store while an agent renews through it: what it cannot write it must not grant."""
    await ready(world)
    job = await submit(world, 30.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    plane = plane_of(world, stream_of(world, node).up.far)
    cut_off(world, node, [one.name for one in world.planes if one is not plane], cut=True, back=True)
    again = at_once(world, starts, lambda: None)
    plane.wire.set_cut(True)
    await until(world, lambda: bool(again))
    await asyncio.sleep(4.0)
    plane.wire.set_cut(False)
    cut_off(world, node, [one.name for one in world.planes], cut=False, back=True)


# ---- messages


async def _doubled(world: World) -> None:
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


async def _old_hello(world: World) -> None:
    """The greeting of an agent that is dead by now arrives when its successor runs a job."""
    world.network.slow = 1.0
    await until(world, lambda: any(one.up.near == "node n1" for one in world.network.streams))
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


# ---- leaders


async def _late_array(world: World) -> None:
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


async def _late_grant(world: World) -> None:
    """A binding is on its way for so long that it is made anew, and arrives when the job has ended."""
    await ready(world)
    leader = leader_of(world)
    leader.wire.late_s = (8.0, 8.0)
    ordain(leader, keys.STATE, "late")
    # Submissions write the same kind of key: they go through the other replica.
    job = await submit_past(world, leader)
    await until(world, lambda: phase(world, job) == "SUCCEEDED")
    await asyncio.sleep(10.0)


async def _old_leader(world: World) -> None:
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


async def _unsettled_grant(world: World) -> None:
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


# ---- the store


async def _restored(world: World) -> None:
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


# ---- watches


async def _gap(world: World) -> None:
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


async def _behind(world: World) -> None:
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


async def _blind_leader(world: World) -> None:
    """The leader's watch stands still while all nodes renew: silence that only it hears takes nothing away. The node
    could not be told just then, and has every right to go on."""
    await ready(world)
    leader = leader_of(world)
    for node in world.nodes:
        await serve_past(world, node, leader)
    job = await submit(world, 25.0)
    await until(world, lambda: phase(world, job) == "RUNNING")
    node = node_of(world, job)
    # Whoever takes it away has to start it elsewhere.
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


async def _wall_jump(world: World) -> None:
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


CASES: dict[str, Case] = {
    "zombie": Case("frozen between its process's end and the report, which comes late", _zombie, nodes=1),
    "zombie-elsewhere": Case("a frozen node wakes while its job runs elsewhere", _zombie_elsewhere),
    "frozen-agent": Case("a frozen agent's job runs on", _frozen_agent),
    "late-commit": Case("frozen between check and commit, for longer than another needs", _late_commit),
    "lost-reply": Case("the answer to a commit is lost", _end_meets("reply-lost")),
    "refused-commit": Case("a commit is refused", _end_meets("refused")),
    "late-answer": Case("a renewal is acknowledged late", _late_answer),
    "jump-and-cut": Case("a node's wall clock jumps, then it is cut off", _jump_and_cut),
    "unrecorded-renewal": Case("renewals reach a replica that cannot write them down", _unrecorded),
    "doubled": Case("every message comes twice, and a start again when all is over", _doubled),
    "old-hello": Case("a dead agent's greeting arrives after its successor's", _old_hello),
    "late-array": Case("an array's tasks arrive when they have ended", _late_array),
    "late-grant": Case("a binding arrives when the job has ended", _late_grant, nodes=1),
    "old-leader": Case("a leader is frozen inside a binding and replaced", _old_leader, nodes=1),
    "unsettled-grant": Case("a binding whose outcome is unknown arrives late", _unsettled_grant, nodes=1),
    "restored": Case("a restored store has forgotten an attempt that runs", _restored),
    "gap": Case("a watch outrun by a compaction", _gap),
    "behind": Case("a replica whose watch stands still answers", _behind),
    "wall-jump": Case("a leader's wall clock jumps", _wall_jump),
    "blind-leader": Case("a leader whose watch stands still judges nodes", _blind_leader),
    "paused-agent": Case("a machine with a rank of a gang stands still for 4 s", paused_agent),
    "killed-server": Case("the only server is killed and back after 4 s", killed_server, replicas=1),
}  # fmt: skip
